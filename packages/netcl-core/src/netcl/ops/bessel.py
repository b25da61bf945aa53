"""Modified Bessel functions of order 0 and 1, and those scaled by exp(-|x|)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.expr import Expr, apply
from netcl.core.expr import cast as cast_expr
from netcl.ops.domains import few
from netcl.ops.table import expression


def _modified(x: Expr, order: int, scaled: bool) -> Expr:
    """Returns the power series for small |x|, and the asymptotic series beyond (Abramowitz and Stegun 1964, 9.6.10,
    9.7.1).
    """
    value = x if is_floating(x.dtype) else cast_expr(x, "float32")
    exact = value.dtype == "float64"
    limit, terms, far_terms = (20.0, 52, 30) if exact else (10.0, 28, 12)
    size = apply("abs", value)
    near = size < limit
    inner = apply("where", near, value, 1.0)  # with its sign, as |x| has no derivative at 0
    quarter = inner * inner * 0.25
    series: Expr = cast_expr(1.0, value.dtype)
    for k in range(terms, 0, -1):
        series = series * quarter * (1.0 / (k * (k + order))) + 1.0
    if order:
        series = series * inner * 0.5
    outer = apply("where", near, limit, size)
    inverse = 1.0 / outer
    tail: Expr = cast_expr(1.0, value.dtype)
    for k in range(far_terms, 0, -1):
        tail = tail * inverse * (((2 * k - 1) ** 2 - 4 * order) / (8.0 * k)) + 1.0
    if scaled:
        # Infinity as it is: 2 pi x of the largest numbers would be infinite, too.
        below = apply("where", apply("isinf", outer), outer, outer * 0.125)
        far = apply("rsqrt", below * (2 * math.pi)) * math.sqrt(0.125) * tail
        series = series * apply("exp", -apply("abs", inner))
    else:
        half = apply("exp", outer * 0.5)  # twice, as exp(x) overflows before the quotient does
        # Beyond 1e4 exp(x) is infinite in every dtype. Of the largest numbers 2 pi x would be, too, and make NaN of it,
        # as only infinity does in NumPy and PyTorch.
        below = apply("where", apply("isinf", outer), outer, apply("minimum", outer, 1e4))
        far = half * (half * (apply("rsqrt", below * (2 * math.pi)) * tail))
    return apply("where", near, series, apply("where", value < 0.0, -far, far) if order else far)


def _i1(x: Any) -> Any:
    """Computes its integral by the trapezoidal rule, which is exact to rounding for periodic functions."""
    angles = (np.arange(400) + 0.5) * np.pi / 400
    return (np.exp(np.asarray(x)[..., None] * np.cos(angles)) * np.cos(angles)).mean(-1)


@expression(amp="float32", domain=few(np.i0, (-11, 11), kinks=(0.0,)))
def i0(x: Expr) -> Expr:
    """Returns the modified Bessel function of order zero."""
    return _modified(x, 0, False)


@expression(amp="float32", domain=few(lambda x: np.i0(x) * np.exp(-np.abs(x)), (-11, 11), kinks=(0.0,)))
def i0e(x: Expr) -> Expr:
    """Returns exp(-|x|) i0(x), without overflow."""
    return _modified(x, 0, True)


@expression(amp="float32", domain=few(_i1, (-11, 11), kinks=(0.0,)))
def i1(x: Expr) -> Expr:
    """Returns the modified Bessel function of order one."""
    return _modified(x, 1, False)


@expression(amp="float32", domain=few(lambda x: _i1(x) * np.exp(-np.abs(x)), (-11, 11), kinks=(0.0,)))
def i1e(x: Expr) -> Expr:
    """Returns exp(-|x|) i1(x), without overflow."""
    return _modified(x, 1, True)
