"""Householder reflections: the factors of QR as LAPACK packs them, and products with their Q."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part, tril
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, mul, sub, where
from netcl.ops.factorizations import derived, host, lapack, like, require_matrix, transposed, well_conditioned
from netcl.ops.linalg import matmul
from netcl.ops.shape import expand, permute, reshape
from netcl.ops.table import METHOD, engine_of


def _packed(x: Any) -> tuple[Any, Any]:
    h, tau = np.linalg.qr(x, "raw")
    return transposed(h), tau


def _packed_cases(rng: np.random.Generator) -> Cases:
    for shape in ((3, 3), (2, 5, 3), (3, 5)):
        yield (well_conditioned(rng, *shape),), {}


@lapack("geqrf", compared(_packed_cases, _packed, gradient=False), METHOD)
def geqrf(x: Tensor) -> tuple[Tensor, Tensor]:
    """(a, tau) of x (..., m, n) = Q R as LAPACK packs them: R in the upper triangle of a (..., m, n), below it the
    vectors of the reflections I - tau_i v_i v_i^T with the product Q, tau (..., min(m, n)). It has no gradient.
    """
    require_matrix("geqrf", x, square=False)
    a, tau = _packed(host(x))
    return like(x, a), like(x, tau)


def _product_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (4, 3)), rng.uniform(0.2, 1, 3)), {}
    yield (rng.uniform(-1, 1, (2, 3, 3)), rng.uniform(0.2, 1, (2, 2))), {}


def _whole(x: Any, tau: Any) -> Any:
    """The product (..., m, m) of the reflections."""
    m = x.shape[-2]
    q = np.broadcast_to(np.eye(m), (*x.shape[:-1], m)).copy()
    for i in reversed(range(tau.shape[-1])):
        v = np.where(np.arange(m) > i, x[..., i], np.arange(m) == i)[..., None]
        q = q - tau[..., i, None, None] * (v @ (transposed(v) @ q))
    return q


@derived(
    "linalg_householder_product", compared(_product_cases, lambda x, tau: _whole(x, tau)[..., : x.shape[-1]]), "x.orgqr"
)
def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections I - tau_i v_i v_i^T: v_i has a 1 in row i, the elements
    below of column i of x (..., m, n), and zeros above; tau (..., k), k <= n <= m.
    """
    op = "linalg_householder_product"
    _check(op, x, tau)
    if x.shape[-2] < x.shape[-1]:
        raise ShapeError(f"{op}: expected x (..., m, n) with n <= m, got {x.shape}")
    if tau.shape[-1] == 0:
        return where(False, x, expand(_ones(x), x.shape))  # type: ignore[no-any-return]
    return _reflected(x, tau, _ones(x), reversed(range(tau.shape[-1])))


def _multiply_cases(rng: np.random.Generator) -> Cases:
    x, tau = rng.uniform(-1, 1, (4, 3)), rng.uniform(0.2, 1, 3)
    yield (x, tau, rng.uniform(-1, 1, (4, 2))), {}
    yield (x, tau, rng.uniform(-1, 1, (4, 2))), {"transpose": True}
    yield (x, tau, rng.uniform(-1, 1, (2, 4))), {"left": False}
    yield (
        (rng.uniform(-1, 1, (2, 3, 3)), rng.uniform(0.2, 1, (2, 2)), rng.uniform(-1, 1, (2, 1, 3))),
        {
            "left": False,
            "transpose": True,
        },
    )


def _multiplied(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    steps, rows = range(tau.shape[-1]), np.arange(x.shape[-2])
    y = other if left else transposed(other)
    for i in steps if transpose is left else reversed(steps):
        v = np.where(rows > i, x[..., i], rows == i)[..., None]
        y = y - tau[..., i, None, None] * (v @ (transposed(v) @ y))
    return y if left else transposed(y)


@derived("ormqr", compared(_multiply_cases, _multiplied), METHOD)
def ormqr(x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q ``other``, or ``other`` Q if not ``left``, for the product Q (..., m, m) of the reflections that
    ``householder_product`` describes, or for its transpose: x (..., m, k), tau (..., k), other (..., m, n), or
    (..., n, m) if not ``left``. Raises ShapeError if the shapes do not match.
    """
    op = "ormqr"
    _check(op, x, tau)
    engine_of(op, x, tau, other)
    if other.ndim != x.ndim or other.shape[:-2] != x.shape[:-2] or other.shape[-2 if left else -1] != x.shape[-2]:
        raise ShapeError(f"{op}: shapes {x.shape} and {other.shape} do not match (left={left})")
    order = range(tau.shape[-1]) if transpose is left else reversed(range(tau.shape[-1]))
    if left:
        return _reflected(x, tau, other, order)
    return _t(_reflected(x, tau, _t(other), order))


def _check(op: str, x: Tensor, tau: Tensor) -> None:
    require_matrix(op, x, square=False)
    m, n = x.shape[-2:]
    if tau.ndim < 1 or tau.shape[:-1] != x.shape[:-2] or tau.shape[-1] > min(m, n):
        raise ShapeError(f"{op}: x {x.shape} and tau {tau.shape}; expected (..., m, n) and (..., k), k <= n <= m")


def _ones(x: Tensor) -> Tensor:
    return x.engine.tensor(np.eye(x.shape[-2], x.shape[-1]), x.dtype)  # type: ignore[no-any-return]


def _reflected(x: Tensor, tau: Tensor, q: Any, order: Any) -> Tensor:
    """``q`` (..., m, n) multiplied from the left by the reflections in an order."""
    below, ones = tril(x, -1), _ones(x)
    for i in order:
        v = add(part(below, x.ndim - 1, i, 1), part(ones, 1, i, 1))
        factor = reshape(part(tau, tau.ndim - 1, i, 1), (*tau.shape[:-1], 1, 1))
        q = sub(q, mul(factor, matmul(v, matmul(_t(v), q))))
    return q  # type: ignore[no-any-return]


def _t(x: Tensor) -> Tensor:
    return permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])  # type: ignore[no-any-return]
