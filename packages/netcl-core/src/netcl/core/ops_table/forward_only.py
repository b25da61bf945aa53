"""The warning about gradients that are lost: a function of ``netcl.ops`` is called on a tensor that requires grad."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from netcl.core.dtypes import is_floating
from netcl.core.errors import ForwardOnlyWarning
from netcl.core.process.user_frame import call_site, level_outside
from netcl.core.storage.data import TensorData

_warned: set[tuple[str, int, str]] = set()


def warn(name: str, result: Any) -> None:
    """Warns, once for each call site, that the op ``name`` gave ``result`` without a gradient. Nothing is lost if the
    result has no floating dtype. A warning that a filter turns into an error is raised each time.
    """
    results = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(each, TensorData) and is_floating(each.dtype) for each in results):
        return
    site = (*call_site(), name)
    if site in _warned:
        return
    # Ops that are registered by users are attributes of netcl.autograd only.
    front = "netcl" if name in getattr(sys.modules.get("netcl.ops"), "__all__", ()) else "netcl.autograd"
    warnings.warn(
        f"netcl.ops.{name} is forward only: its result does not require grad, although an operand does; call "
        f"{front}.{name}, or use no_grad() or detach() if no gradient is wanted",
        ForwardOnlyWarning,
        stacklevel=level_outside(),
    )
    _warned.add(site)
