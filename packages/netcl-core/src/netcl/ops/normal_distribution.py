"""The normal distribution function, its logarithm and its inverse, the scaled erfc, and entropies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.expr import Expr, apply, special
from netcl.core.expr import cast as cast_expr
from netcl.ops.domains import few
from netcl.ops.series import floating, polynomial
from netcl.ops.table import OpFunction, elementwise, expression


def _scaled_tail(x: Expr) -> Expr:
    """Returns exp(x^2) erfc(x) for x >= 1.25, by the rational approximations of ``expr.special``."""
    s = 1.0 / (x * x)
    near = polynomial(special.P_MIDDLE, s) / polynomial(special.Q_MIDDLE, s)
    far = polynomial(special.P_FAR, s) / polynomial(special.Q_FAR, s)
    return apply("exp", apply("where", x < 1 / 0.35, near, far) - 0.5625) / x


def scaled_complement(x: Expr) -> Expr:
    """Returns exp(x^2) erfc(x)."""
    beyond = x >= 1.25
    inner = apply("where", beyond, 0.0, x)
    return apply(
        "where",
        beyond,
        _scaled_tail(apply("where", beyond, x, 2.0)),
        apply("exp", inner * inner) * apply("erfc", inner),
    )


@expression(amp="float32", domain=few(lambda x: np.exp(x * x) * special.erfc(x), (-2, 5)))
def erfcx(x: Expr) -> Expr:
    """Returns exp(x^2) erfc(x), without overflow and underflow for large x."""
    return scaled_complement(floating(x))


@expression(amp="float32", domain=few(lambda x: special.erfc(-x / math.sqrt(2)) / 2, (-4, 4)))
def ndtr(x: Expr) -> Expr:
    """Returns the normal distribution function, (1 + erf(x / sqrt(2))) / 2, exact also near 0."""
    return apply("erfc", floating(x) * -math.sqrt(0.5)) * 0.5


@expression(amp="float32", domain=few(lambda x: np.log(special.erfc(-x / math.sqrt(2)) / 2), (-6, 4)))
def log_ndtr(x: Expr) -> Expr:
    """Returns the logarithm of ``ndtr``, exact also if that underflows."""
    value = floating(x)
    low = value < -1.0
    below, above = apply("where", low, value, -2.0), apply("where", low, 1.0, value)
    tail = apply("log", scaled_complement(below * -math.sqrt(0.5)) * 0.5) - below * below * 0.5
    return apply("where", low, tail, apply("log1p", apply("erfc", above * math.sqrt(0.5)) * -0.5))


def _ndtri_reference(p: Any) -> Any:
    """Computes by bisection."""
    low, high = np.full_like(p, -9.0), np.full_like(p, 9.0)
    for _ in range(70):
        middle = (low + high) / 2
        below = special.erfc(-middle / math.sqrt(2)) / 2 < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


# Acklam's rational approximation, right to 1.2e-9: numerators and denominators within and at the ends, highest power
# first.
_WITHIN = (
    (
        -39.69683028665376,
        220.9460984245205,
        -275.9285104469687,
        138.357751867269,
        -30.66479806614716,
        2.506628277459239,
    ),
    (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1.0),
)
_ENDS = (
    (-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968,
     2.938163982698783),
    (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0),
)  # fmt: skip


def _quotient(pair: tuple[tuple[float, ...], tuple[float, ...]], x: Expr) -> Expr:
    return polynomial(pair[0][::-1], x) / polynomial(pair[1][::-1], x)


@expression(amp="float32", domain=few(_ndtri_reference, (0.002, 0.998)))
def ndtri(x: Expr) -> Expr:
    """Returns the inverse of ``ndtr``: -inf at 0, inf at 1, NaN beyond; Acklam's approximation, followed by a step of
    Newton's method in float32 and two in float64.
    """
    value = floating(x)
    inside = (value > 0.0) & (value < 1.0)
    p = apply("where", inside, value, 0.5)
    upper = p > 0.5
    rest = apply("where", upper, 1.0 - p, p)  # the smaller of both tails
    centre = rest > 0.02425
    q = apply("where", centre, rest - 0.5, 0.0)
    within = q * _quotient(_WITHIN, q * q)
    t = apply("sqrt", apply("log", apply("where", centre, 0.02, rest)) * -2.0)
    y = apply("where", centre, within, _quotient(_ENDS, t))
    for _ in range(2 if value.dtype == "float64" else 1):
        # On the logarithm, nearly a parabola: of a small p the difference would have no digits.
        tail = scaled_complement(y * -math.sqrt(0.5)) * 0.5
        off = apply("log", tail) - y * y * 0.5 - apply("log", rest)
        y = y - off * tail * math.sqrt(2 * math.pi)
    root = apply("where", upper, -y, y)
    end = apply("where", apply("eq", value, 0.0), -math.inf, cast_expr(math.nan, value.dtype))
    return apply("where", inside, root, apply("where", apply("eq", value, 1.0), math.inf, end))


@expression(amp="float32", domain=few(lambda x: -x * np.log(x), (0.1, 3)))
def entr(x: Expr) -> Expr:
    """Returns -x log(x), 0 at 0, -inf below."""
    value = floating(x)
    positive = value > 0.0
    kept = apply("where", positive, value, 1.0)
    other = apply("where", value < 0.0, -math.inf, apply("where", apply("isnan", value), value, 0.0))
    return apply("where", positive, -(kept * apply("log", kept)), other)


xlog1py: OpFunction = elementwise(
    "xlog1py",
    # Some drivers' log1p makes zeros of subnormal numbers. A product also at 0: the derivative by a is log(1 + b).
    "isnan(v1) ? v1 : (v0 == 0.0f && (v1 <= -1.0f || isinf(v1)) ? 0.0f : v0 * (v1 < 1e-30f && v1 > -1e-30f ? "
    "(v1 < 1e-30f ? v1 - 0.5f * v1 * v1 : 0.0f) : log1p(v0 == 0.0f && (v1 <= -1.0f || isinf(v1)) ? 0.0f : v1)) + 0.0f)",
    "Returns a log(1 + b), 0 if a is 0 and b is not NaN.",
    operands="a b",
    domain=few(lambda a, b: a * np.log1p(b), (0.2, 3), (-0.6, 3)),
    amp="float32",
)


def _zeta_reference(x: Any, q: Any) -> Any:
    """Computes 60 terms and the leading ones of the series."""
    k = np.arange(60).reshape(-1, *(1,) * np.ndim(x))
    y = q + 60
    tail = y ** (1 - x) / (x - 1) + y**-x / 2 + x * y ** (-x - 1) / 12 - x * (x + 1) * (x + 2) * y ** (-x - 3) / 720
    return ((q + k) ** -x).sum(0) + tail


_EVEN = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


@expression(amp="float32", domain=few(_zeta_reference, (1.3, 8), (0.4, 6)))
def zeta(x: Expr, other: Expr) -> Expr:
    """Returns the Hurwitz zeta function, the sum of (other + k)^-x over k from 0: infinite for x = 1 and for an other
    of 0, -1, -2, ...; NaN for x below 1 and for other negative numbers. Twelve terms and the Euler-Maclaurin series.
    """
    exponent, start = floating(x), floating(other)
    defined = (exponent > 1.0) & (start > 0.0)
    s, q = apply("where", defined, exponent, 2.0), apply("where", defined, start, 1.0)
    total: Expr = cast_expr(0.0, s.dtype)
    for k in range(12):
        total = total + apply("pow", q + float(k), -s)
    a = q + 12.0
    last = apply("pow", a, -s)
    total = total + last * a / (s - 1.0) + last * 0.5
    factor = s / a
    square = 1.0 / (a * a)
    for j, even in enumerate(_EVEN, 1):
        total = total + last * factor * (even / math.factorial(2 * j))
        factor = factor * (s + (2.0 * j - 1)) * (s + 2.0 * j) * square
    pole = apply("eq", exponent, 1.0) | ((exponent > 1.0) & (start <= 0.0) & apply("eq", start, apply("floor", start)))
    return apply("where", defined, total, apply("where", pole, math.inf, cast_expr(math.nan, s.dtype)))
