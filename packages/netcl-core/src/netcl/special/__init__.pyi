"""Special functions, recorded for gradients; written by tools/write_stubs.py."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from netcl.core import Tensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand



__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

def airy_ai(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Airy's function Ai, NaN at infinities, without a gradient."""
def bessel_j0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The Bessel function of the first kind of order zero, without a gradient."""
def bessel_j1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The Bessel function of the first kind of order one, without a gradient."""
def bessel_y0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The Bessel function of the second kind of order zero, NaN for negative x, without a gradient."""
def bessel_y1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The Bessel function of the second kind of order one, NaN for negative x, without a gradient."""
def chebyshev_polynomial_t(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """T_n(x) of the first kind, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def chebyshev_polynomial_u(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """U_n(x) of the second kind, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def chebyshev_polynomial_v(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """V_n(x) of the third kind, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def chebyshev_polynomial_w(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """W_n(x) of the fourth kind, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def digamma(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
def entr(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns -x log(x), 0 at 0, -inf below."""
def erf(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the error function."""
def erfc(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns 1 - erf(x), exact where erf(x) is near 1."""
def erfcx(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(x^2) erfc(x), without overflow and underflow for large x."""
def erfinv(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse of erf: infinite at -1 and 1, NaN beyond; Giles' polynomials (GPU Computing Gems, 2012, chapter 10), in float64 followed by steps of Newton's method."""
def exp2(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns 2 to the power of x."""
def expit(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns 1 / (1 + exp(-x))."""
def expm1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(x) - 1, exact near zero."""
def gammainc(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The lower regularized incomplete gamma function, the integral of t^(a - 1) exp(-t) / gamma(a) from 0 to b; only ``b`` has a gradient."""
def gammaincc(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The upper regularized incomplete gamma function, 1 - igamma(a, b); only ``b`` has a gradient."""
def gammaln(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns log |gamma(x)|; infinite at 0, -1, -2, ...; its gradient is ``digamma``."""
def hermite_polynomial_h(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """H_n(x) of the physicists, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def hermite_polynomial_he(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """He_n(x) of the statisticians, the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def i0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the modified Bessel function of order zero."""
def i0e(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(-|x|) i0(x), without overflow."""
def i1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the modified Bessel function of order one."""
def i1e(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(-|x|) i1(x), without overflow."""
def laguerre_polynomial_l(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """L_n(x), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def legendre_polynomial_p(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """P_n(x), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def log1p(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns log(1 + x), exact near zero."""
def log_ndtr(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the logarithm of ``ndtr``, exact also if that underflows."""
def log_softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns x - log(sum(exp(x))) over ``axis``, without overflow, of x converted to ``dtype`` as in ``softmax``."""
def logit(x: Tensor, eps: Any = None, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns log(x / (1 - x)), the inverse of ``sigmoid``; with ``eps``, x is first clamped to [eps, 1 - eps]; without it the result beyond [0, 1] is NaN."""
def logsumexp(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns log(sum(exp(x))) over ``axis``, without overflow."""
def modified_bessel_i0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the modified Bessel function of order zero."""
def modified_bessel_i1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the modified Bessel function of order one."""
def modified_bessel_k0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The modified Bessel function of the second kind of order zero, NaN for negative x, without a gradient."""
def modified_bessel_k1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The modified Bessel function of the second kind of order one, NaN for negative x, without a gradient."""
def multigammaln(x: Tensor, p: builtins.int, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the logarithm of the multivariate gamma function of dimension ``p``, for x > (p - 1) / 2. Raises ShapeError for a p below 1."""
def ndtr(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the normal distribution function, (1 + erf(x / sqrt(2))) / 2, exact also near 0."""
def ndtri(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse of ``ndtr``: -inf at 0, inf at 1, NaN beyond; Acklam's approximation, followed by a step of Newton's method in float32 and two in float64."""
def polygamma(n: builtins.int, x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the n-th derivative of ``digamma``, n from 0 to 150. Raises ValueError for another n."""
def psi(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
def round(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the nearest integer, halves to even; integers unchanged."""
def scaled_modified_bessel_k0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """exp(x) modified_bessel_k0(x), without underflow and without a gradient."""
def scaled_modified_bessel_k1(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """exp(x) modified_bessel_k1(x), without underflow and without a gradient."""
def shifted_chebyshev_polynomial_t(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """T_n(2 x - 1), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def shifted_chebyshev_polynomial_u(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """U_n(2 x - 1), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def shifted_chebyshev_polynomial_v(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """V_n(2 x - 1), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def shifted_chebyshev_polynomial_w(x: Tensor, n: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """W_n(2 x - 1), the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."""
def sinc(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns sin(pi x) / (pi x), 1 at 0."""
def softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(x) / sum(exp(x)) over ``axis``, shifted by the maximum so that it cannot overflow, of x converted to the floating ``dtype`` (None: its own)."""
def spherical_bessel_j0(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The spherical Bessel function of order zero, sin(x) / x, without a gradient."""
def xlog1py(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a log(1 + b), 0 if a is 0 and b is not NaN."""
def xlogy(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a log(b), 0 if a is 0 and b is not NaN."""
def zeta(x: Operand, other: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the Hurwitz zeta function, the sum of (other + k)^-x over k from 0: infinite for x = 1 and for an other of 0, -1, -2, ...; NaN for x below 1 and for other negative numbers. Twelve terms and the Euler-Maclaurin series."""
