"""Expressions of functions by their Chebyshev series, with coefficients computed from NumPy functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.expr import Expr
from netcl.core.expr import cast as cast_expr


def floating(x: Expr) -> Expr:
    """Returns ``x``, as float32 if it is not floating."""
    return x if is_floating(x.dtype) else cast_expr(x, "float32")


def polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Returns the polynomial with ``coefficients``, of the lowest power first, by Horner's rule."""
    result: Expr = cast_expr(coefficients[-1], x.dtype)
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


@cache
def _coefficients(function: Callable[[Any], Any], low: float, high: float, exact: bool) -> tuple[float, ...]:
    """Those of ``function`` interpolated at 48 Chebyshev points, without the last ones that rounding hides."""
    from numpy.polynomial.chebyshev import chebinterpolate

    coefficients = chebinterpolate(lambda t: function((high + low) / 2 + (high - low) / 2 * t), 47)
    least = (2.0**-52 if exact else 2.0**-27) * abs(coefficients).max()
    return tuple(coefficients[: 1 + np.nonzero(abs(coefficients) > least)[0].max()].tolist())


def fitted(function: Callable[[Any], Any], low: float, high: float, x: Expr) -> Expr:
    """Returns ``function``, smooth and of NumPy arrays of float64, of an ``x`` between ``low`` and ``high``.

    Its Chebyshev series is computed when it is first used, and evaluated by Clenshaw's recurrence.
    """
    first, *others = _coefficients(function, low, high, x.dtype == "float64")
    t = x * (2.0 / (high - low)) - (high + low) / (high - low)
    after: Expr = cast_expr(0.0, x.dtype)
    value: Expr = cast_expr(0.0, x.dtype)
    for coefficient in reversed(others):
        value, after = (t + t) * value - after + coefficient, value
    return t * value - after + first
