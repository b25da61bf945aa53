"""Bessel functions of order 0 and 1, modified, scaled and spherical ones, and Airy's function."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from netcl.core.expr import Expr, apply
from netcl.core.expr import cast as cast_expr
from netcl.ops.domains import few
from netcl.ops.series import fitted, floating
from netcl.ops.table import WRITTEN_TOO, OpFunction, expression


def _power_series(x: Expr, order: int, terms: int) -> Expr:
    """I0 or I1 by its power series (Abramowitz and Stegun 1964, 9.6.10)."""
    quarter = x * x * 0.25
    series: Expr = cast_expr(1.0, x.dtype)
    for k in range(terms, 0, -1):
        series = series * quarter * (1.0 / (k * (k + order))) + 1.0
    return series * x * 0.5 if order else series


def _modified(x: Expr, order: int, scaled: bool) -> Expr:
    """Returns the power series for small |x|, and the asymptotic series beyond (Abramowitz and Stegun 1964, 9.7.1)."""
    value = floating(x)
    exact = value.dtype == "float64"
    limit, terms, far_terms = (20.0, 52, 30) if exact else (10.0, 28, 12)
    size = apply("abs", value)
    near = size < limit
    inner = apply("where", near, value, 1.0)  # with its sign, as |x| has no derivative at 0
    series = _power_series(inner, order, terms)
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


def _i(order: int, x: Any) -> Any:
    """Computes its integral by the trapezoidal rule, which is exact to rounding for periodic functions."""
    angles = (np.arange(400) + 0.5) * np.pi / 400
    return (np.exp(np.asarray(x)[..., None] * np.cos(angles)) * np.cos(order * angles)).mean(-1)


_i1 = partial(_i, 1)


@expression(amp="float32", domain=few(np.i0, (-11, 11), kinks=(0.0,)), forms=WRITTEN_TOO)
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


# -- functions without a gradient, as in PyTorch -----------------------------------------------------------------------
# Each is a Chebyshev series near 0 and, beyond, the asymptotic form with Chebyshev series for its slowly varying
# factors. Values for the series are integrals by the trapezoidal rule, in float64.

_NEAR = 5.0  # of J and Y; of K it is 1, beyond which -log(x) I0(x) + ... would cancel
_AIRY = (-4.0, 2.0)
_BY_SQUARE = 0.5 / math.sqrt(math.pi)


def _phase(x: float) -> float:
    return 2 / 3 * math.pow(abs(x), 1.5)


@cache
def _nodes() -> tuple[Any, Any]:
    """Nodes and weights of the double exponential rule (Takahasi and Mori 1974) for f(u) exp(-u) from 0 to infinity."""
    t = np.arange(-5, 4.4, 0.05)
    u = np.exp(t - np.exp(-t))
    return u, 0.05 * u * (1 + np.exp(-t)) * np.exp(-u)


def _amplitude(order: float, z: Any) -> Any:
    """sqrt(2 z / pi) exp(z) K(z) of an order, near 1 for large z: DLMF 10.32.8. Of z = -i x it is that of H1 = J + i Y:
    H1(x) = sqrt(2 / (pi x)) exp(i (x - order pi / 2 - pi / 4)) times it (10.27.8).
    """
    u, weights = _nodes()
    power = order - 0.5
    return (weights * (u * (1 + u / (2 * np.asarray(z)[..., None]))) ** power).sum(-1) / math.gamma(order + 0.5)


def _turned(order: int, part: str, square: Any) -> Any:
    """The real part of the amplitude at -i x, or its imaginary part times x, over (5 / x)^2."""
    x = _NEAR / np.sqrt(square)
    amplitude = _amplitude(order, -1j * x)
    return amplitude.real if part == "real" else amplitude.imag * x


def _j_near(order: int, square: Any) -> Any:
    """J(x) / x^order over x^2, by Bessel's integral."""
    x = np.sqrt(square)
    angles = (np.arange(200) + 0.5) * np.pi / 100
    return np.cos(x[..., None] * np.sin(angles) - order * angles).mean(-1) / x**order


