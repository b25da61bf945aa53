"""Special functions: erf and related functions, the logarithm of gamma and its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.expr import Expr, apply, special
from netcl.core.expr import cast as cast_expr
from netcl.core.expr.prims import digamma as digamma_of
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared, few
from netcl.ops.series import floating
from netcl.ops.table import WRITTEN, WRITTEN_TOO, OpFunction, composite, elementwise, expression

erfc: OpFunction = elementwise(
    "erfc", "erfc(v0)", "Returns 1 - erf(x), exact where erf(x) is near 1.", domain=few(special.erfc), forms=WRITTEN_TOO
)
lgamma: OpFunction = elementwise(
    "lgamma",
    "lgamma(v0)",
    "Returns log |gamma(x)|; infinite at 0, -1, -2, ...; its gradient is ``digamma``.",
    domain=few(special.lgamma, (0.2, 6)),
    forms=WRITTEN,
)
erf: OpFunction = elementwise("erf", "erf(v0)", "Returns the error function.", forms=WRITTEN_TOO)


def _erfinv_reference(x: Any) -> Any:
    """Computes by bisection."""
    low, high = np.full_like(x, -6.0), np.full_like(x, 6.0)
    for _ in range(60):
        middle = (low + high) / 2
        below = special.erf(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _digamma_reference(x: Any) -> Any:
    """Computes by the recurrence up to 40 and three terms of Stirling's series."""
    steps = np.arange(40).reshape(-1, *(1,) * np.ndim(x))
    y = x + 40
    return np.log(y) - 0.5 / y - 1 / (12 * y**2) + 1 / (120 * y**4) - 1 / (252 * y**6) - (1 / (x + steps)).sum(0)


def _digamma_cases(rng: np.random.Generator) -> Any:
    yield (np.concatenate([rng.uniform(0.2, 1.3, 20), rng.uniform(1.6, 20, 20), rng.uniform(-1.9, -1.1, 9)]),), {}


@expression(domain=compared(_digamma_cases, _digamma_reference), forms=WRITTEN)
def digamma(x: Expr) -> Expr:
    """Returns the derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
    return digamma_of(floating(x))


_ERFINV_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                  -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_ERFINV_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


@expression(domain=few(_erfinv_reference, (-0.95, 0.95)), forms=WRITTEN)
def erfinv(x: Expr) -> Expr:
    """Returns the inverse of erf: infinite at -1 and 1, NaN beyond; Giles' polynomials (GPU Computing Gems, 2012,
    chapter 10), in float64 followed by steps of Newton's method.
    """
    value = floating(x)
    size = apply("abs", value)
    inside = size < 1.0
    a = apply("where", inside, size, 0.0)
    w = -apply("log", (1.0 - a) * (1.0 + a))
    centre, tail = w < 5.0, apply("sqrt", apply("where", w < 5.0, 9.0, w)) - 3.0
    t = apply("where", centre, w - 2.5, tail)
    p = apply("where", centre, _ERFINV_CENTRE[0], cast_expr(_ERFINV_TAIL[0], value.dtype))
    for at_centre, at_tail in zip(_ERFINV_CENTRE[1:], _ERFINV_TAIL[1:]):
        p = p * t + apply("where", centre, at_centre, cast_expr(at_tail, value.dtype))
    y = p * a
    if value.dtype == "float64":
        for _ in range(4):
            # Beyond 1/2 on log(erfc), nearly a parabola: erf(y) - a would have no correct digits, and a bad start.
            rest = apply("erfc", y)
            far = -rest * apply("log", rest / (1.0 - a))
            off = apply("where", a > 0.5, far, apply("erf", y) - a)
            y = y - off / (2 / math.pi**0.5 * apply("exp", -(y * y)))
    y = apply("where", value < 0.0, -y, apply("where", apply("eq", value, 0.0), value, y))
    infinite = apply("where", apply("eq", value, 1.0), float("inf"), cast_expr(float("nan"), value.dtype))
    beyond = apply("where", apply("eq", value, -1.0), float("-inf"), infinite)
    return apply("where", inside, y, beyond)


xlogy: OpFunction = elementwise(
    "xlogy",
    # A product also at 0, because the derivative by a is log(b).
    "isnan(v1) ? v1 : (v0 == 0.0f && (v1 <= 0.0f || isinf(v1)) ? 0.0f : "
    "v0 * log(v0 == 0.0f && (v1 <= 0.0f || isinf(v1)) ? 1.0f : v1) + 0.0f)",
    "Returns a log(b), 0 if a is 0 and b is not NaN.",
    operands="a b",
    domain=few(lambda a, b: a * np.log(b), (0.2, 3), (0.2, 3)),
    amp="float32",
    forms=WRITTEN_TOO,
)
sinc: OpFunction = elementwise(
    "sinc",
    "v0 == 0.0f ? 1.0f : sin((v0 == 0.0f ? 1.0f : v0) * 3.141592653589793) / "
    "((v0 == 0.0f ? 1.0f : v0) * 3.141592653589793)",
    "Returns sin(pi x) / (pi x), 1 at 0.",
    domain=few(np.sinc, kinks=(0.0,)),
    amp="float32",
    forms=WRITTEN_TOO,
)


def _cotangent_derivative(n: int) -> list[float]:
    """Coefficients of the n-th derivative of cot, a polynomial of cot: P[k + 1] = -(1 + c^2) P[k]'."""
    polynomial = [0.0, 1.0]
    for _ in range(n):
        slope = [i * each for i, each in enumerate(polynomial)][1:]
        polynomial = [-(a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope])]
    return polynomial


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _polygamma(n: int, x: Expr) -> Expr:
    """Returns the n-th derivative of digamma, n >= 1: its recurrence up to x + 12, then the Euler-Maclaurin series;
    reflected below 0 (Abramowitz and Stegun 1964, 6.4.6, 6.4.7, 6.4.11).
    """
    nearest = apply("round", x)
    negative = apply("le", x, 0.0)
    a = apply("where", negative, 1.0 - x, x)
    steps: Expr = cast_expr(0.0, x.dtype)
    for k in range(12):
        steps = steps + _power(1.0 / (a + float(k)), n + 1)
    inverse = 1.0 / (a + 12.0)
    square = inverse * inverse
    series: Expr = cast_expr(0.0, x.dtype)
    for j in range(len(_BERNOULLI), 0, -1):
        factor = _BERNOULLI[j - 1] * math.factorial(2 * j + n - 1) / (math.factorial(2 * j) * math.factorial(n))
        series = (series + factor) * square
    tail = _power(inverse, n) * (1.0 / n + 0.5 * inverse + series)
    sign = (-1.0) ** (n + 1)
    value = (steps + tail) * (sign * math.factorial(n))
    fraction = apply("where", negative, x - nearest, 0.25)
    cot = 1.0 / apply("tan", fraction * math.pi)
    derivative: Expr = cast_expr(0.0, x.dtype)
    for coefficient in reversed(_cotangent_derivative(n)):
        derivative = derivative * cot + coefficient
    turned = value * -sign - derivative * math.pi ** (n + 1)
    pole = apply("eq", x, nearest)
    infinite = cast_expr(math.inf if n % 2 else -math.inf, x.dtype)
    if n == 1:  # as PyTorch's, which has infinities for larger n
        infinite = apply("where", apply("eq", x, -math.inf), math.nan, infinite)
    return apply("where", negative, apply("where", pole, infinite, turned), value)


