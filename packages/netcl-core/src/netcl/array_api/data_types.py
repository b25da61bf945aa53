"""Data types of the array API standard: their names, limits, kinds and promotion."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from netcl.array_api.array import returns_arrays
from netcl.core.dtypes import (
    canonical,
    integer_range,
    is_floating,
    itemsize,
    kind,
    numpy_dtype,
    promote,
)
from netcl.core.errors import DTypeError
from netcl.core.tensor import Tensor

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATING = ("float32", "float64")

# By the kinds of the standard; netcl has no complex dtypes.
KINDS: dict[str, tuple[str, ...]] = {
    "bool": BOOL,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATING,
    "complex floating": (),
    "numeric": SIGNED + UNSIGNED + FLOATING,
}


class DataType:
    """A dtype of the namespace: it equals netcl's name of the dtype, a tensor's ``dtype``, and has the same hash."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, which ``np.dtype`` reads."""
        return numpy_dtype(self.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DataType):
            return self.name == other.name
        return self.name == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"netcl.array_api.{self.name}"

    __str__ = __repr__


class FloatLimits(NamedTuple):
    """The limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntegerLimits(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def dtype_of(value: Any) -> str:
    """Returns the dtype of a tensor, or the canonical name of a dtype."""
    return value.dtype if isinstance(value, Tensor) else canonical(value)


@returns_arrays
def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Returns ``x`` in ``dtype``, as a copy unless ``copy`` is False and nothing changes."""
    result = x if device is None else x.to(device)
    result = result.astype(dtype)
    return result.clone() if copy and result is x else result


def can_cast(from_: Any, to: Any, /) -> bool:
    """True if the promotion of ``from_``, a dtype or a tensor, with ``to`` is ``to``, within one kind."""
    source, target = dtype_of(from_), canonical(to)
    if kind(source) != kind(target):
        return False
    try:
        return promote(source, target) == target
    except DTypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """Returns the limits of a floating dtype, or of a tensor's."""
    name = dtype_of(type)
    if not is_floating(name):
        raise DTypeError(f"finfo: expected a floating dtype, got {name}; iinfo is for integers")
    if name == "bfloat16":
        return FloatLimits(16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, -(2 - 2.0**-7) * 2.0**127, 2.0**-126, type_of(name))
    limits: Any = np.finfo(name)
    smallest = float(limits.smallest_normal)
    return FloatLimits(limits.bits, float(limits.eps), float(limits.max), float(limits.min), smallest, type_of(name))


def iinfo(type: Any, /) -> IntegerLimits:
    """Returns the limits of an integer dtype, or of a tensor's."""
    name = dtype_of(type)
    low, high = integer_range(name)
    return IntegerLimits(8 * itemsize(name), high, low, type_of(name))


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if ``dtype`` is ``kind``: a dtype, one of the standard's kinds ("integral"), or one of a tuple of them.

    Raises ValueError for an unknown kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, member) for member in kind)
    name = canonical(dtype)
    if kind in KINDS and kind != "bool":
        floating = kind in ("real floating", "numeric") and is_floating(name)
        return name in KINDS[kind] or floating
    try:
        return name == canonical(kind)
    except DTypeError:
        raise ValueError(f"isdtype: {kind!r} is no dtype and none of the kinds {', '.join(KINDS)}") from None


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Returns the promoted dtype of tensors, dtypes and Python numbers; the latter are weak, 0-d tensors are not.

    Raises ValueError without a tensor or dtype.
    """
    dtypes = [type(value) if isinstance(value, (bool, int, float)) else dtype_of(value) for value in arrays_and_dtypes]
    if not any(isinstance(item, str) for item in dtypes):
        raise ValueError("result_type needs a tensor or a dtype")
    return type_of(promote(*dtypes))


def type_of(name: str) -> DataType:
    """Returns the dtype object of a canonical name."""
    return _objects.setdefault(name, DataType(name))


_objects: dict[str, DataType] = {}