def _y_near(order: int, square: Any) -> Any:
    """The rest of Y(x) without its logarithm and its pole, divided by x^order, over x^2."""
    x = np.sqrt(square)
    y = (_amplitude(order, -1j * x) * np.exp(1j * (x - (2 * order + 1) * math.pi / 4))).imag * np.sqrt(2 / math.pi / x)
    rest = y - 2 / math.pi * np.log(x) * _j_near(order, square) * x**order
    return (rest + order * 2 / math.pi / x) / x**order


def _k_near(order: int, square: Any) -> Any:
    """The same of K(x)."""
    x = np.sqrt(square)
    k = _amplitude(order, x) * np.exp(-x) * np.sqrt(math.pi / 2 / x)
    return (k + (-1) ** order * np.log(x) * _i(order, x) - order / x) / x**order


def _airy_near(x: Any) -> Any:
    """Airy's function by its integral along the line with the imaginary part 1 / 2, DLMF 9.5.4."""
    t = np.arange(-10, 10, 0.05) + 0.5j
    return np.exp(1j * (t**3 / 3 + np.asarray(x)[..., None] * t)).sum(-1).real * (0.05 / (2 * math.pi))


def _airy_rising(inverse: Any) -> Any:
    return _amplitude(1 / 3, _phase(_AIRY[1]) / inverse)


def _airy_waving(part: str, square: Any) -> Any:
    phase = _phase(_AIRY[0]) / np.sqrt(square)
    amplitude = _amplitude(1 / 3, -1j * phase)
    return amplitude.real if part == "real" else amplitude.imag * phase


_TURNED = {(order, part): partial(_turned, order, part) for order in (0, 1) for part in ("real", "imag")}
_J, _Y, _K = ([partial(function, order) for order in (0, 1)] for function in (_j_near, _y_near, _k_near))
_FAR_K = [lambda inverse, order=order: _amplitude(order, 1 / inverse) for order in (0, 1)]
_WAVING = [partial(_airy_waving, part) for part in ("real", "imag")]


def _fixed(value: Expr) -> Expr:
    return apply("stop_gradient", value)


def _wave(size: Expr, order: int) -> tuple[Expr, Expr]:
    """J and Y of ``size`` beyond 5."""
    inverse = 1.0 / size
    square = inverse * inverse * _NEAR**2
    real, imaginary = (
        fitted(_TURNED[order, "real"], 0, 1, square),
        fitted(_TURNED[order, "imag"], 0, 1, square) * inverse,
    )
    cos, sin = apply("cos", size), apply("sin", size)
    # cos and sin of x - pi / 4, times sqrt(2); for order 1 a quarter of a turn later
    c, s = (cos + sin, sin - cos) if order == 0 else (sin - cos, -(sin + cos))
    scale = apply("rsqrt", size) * math.sqrt(1 / math.pi)
    return (real * c - imaginary * s) * scale, (real * s + imaginary * c) * scale


def _first_kind(x: Expr, order: int) -> Expr:
    value = floating(x)
    size = apply("abs", value)
    near = size < _NEAR
    inner, outer = apply("where", near, value, 1.0), apply("where", near, _NEAR, size)
    series = fitted(_J[order], 0, _NEAR**2, inner * inner)
    far = _wave(outer, order)[0]
    if order:
        series, far = series * inner, apply("where", value < 0.0, -far, far)
    return _fixed(apply("where", near, series, far))


def _second_kind(x: Expr, order: int) -> Expr:
    value = floating(x)
    near = value < _NEAR
    inner, outer = apply("where", near & (value > 0.0), value, 1.0), apply("where", near, _NEAR, value)
    square = inner * inner
    j, rest = fitted(_J[order], 0, _NEAR**2, square), fitted(_Y[order], 0, _NEAR**2, square)
    series = apply("log", inner) * (2 / math.pi) * j + rest
    if order:
        series = series * inner - 2 / math.pi / inner
    return _poles(value, -math.inf, apply("where", near, series, _wave(outer, order)[1]))


