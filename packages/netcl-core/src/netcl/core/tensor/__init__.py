"""The tensor: its data and storage, creation, operators and methods. ``Tensor`` is loaded at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.siblings import refuse_stranger

refuse_stranger(__name__)  # another project's front imports these folders of netcl in place of its own modules

if TYPE_CHECKING:
    from netcl.core.tensor.tensor import Tensor, _dtype_nbytes, _np_dtype

__all__ = ["Tensor", "_dtype_nbytes", "_np_dtype"]


def __getattr__(name: str) -> Any:
    # Not at import: backends import the data of tensors from this package, and Tensor imports the backends' registry.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from netcl.core.tensor import tensor

    return getattr(tensor, name)
