"""The dtypes that operands promote to, as PyTorch's functions give them."""

from __future__ import annotations

from typing import Any

from netcl.core.dtypes import OBJECTS, DType, canonical, get_default_dtype, is_floating, kind, promote
from netcl.core.errors import from_here
from netcl.core.tensor.tensor import Tensor


def promote_types(type1: Any, type2: Any) -> DType:
    """Returns the dtype that holds both: within a kind the wider one, else that of the higher kind.

    Raises DTypeError for uint64 with a signed integer.

    >>> promote_types("int32", "float16")
    netcl.float16
    """
    return OBJECTS[promote(canonical(type1), canonical(type2))]


def can_cast(from_: Any, to: Any) -> bool:
    """True unless the conversion is from floats to integers, or from numbers to bool.

    >>> can_cast("int64", "float16"), can_cast("float32", "int64"), can_cast("int8", "bool")
    (True, False, False)
    """
    return kind(from_) <= kind(to)


def result_type(tensor: Any, other: Any) -> DType:
    """Returns the dtype of an operation on two tensors or Python numbers: numbers count less than 0-d tensors, and
    those less than other tensors, unless they are of a higher kind.

    >>> result_type(1, 2.5)
    netcl.float32
    """
    ranked: list[str] = ["", "", ""]  # tensors with axes, 0-d tensors, numbers
    name: str
    for value in (tensor, other):
        if isinstance(value, Tensor):
            level, name = (0 if value.ndim else 1), value.dtype
        elif isinstance(value, (bool, int, float)):
            level = 2
            name = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else ""
            name = name or get_default_dtype()
        else:
            raise TypeError(f"result_type: expected tensors and numbers, got {type(value).__name__}")
        ranked[level] = promote(ranked[level], name) if ranked[level] else name
    return OBJECTS[_combined(ranked[0], _combined(ranked[1], ranked[2]))]


def _combined(higher: str, lower: str) -> str:
    """The dtype of operands that count more and operands that count less."""
    if not higher or not lower:
        return higher or lower
    if is_floating(higher):
        return higher
    return promote(higher, lower) if kind(lower) > kind(higher) else higher


from_here(globals())