def _third_kind(x: Expr, order: int, scaled: bool) -> Expr:
    value = floating(x)
    near = value < 1.0
    inner, outer = apply("where", near & (value > 0.0), value, 0.5), apply("where", near, 1.0, value)
    rest = fitted(_K[order], 0, 1, inner * inner)
    logarithm = apply("log", inner) * _power_series(inner, order, 10)
    series = rest * inner + logarithm + 1.0 / inner if order else rest - logarithm
    far = fitted(_FAR_K[order], 0, 1, 1.0 / outer) * apply("rsqrt", outer) * math.sqrt(math.pi / 2)
    if scaled:
        series = series * apply("exp", inner)
    else:
        far = far * apply("exp", -outer)
    return _poles(value, math.inf, apply("where", near, series, far))


def _poles(x: Expr, at_zero: float, value: Expr) -> Expr:
    """``value`` with ``at_zero`` for 0 and NaN for negative numbers."""
    ends = apply("where", apply("eq", x, 0.0), at_zero, cast_expr(math.nan, x.dtype))
    return _fixed(apply("where", x <= 0.0, ends, value))


def _integral(order: int, x: Any, sign: int) -> Any:
    """Integrals from 0 to infinity of exp(-x cosh t) cosh(order t), or of the part of Y that is not periodic."""
    t, x = np.linspace(0, 12, 6001), np.asarray(x)[..., None]
    with np.errstate(over="ignore"):
        if sign > 0:
            values = np.exp(-x * np.cosh(t)) * np.cosh(order * t)
        else:
            values = -np.exp(-x * np.sinh(t)) * (np.exp(order * t) + (-1) ** order * np.exp(-order * t)) / np.pi
    return _simpson(values, t[1])


def _simpson(values: Any, step: float) -> Any:
    return (2 * values.sum(-1) + 2 * values[..., 1::2].sum(-1) - values[..., 0] - values[..., -1]) * step / 3


def _y(order: int, x: Any) -> Any:
    """By DLMF 10.9.7."""
    t = np.linspace(0, np.pi, 2001)
    waves = np.sin(np.asarray(x)[..., None] * np.sin(t) - order * t) / np.pi
    return _simpson(waves, t[1]) + _integral(order, x, -1)


def _j(order: int, x: Any) -> Any:
    return _j_near(order, np.square(x)) * np.abs(x) ** order * np.sign(x) ** order


def _airy(x: Any) -> Any:
    """By its power series, DLMF 9.4.1."""
    total, even, odd = 0.0, 0.355028053887817239, -0.258819403792806798 * x
    for k in range(60):
        total = total + even + odd
        even, odd = even * x**3 / ((3 * k + 2) * (3 * k + 3)), odd * x**3 / ((3 * k + 3) * (3 * k + 4))
    return total


def _row(reference: Callable[..., Any], *ranges: tuple[float, float]) -> Callable[[Callable[..., Any]], OpFunction]:
    return expression(amp="float32", domain=few(reference, *ranges, gradient=False))


@_row(partial(_j, 0), (-15, 15))
def bessel_j0(x: Expr) -> Expr:
    """The Bessel function of the first kind of order zero, without a gradient."""
    return _first_kind(x, 0)


@_row(partial(_j, 1), (-15, 15))
def bessel_j1(x: Expr) -> Expr:
    """The Bessel function of the first kind of order one, without a gradient."""
    return _first_kind(x, 1)


@_row(partial(_y, 0), (0.1, 15))
def bessel_y0(x: Expr) -> Expr:
    """The Bessel function of the second kind of order zero, NaN for negative x, without a gradient."""
    return _second_kind(x, 0)


