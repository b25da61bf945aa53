"""Special functions: erf and related functions, the logarithm of gamma and its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.expr import Expr, apply, special
from netcl.core.expr import cast as cast_expr
from netcl.core.expr.prims import digamma as digamma_of
from netcl.core.ops_table.dispatch import Domain
from netcl.ops.domains import few
from netcl.ops.table import elementwise, expression

erfc = elementwise("erfc", "erfc(v0)", "1 - erf(x), exact where erf(x) is near 1.", domain=few(special.erfc))
lgamma = elementwise(
    "lgamma",
    "lgamma(v0)",
    "log |gamma(x)|; infinite at 0, -1, -2, ...; its gradient is ``digamma``.",
    domain=few(special.lgamma, (0.2, 6)),
)
erf = elementwise("erf", "erf(v0)", "The error function.")


def _erfinv_reference(x: Any) -> Any:
    """By bisection."""
    low, high = np.full_like(x, -6.0), np.full_like(x, 6.0)
    for _ in range(60):
        middle = (low + high) / 2
        below = special.erf(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _digamma_reference(x: Any) -> Any:
    """By the recurrence up to 40 and three terms of Stirling's series."""
    steps = np.arange(40).reshape(-1, *(1,) * np.ndim(x))
    y = x + 40
    return np.log(y) - 0.5 / y - 1 / (12 * y**2) + 1 / (120 * y**4) - 1 / (252 * y**6) - (1 / (x + steps)).sum(0)


def _digamma_cases(rng: np.random.Generator) -> Any:
    yield (np.concatenate([rng.uniform(0.2, 1.3, 20), rng.uniform(1.6, 20, 20), rng.uniform(-1.9, -1.1, 9)]),), {}


@expression(domain=Domain(cases=_digamma_cases, reference=_digamma_reference))
def digamma(x: Expr) -> Expr:
    """The derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
    return digamma_of(x if is_floating(x.dtype) else cast_expr(x, "float32"))


_ERFINV_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                  -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_ERFINV_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


@expression(domain=few(_erfinv_reference, (-0.95, 0.95)))
def erfinv(x: Expr) -> Expr:
    """The inverse of erf: infinite at -1 and 1, NaN beyond; Giles' polynomials (GPU Computing Gems, 2012, chapter 10),
    in float64 followed by steps of Newton's method.
    """
    value = x if is_floating(x.dtype) else cast_expr(x, "float32")
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
    y = apply("where", value < 0.0, -y, y)
    infinite = apply("where", apply("eq", value, 1.0), float("inf"), cast_expr(float("nan"), value.dtype))
    beyond = apply("where", apply("eq", value, -1.0), float("-inf"), infinite)
    return apply("where", inside, y, beyond)
