"""Orthogonal polynomials with a degree for each element, by their recurrences of three terms; without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from netcl.core.expr import Expr, apply
from netcl.core.expr import cast as cast_expr
from netcl.core.ops_table.dispatch import Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.series import floating
from netcl.ops.table import OpFunction, composite, engine_of, expression


class _Kind(NamedTuple):
    """A family: degree 1 is slope x + constant, and ``next(x, k, p, q)`` that of degree k after p and, before it, q."""

    slope: float
    constant: float
    next: Callable[[Any, Any, Any, Any], Any]


def _chebyshev(x: Any, k: Any, p: Any, q: Any) -> Any:
    return (x + x) * p - q


# Abramowitz and Stegun 1964, 22.7
_KINDS = {
    "chebyshev_polynomial_t": _Kind(1, 0, _chebyshev),
    "chebyshev_polynomial_u": _Kind(2, 0, _chebyshev),
    "chebyshev_polynomial_v": _Kind(2, -1, _chebyshev),
    "chebyshev_polynomial_w": _Kind(2, 1, _chebyshev),
    "hermite_polynomial_h": _Kind(2, 0, lambda x, k, p, q: 2.0 * (x * p - (k - 1.0) * q)),
    "hermite_polynomial_he": _Kind(1, 0, lambda x, k, p, q: x * p - (k - 1.0) * q),
    "laguerre_polynomial_l": _Kind(-1, 1, lambda x, k, p, q: ((k + k - 1.0 - x) * p - (k - 1.0) * q) / k),
    "legendre_polynomial_p": _Kind(1, 0, lambda x, k, p, q: ((k + k - 1.0) * x * p - (k - 1.0) * q) / k),
}
_STEPS = 16  # degrees of one kernel; higher ones take several
_HIGHEST = 2**16
_NO_INTEGER = 2.0**63
_SHIFTED = "shifted_"


def _argument(x: Expr, kind: str) -> Expr:
    """x, or 2 x - 1, in float32 or float64."""
    value = x if x.dtype == "float64" else cast_expr(x, "float32")
    return value + value - 1.0 if kind.startswith(_SHIFTED) else value


def _kind(name: str) -> _Kind:
    return _KINDS[name.removeprefix(_SHIFTED)]


def _inner(reference: Any, count: int, **attributes: Any) -> Domain:
    """The domain of a row that polynomials are made of: ``count`` operands, the second of them degrees."""

    def cases(rng: np.random.Generator) -> Any:
        operands = [rng.uniform(0.1, 1, 7) for _ in range(count)]
        yield (operands[0], np.arange(7.0), *operands[2:]), attributes

    return compared(cases, reference, gradient=False)


def _steps_reference(x: Any, n: Any, p: Any, q: Any, kind: str, first: float = 2.0) -> Any:
    for k in range(int(first), int(first) + _STEPS):
        p, q = np.where(n >= k, (_kind(kind).next(x, k, p, q), p), (p, q))
    return p, q


@expression(
    amp="float32",
    domain=_inner(
        lambda x, n, kind: (np.where(n >= 1, 2 * x + 1, 1), np.ones(n.shape)), 2, kind="chebyshev_polynomial_w"
    ),
)
def polynomial_start(x: Expr, n: Expr, kind: str) -> tuple[Expr, Expr]:
    """The values of degree 1, if ``n`` is as high, and 0."""
    value, (slope, constant, _) = _argument(x, kind), _kind(kind)
    one = cast_expr(1.0, "float64" if "float64" in (x.dtype, n.dtype) else "float32")
    return apply("where", n >= 1, value * slope + constant, one), one


@expression(amp="float32", domain=_inner(_steps_reference, 4, kind="laguerre_polynomial_l"))
def polynomial_steps(x: Expr, n: Expr, p: Expr, q: Expr, kind: str, first: float = 2.0) -> tuple[Expr, Expr]:
    """The values of sixteen degrees from ``first``, as far as ``n``."""
    value, following = _argument(x, kind), _kind(kind).next
    for i in range(_STEPS):
        k = first + float(i)
        further = n >= k
        p, q = apply("where", further, following(value, k, p, q), p), apply("where", further, p, q)
    return p, q


@expression(amp="float32", domain=_inner(lambda x, n, p: np.where(n > -1, p, 0), 3))
def polynomial_end(x: Expr, n: Expr, p: Expr) -> Expr:
    """``p`` in the dtype that ``x`` and ``n`` promote to, 0 for a degree that is negative, NaN or no int64."""
    degree = cast_expr(n, "float32")
    valid = (degree > -1.0) & (degree < _NO_INTEGER)
    return cast_expr(apply("where", valid, p, 0.0), floating(apply("where", valid, x, n)).dtype)


def _highest(op: str, n: Any) -> int:
    """The highest degree, which is read from the device if ``n`` is a tensor. Raises ValueError if it is too high."""
    values = n.to("float64").numpy() if isinstance(n, Tensor) else np.asarray(n, np.float64)
    highest = int(values.max(initial=0, where=values < _NO_INTEGER))
    if highest > _HIGHEST:
        raise ValueError(f"{op}: expected degrees up to {_HIGHEST}, got {highest}")
    return highest


def _defined(kind: str, doc: str) -> OpFunction:
    def reference(x: Any, n: Any) -> Any:
        slope, constant, following = _kind(kind)
        x = 2 * x - 1 if kind.startswith(_SHIFTED) else x
        values = [np.ones_like(x), slope * x + constant]
        for k in range(2, int(n.max()) + 1):
            values.append(following(x, k, values[-1], values[-2]))
        return np.choose(np.broadcast_to(n, x.shape).astype(int), values)

    def cases(rng: np.random.Generator) -> Any:
        yield (rng.uniform(0.1, 1, (3, 7)), np.arange(7.0)), {}
        degree = 10.0 if kind.startswith("hermite") else 19.0  # with values that float16 holds
        yield (rng.uniform(0.1, 1, 5), np.full(1, degree)), {}

    @composite(amp="float32", name=kind, doc=doc, domain=compared(cases, reference, gradient=False))
    def polynomial(x: Tensor, n: Tensor) -> Tensor:
        given: tuple[Any, Any] = (x, n)
        engine_of(kind, *[operand for operand in given if not isinstance(operand, (bool, int, float))] or given)
        x, n = (operand.detach() if isinstance(operand, Tensor) else operand for operand in (x, n))
        p, q = polynomial_start(x, n, kind=kind)
        for first in range(2, _highest(kind, n) + 1, _STEPS):
            p, q = polynomial_steps(x, n, p, q, kind=kind, first=float(first))
        return polynomial_end(x, n, p)  # type: ignore[no-any-return]

    return polynomial


_OF = "the polynomial of degree ``n``, by its recurrence; the highest degree of a tensor is read from the device."
chebyshev_polynomial_t = _defined("chebyshev_polynomial_t", f"T_n(x) of the first kind, {_OF}")
chebyshev_polynomial_u = _defined("chebyshev_polynomial_u", f"U_n(x) of the second kind, {_OF}")
chebyshev_polynomial_v = _defined("chebyshev_polynomial_v", f"V_n(x) of the third kind, {_OF}")
chebyshev_polynomial_w = _defined("chebyshev_polynomial_w", f"W_n(x) of the fourth kind, {_OF}")
shifted_chebyshev_polynomial_t = _defined("shifted_chebyshev_polynomial_t", f"T_n(2 x - 1), {_OF}")
shifted_chebyshev_polynomial_u = _defined("shifted_chebyshev_polynomial_u", f"U_n(2 x - 1), {_OF}")
shifted_chebyshev_polynomial_v = _defined("shifted_chebyshev_polynomial_v", f"V_n(2 x - 1), {_OF}")
shifted_chebyshev_polynomial_w = _defined("shifted_chebyshev_polynomial_w", f"W_n(2 x - 1), {_OF}")
hermite_polynomial_h = _defined("hermite_polynomial_h", f"H_n(x) of the physicists, {_OF}")
hermite_polynomial_he = _defined("hermite_polynomial_he", f"He_n(x) of the statisticians, {_OF}")
laguerre_polynomial_l = _defined("laguerre_polynomial_l", f"L_n(x), {_OF}")
legendre_polynomial_p = _defined("legendre_polynomial_p", f"P_n(x), {_OF}")