@_row(partial(_y, 1), (0.1, 15))
def bessel_y1(x: Expr) -> Expr:
    """The Bessel function of the second kind of order one, NaN for negative x, without a gradient."""
    return _second_kind(x, 1)


@_row(lambda x: _integral(0, x, 1), (0.05, 6))
def modified_bessel_k0(x: Expr) -> Expr:
    """The modified Bessel function of the second kind of order zero, NaN for negative x, without a gradient."""
    return _third_kind(x, 0, False)


@_row(lambda x: _integral(1, x, 1), (0.05, 6))
def modified_bessel_k1(x: Expr) -> Expr:
    """The modified Bessel function of the second kind of order one, NaN for negative x, without a gradient."""
    return _third_kind(x, 1, False)


@_row(lambda x: _integral(0, x, 1) * np.exp(x), (0.05, 6))
def scaled_modified_bessel_k0(x: Expr) -> Expr:
    """exp(x) modified_bessel_k0(x), without underflow and without a gradient."""
    return _third_kind(x, 0, True)


@_row(lambda x: _integral(1, x, 1) * np.exp(x), (0.05, 6))
def scaled_modified_bessel_k1(x: Expr) -> Expr:
    """exp(x) modified_bessel_k1(x), without underflow and without a gradient."""
    return _third_kind(x, 1, True)


@_row(lambda x: np.sinc(x / np.pi), (-15, 15))
def spherical_bessel_j0(x: Expr) -> Expr:
    """The spherical Bessel function of order zero, sin(x) / x, without a gradient."""
    value = floating(x)
    zero = apply("eq", value, 0.0)
    some = apply("where", zero | apply("isinf", value), 1.0, value)
    return _fixed(apply("where", zero, 1.0, apply("where", apply("isinf", value), 0.0, apply("sin", some) / some)))


def _exact_phase(size: Expr) -> tuple[Expr, Expr]:
    """2/3 size^1.5 and what its rounding has lost: a float32 near 600 has four digits after the point."""
    root = apply("sqrt", size)
    product = size * root
    lost = apply("fma", size, root, -product) - size * apply("fma", root, root, -size) * 0.5 / root
    factor = 2 / 3 if size.dtype == "float64" else float(np.float32(2 / 3))
    phase = product * factor
    return phase, apply("fma", product, cast_expr(factor, size.dtype), -phase) + lost * factor + product * (
        2 / 3 - factor
    )


@_row(_airy, (-7, 4))
def airy_ai(x: Expr) -> Expr:
    """Airy's function Ai, NaN at infinities, without a gradient."""
    value = floating(x)
    low, high = _AIRY
    below, above = value < low, value > high
    series = fitted(_airy_near, low, high, apply("where", below | above, 0.0, value))
    # Beyond 1e4 it is 0 on the right, and the phase of the largest numbers would be infinite.
    size = apply("where", below, -value, apply("where", above, apply("minimum", value, 1e4), 4.0))
    phase, rest = _exact_phase(size)
    scale = apply("rsqrt", apply("sqrt", size)) * _BY_SQUARE
    # exp in two parts: the product is not subnormal before the result is
    decay = apply("exp", phase * -0.5)
    rising = apply("where", above, _phase(high) / phase, 1.0)
    falling = fitted(_airy_rising, 0, 1, rising) * scale * decay * decay * (1.0 - rest)
    inverse = apply("where", below, 1.0 / phase, 1 / _phase(low))
    square = inverse * inverse * _phase(low) ** 2
    cos, sin = apply("cos", phase), apply("sin", phase)
    cos, sin = cos - sin * rest, sin + cos * rest
    real, imaginary = (fitted(part, 0, 1, square) for part in _WAVING)
    waving = (real * (cos + sin) - imaginary * inverse * (sin - cos)) * scale * math.sqrt(2)
    result = apply("where", below, waving, apply("where", above, falling, series))
    return _fixed(apply("where", apply("isinf", value), math.nan, result))
