"""The regularized incomplete gamma functions, each computed from the smaller of the two."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from netcl.core.expr import Expr, apply
from netcl.core.expr import cast as cast_expr
from netcl.ops.domains import few
from netcl.ops.normal_distribution import scaled_complement
from netcl.ops.series import fitted, floating, polynomial
from netcl.ops.table import WRITTEN, expression

_LARGE = 20.0  # the least a of Temme's expansion


@cache
def _expansion(exact: bool) -> tuple[tuple[float, ...], ...]:
    """Coefficients of Temme's expansion, DLMF 8.12.7 to 8.12.12: by powers of 1 / a, in each by powers of eta."""
    unit, most = (1e-16, 34) if exact else (1e-9, 16)
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, 2 * most + 4):
        total = sum((j * alpha[j] * alpha[n - j + 1] for j in range(2, n)), Fraction(0))
        alpha.append((alpha[n - 1] - total) / (n + 1))
    first = [Fraction(-1, 3), *((n + 2) * alpha[n + 2] for n in range(1, len(alpha) - 2))]
    rows, double_factorial = [first], 1
    for k in range(1, most // 2):
        double_factorial *= 2 * k + 1
        gamma = (-1) ** k * double_factorial * alpha[2 * k + 1]
        rows.append([gamma * first[n] + (n + 2) * rows[-1][n + 2] for n in range(len(rows[-1]) - 2)])
    kept = []
    for k, row in enumerate(rows):
        large = [n for n, each in enumerate(row[:most]) if abs(each) > unit * _LARGE**k]
        if large:
            kept.append(tuple(float(each) for each in row[: large[-1] + 1]))
    return tuple(kept)


_lgamma = np.vectorize(math.lgamma, otypes=[float])


def _slope_of_lgamma(a: Any) -> Any:
    """lgamma(1 + a) / a."""
    return _lgamma(1 + a) / a


def _excess(mu: Any) -> Any:
    """(mu - log(1 + mu)) / mu^2, by its series near 0, where the difference has no digits."""
    k = np.arange(60).reshape(-1, *(1,) * np.ndim(mu))
    near = ((-np.asarray(mu)) ** k / (k + 2)).sum(0)
    return np.where(abs(mu) < 0.4, near, (mu - np.log1p(mu)) / mu**2)


def _stirling(inverse: Any) -> Any:
    """sqrt(a / (2 pi)) (e / a)^a gamma(a) over 1 / a, by Stirling's series at a + 20 and the recurrence."""
    a = 1 / inverse
    b = a + 20
    series = 1 / (12 * b) - 1 / (360 * b**3) + 1 / (1260 * b**5) - 1 / (1680 * b**7)
    return np.exp(series + (b - 0.5) * np.log1p(20 / a) - 20 - sum(np.log1p(k / a) for k in range(1, 20)))


def _parts(a: Expr, x: Expr) -> tuple[Expr, Expr]:
    """The lower and the upper function of positive finite ``a`` and ``x``."""
    exact = a.dtype == "float64"
    unit = cast_expr(1.0, a.dtype)
    # x^a exp(-x) / gamma(1 + a), as exp(-a (mu - log(1 + mu))) if a is not small
    small = a < 1.0
    tiny, normal = apply("where", small, a, 0.5), apply("where", small, 1.0, a)
    logarithm = apply("log", x) * tiny - fitted(_slope_of_lgamma, 0, 1, tiny) * tiny
    mu = (x - normal) / normal
    close = apply("abs", mu) < 0.5
    excess = mu * mu * fitted(_excess, -0.5, 0.5, apply("where", close, mu, 0.0))
    half_square = apply("where", close, excess, mu - apply("log", x / normal))
    decay = apply("exp", -(normal * half_square))
    root = apply("rsqrt", normal * (2 * math.pi))
    inverse = 1.0 / normal
    factor = apply("where", small, apply("exp", logarithm - x), decay * root / fitted(_stirling, 0, 1, inverse))

    # Temme's expansion for |eta| < 1
    size = apply("sqrt", half_square * 2.0)
    eta = apply("where", mu < 0.0, -size, size)
    uniform = (a > _LARGE) & (size < 1.0)
    inner = apply("where", uniform, eta, 0.0)
    correction = cast_expr(0.0, a.dtype)
    for row in reversed(_expansion(exact)):
        correction = correction * inverse + polynomial(row, inner)
    signed = apply("where", mu < 0.0, -correction, correction)
    normal_part = scaled_complement(apply("where", uniform, size, 0.0) * apply("sqrt", normal * 0.5)) * 0.5
    tail = decay * (normal_part + signed * root)

    # the power series for the lower function, and the continued fraction for the upper one
    lower = x <= apply("maximum", a, 1.0)
    before = apply("where", uniform, 0.5, apply("where", lower, x, 0.5))
    after = apply("where", uniform, 8.0, apply("where", lower, 8.0, x))
    of_series, of_fraction = apply("where", uniform, 1.0, a), apply("where", uniform | lower, 1.0, a)
    series = unit
    for n in range(52 if exact else 32, 0, -1):
        series = series * before / (of_series + float(n)) + 1.0
    levels = 90 if exact else 24
    fraction = after + (2.0 * levels + 1) - of_fraction
    for n in range(levels, 0, -1):
        fraction = after + (2.0 * n - 1) - of_fraction - (float(n) - of_fraction) * float(n) / fraction
    below = factor * series
    above = factor * of_fraction / fraction

    # 1 minus the power series in x alone (Abramowitz and Stegun 1964, 6.5.29), as the lower function is near 1
    rest = cast_expr(0.0, a.dtype)
    point = apply("where", small & lower, x, 0.5)
    for n in range(20 if exact else 12, 0, -1):
        rest = (1.0 / (tiny + float(n)) + rest) * point * (-1.0 / n)
    complement = -apply("expm1", logarithm) - apply("exp", logarithm) * tiny * rest

    from_above = apply("where", uniform, mu >= 0.0, apply("logical_not", lower))
    value = apply("where", uniform, tail, apply("where", lower, below, above))
    upper = apply("where", from_above, value, apply("where", small, complement, 1.0 - value))
    return apply("where", from_above, 1.0 - value, value), upper


def _regularized(a: Expr, b: Expr, upper: bool) -> Expr:
    both = floating(apply("add", a, b)).dtype
    order, value = cast_expr(a, both), cast_expr(b, both)
    inside = (order > 0.0) & (value > 0.0) & apply("isfinite", order) & apply("isfinite", value)
    result = _parts(apply("where", inside, order, 1.0), apply("where", inside, value, 1.0))[upper]
    nan, start, end = (cast_expr(limit, both) for limit in (math.nan, float(upper), 1.0 - upper))
    infinite = apply("isinf", value)
    # In PyTorch's order, where the last is taken; NaN is lost if the other operand is at an end.
    ends = apply("where", infinite, end, nan)
    ends = apply("where", apply("isinf", order), apply("where", infinite, nan, start), ends)
    ends = apply("where", apply("eq", value, 0.0), start, ends)
    ends = apply("where", apply("eq", order, 0.0), apply("where", value > 0.0, end, nan), ends)
    ends = apply("where", (order < 0.0) | (value < 0.0), nan, ends)
    return apply("where", inside, result, ends)


def _integral(a: Any, x: Any) -> Any:
    """The lower function by the double exponential rule for t = x s^(1 / a)."""
    t = np.arange(-4, 4, 0.02)
    s = 0.5 * (1 + np.tanh(np.pi / 2 * np.sinh(t)))
    weights = 0.02 * np.pi / 4 * np.cosh(t) / np.cosh(np.pi / 2 * np.sinh(t)) ** 2
    a, x = np.asarray(a)[..., None], np.asarray(x)[..., None]
    return (weights * np.exp(-x * s ** (1 / a) + a * np.log(x) - _lgamma(1 + a))).sum(-1)


@expression(amp="float32", domain=few(_integral, (0.3, 8), (0.2, 12), gradient=False), forms=WRITTEN)
def igamma(a: Expr, b: Expr) -> Expr:
    """The lower regularized incomplete gamma function, the integral of t^(a - 1) exp(-t) / gamma(a) from 0 to b; only
    ``b`` has a gradient.
    """
    return _regularized(a, b, False)


@expression(
    amp="float32", domain=few(lambda a, x: 1 - _integral(a, x), (0.3, 8), (0.2, 12), gradient=False), forms=WRITTEN
)
def igammac(a: Expr, b: Expr) -> Expr:
    """The upper regularized incomplete gamma function, 1 - igamma(a, b); only ``b`` has a gradient."""
    return _regularized(a, b, True)