def _power(x: Expr, n: int) -> Expr:
    result = x
    for _ in range(n - 1):
        result = result * x
    return result


def _polygamma_reference(n: int, x: Any) -> Any:
    """Computes by the recurrence up to x + 60 and the leading terms of the series."""
    if n == 0:
        return _digamma_reference(x)
    k = np.arange(60).reshape(-1, *(1,) * np.ndim(x))
    y = x + 60
    tail = y**-n / n + y ** -(n + 1) / 2 + (n + 1) * y ** -(n + 2) / 12
    tail -= (n + 1) * (n + 2) * (n + 3) * y ** -(n + 4) / 720
    return (-1) ** (n + 1) * math.factorial(n) * (((x + k) ** -(n + 1.0)).sum(0) + tail)


_MOST_DERIVATIVES = 150  # factorials of somewhat larger numbers exceed float64
_MOST_DIMENSIONS = 128  # terms of one expression


def _polygamma_cases(rng: np.random.Generator) -> Any:
    for n in (0, 1, 2, 4):
        x = np.concatenate([rng.uniform(0.4, 1.3, 9), rng.uniform(1.6, 20, 9)])
        yield (np.concatenate([x, rng.uniform(-1.8, -1.2, 5)]) if n < 2 else x,), {"n": n}


@expression(amp="float32", domain=compared(_polygamma_cases, lambda x, n: _polygamma_reference(n, x)))
def polygamma_of(x: Expr, n: int) -> Expr:
    """Returns ``polygamma``, with its operand first."""
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MOST_DERIVATIVES:
        raise ArgumentError(f"polygamma: expected a whole number from 0 to {_MOST_DERIVATIVES} as n, got {n!r}")
    value = floating(x)
    return digamma_of(value) if n == 0 else _polygamma(n, value)


@composite(
    amp="float32",
    domain=compared(lambda rng: (((at["n"], x), {}) for (x,), at in _polygamma_cases(rng)), _polygamma_reference),
)
def polygamma(n: int, x: Tensor) -> Tensor:
    """Returns the n-th derivative of ``digamma``, n from 0 to 150. Raises ValueError for another n."""
    return polygamma_of(x, n=n)  # type: ignore[no-any-return]


def _multigammaln(x: Any, p: int) -> Any:
    return p * (p - 1) / 4 * math.log(math.pi) + sum(special.lgamma(x - j / 2) for j in range(p))


@expression(
    amp="float32",
    domain=compared(lambda rng: iter([((rng.uniform(2.2, 9, (3, 5)),), {"p": p}) for p in (1, 3)]), _multigammaln),
    forms="x.mvlgamma x.mvlgamma_",
)
def multigammaln(x: Expr, p: int) -> Expr:
    """Returns the log multivariate gamma function of dimension ``p``, for x > (p - 1) / 2. ShapeError for p < 1."""
    if not 1 <= p <= _MOST_DIMENSIONS:
        text = f"multigammaln: p {p} is a dimension, from 1 to {_MOST_DIMENSIONS}"
        raise ShapeError(text, op="multigammaln", parameter="p")
    value = floating(x)
    total: Expr = cast_expr(p * (p - 1) / 4 * math.log(math.pi), value.dtype)
    for j in range(p):
        total = total + apply("lgamma", value - j / 2)
    return total


mvlgamma = multigammaln
