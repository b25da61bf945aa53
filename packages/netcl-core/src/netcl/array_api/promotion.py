"""Promotion by the array API standard: 0-d tensors count like others, and only Python numbers are weak."""

from __future__ import annotations

from typing import Any

from netcl.array_api.rows import row
from netcl.core.dtypes import is_floating, is_integer, is_unsigned, promote
from netcl.core.tensor import Tensor


def accumulated(dtype: str) -> str:
    """Returns the standard's dtype for sums of ``dtype``: the widest of its kind for integers, int64 for bool."""
    if is_floating(dtype):
        return dtype
    return "uint64" if is_integer(dtype) and is_unsigned(dtype) else "int64"


def together(*values: Any) -> list[Any]:
    """Returns the operands with all tensors, 0-d ones too, in their promoted dtype; numbers stay."""
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    if len(dtypes) < 2:
        return list(values)
    promoted = promote(*dtypes)
    return [converted(value, promoted) if isinstance(value, Tensor) else value for value in values]


def converted(x: Tensor, dtype: str) -> Tensor:
    """Returns ``x`` in ``dtype``, recorded."""
    return x if x.dtype == dtype else row("cast")(x, dtype=dtype)
