"""Special functions that NumPy lacks, on arrays: computed in float64 and rounded to the dtype of the argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Rational approximations of erf and erfc by intervals, as in fdlibm's s_erf.c (Sun Microsystems 1993), lowest power
# first: erf(x) = x + x P/Q below 0.84375, erf(x) = c + P/Q of x - 1 below 1.25, erfc(x) = exp(-x^2 - 0.5625 + P/Q of
# 1/x^2) / x above.
_P_SMALL = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
            -5.77027029648944159157e-03, -2.37630166566501626084e-05)  # fmt: skip
_Q_SMALL = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
            1.32494738004321644526e-04, -3.96022827877536812320e-06)  # fmt: skip
_AT_ONE = 8.45062911510467529297e-01
_P_ONE = (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
          3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
          -2.16637559486879084300e-03)  # fmt: skip
_Q_ONE = (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
          1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)  # fmt: skip
P_MIDDLE = (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
             -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
             -8.12874355063065934246e+01, -9.81432934416914548592e+00)  # fmt: skip
Q_MIDDLE = (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
             6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
             6.57024977031928170135e+00, -6.04244152148580987438e-02)  # fmt: skip
P_FAR = (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
          -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
          -4.83519191608651397019e+02)  # fmt: skip
Q_FAR = (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
          3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
          -2.24409524465858183362e+01)  # fmt: skip


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _tail(x: Array) -> Array:
    """Returns erfc(x) for x >= 1.25, x clipped to the range without underflow of erfc."""
    x = np.minimum(x, 28.0)
    s = 1 / (x * x)
    near = _polynomial(P_MIDDLE, s) / _polynomial(Q_MIDDLE, s)
    far = _polynomial(P_FAR, s) / _polynomial(Q_FAR, s)
    rounded = x.astype(np.float32).astype(np.float64)  # its square is exact
    inner = np.exp(-rounded * rounded - 0.5625)
    return inner * np.exp((rounded - x) * (rounded + x) + np.where(x < 1 / 0.35, near, far)) / x


def _by_intervals(x: Any, complement: bool) -> Any:
    wide = np.atleast_1d(np.asarray(x, dtype=np.float64))
    result = np.full_like(wide, np.nan)
    size = np.abs(wide)
    small, middle, far = size < 0.84375, (size >= 0.84375) & (size < 1.25), size >= 1.25
    v = wide[small]
    erf_small = v + v * (_polynomial(_P_SMALL, v * v) / _polynomial(_Q_SMALL, v * v))
    # 0.5 + (0.5 - erf) keeps the digits that 1 - erf would lose.
    result[small] = np.where(v < 0.25, 1 - erf_small, 0.5 + (0.5 - erf_small)) if complement else erf_small
    v = size[middle] - 1
    part = _polynomial(_P_ONE, v) / _polynomial(_Q_ONE, v)
    negative = wide[middle] < 0
    if complement:
        result[middle] = np.where(negative, 1 + _AT_ONE + part, 1 - _AT_ONE - part)
    else:
        result[middle] = np.where(negative, -_AT_ONE - part, _AT_ONE + part)
    v = _tail(size[far])
    negative = wide[far] < 0
    if complement:
        result[far] = np.where(negative, 2 - v, v)
    else:
        result[far] = np.where(negative, v - 1, 1 - v)
    return result.reshape(np.shape(x)).astype(np.asarray(x).dtype)


def erf(x: Any) -> Any:
    """Returns the error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _by_intervals(x, complement=False)


def erfc(x: Any) -> Any:
    """Returns 1 - erf(x), exact if erf(x) is near 1."""
    return _by_intervals(x, complement=True)


def _or_infinite(function: Callable[[float], float]) -> Callable[[float], float]:
    def value(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):  # at its poles, and if it exceeds the range of float64
            return math.inf

    return value


_lgamma = np.frompyfunc(_or_infinite(math.lgamma), 1, 1)


def lgamma(x: Any) -> Any:
    """Returns log |gamma(x)|; infinite at 0, -1, -2, ..."""
    return np.asarray(_lgamma(x), dtype=np.float64).astype(np.asarray(x).dtype)
