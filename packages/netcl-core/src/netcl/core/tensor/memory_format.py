"""PyTorch's memory formats and layouts as objects: tensors have one layout, so that a format changes no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from netcl.core.process import naming


class _Named:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return f"{naming.library}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(_Named):
    """An order of axes in memory: ``channels_last``, ``contiguous_format`` and others. Tensors are stored in C order;
    functions that take a format give the same values, shapes and order for all of them.
    """

    __slots__ = ()


class layout(_Named):
    """A way to store elements: ``strided``, the layout of all tensors, and the layouts of ``SparseTensor``."""

    __slots__ = ()


contiguous_format: memory_format = memory_format("contiguous_format")
legacy_contiguous_format: memory_format = contiguous_format
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")
sparse_csr: layout = layout("sparse_csr")


def check_format(op: str, given: Any) -> None:
    """Raises TypeError unless ``given`` is a memory format or None."""
    if given is not None and not isinstance(given, memory_format):
        raise TypeError(f"{op}: expected a memory_format such as nc.channels_last, got {given!r}")


class Accepted(TypedDict, total=False):
    """Arguments of functions that make tensors that mean one thing here: one layout, one format. Copies go through
    pinned memory where the driver has it, regardless of ``pin_memory``.
    """

    layout: Any
    pin_memory: bool | None
    memory_format: Any


def check_accepted(op: str, given: Mapping[str, Any]) -> None:
    """Raises TypeError for a keyword that is none of ``Accepted``, and for a layout other than ``strided``."""
    if not given:
        return
    for name in given:
        if name not in Accepted.__annotations__:
            raise TypeError(f"{op}() got an unexpected keyword argument {name!r}")
    if given.get("layout") not in (None, strided):
        raise TypeError(f"{op}: expected the layout nc.strided, got {given['layout']!r}; write x.to_sparse()")
    check_format(op, given.get("memory_format"))
