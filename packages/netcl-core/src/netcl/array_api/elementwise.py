"""Elementwise functions of the array API standard: rows, and the few without a row."""

from __future__ import annotations

from typing import Any

from netcl.array_api.array import floor_quotient, returns_arrays
from netcl.array_api.creation import zeros_like
from netcl.array_api.of_rows import *  # noqa: F403
from netcl.array_api.of_rows import FUNCTIONS
from netcl.array_api.promotion import converted
from netcl.array_api.rows import defined, row
from netcl.core.dtypes import integer_range, is_integer
from netcl.core.errors import DTypeError
from netcl.core.tensor import Tensor


@returns_arrays
def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """Returns floor(x1 / x2), with the standard's special cases: infinity divided by a finite number is infinity, and
    -1 by infinity -0. The op, and the operator of plain tensors, follow Python and NumPy.
    """
    return floor_quotient(x1, x2)  # type: ignore[no-any-return]


@returns_arrays
def positive(x: Tensor, /) -> Tensor:
    """Returns a copy of x."""
    return x.clone()


@returns_arrays
def conj(x: Tensor, /) -> Tensor:
    """Returns a copy: all dtypes are real."""
    return x.clone()


@returns_arrays
def real(x: Tensor, /) -> Tensor:
    """Returns a copy: all dtypes are real."""
    return x.clone()


@returns_arrays
def imag(x: Tensor, /) -> Tensor:
    """Returns zeros: all dtypes are real."""
    return zeros_like(x)


@returns_arrays
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Returns min(max(x, min), max) in x's dtype; None is no limit. Bounds are numbers, or tensors that broadcast."""
    result = x if min is not None or max is not None else x.clone()
    for bound, of in ((min, row("maximum")), (max, row("minimum"))):
        if bound is None:
            continue
        if isinstance(bound, Tensor):
            bound = converted(bound, x.dtype)
        elif is_integer(x.dtype):
            if isinstance(bound, float) and not bound.is_integer():
                raise DTypeError(
                    f"clip: expected a bound in the range of {x.dtype}, got {bound}; convert x with astype"
                )
            low, high = integer_range(x.dtype)
            bound = _limited(int(bound), low, high)
        result = of(result, bound)
    return result


def _limited(number: int, low: int, high: int) -> int:
    """Returns ``number`` limited to [low, high]."""
    return low if number < low else high if number > high else number


__all__ = sorted([*FUNCTIONS, *defined(globals())])
