"""Distances and similarities of vectors: one reducing expression each, so that the differences are not stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating, promote
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Expr, apply, reduce
from netcl.core.ops_table.dispatch import Cases, Space
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.index import index_select
from netcl.ops.reduce import p_norm, safe_root
from netcl.ops.shape import unsqueeze
from netcl.ops.table import composite, engine_of, expression, reduced


def _reference(a: Any, b: Any, p: float = 2.0, axis: int = -1, keepdims: bool = False, eps: float = 0.0) -> Any:
    d = np.abs(a - b + eps)
    if np.isinf(p):
        return d.max(axis, keepdims=keepdims)
    return (d**p).sum(axis, keepdims=keepdims) ** (1 / p) if p else (d != 0).sum(axis, keepdims=keepdims) * 1.0


def _cases(rng: np.random.Generator) -> Cases:
    a, b = rng.uniform(-2, 2, (2, 3, 1, 4)), rng.uniform(-2, 2, (2, 1, 5, 4))
    for p in (2.0, 1.0, 3.0, float("inf")):
        yield (a, b), {"p": p}
    yield (rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, (3, 4))), {"axis": 0, "keepdims": True, "eps": 1e-3}


def _checked(op: str, a: Any, b: Any) -> None:
    if not is_floating(promote(a.dtype, b.dtype)):
        raise DTypeError(f"{op}: expected floating dtypes, got {a.dtype} and {b.dtype}; convert with astype")


@expression(name="norm_of_difference", shapes=reduced, amp="float32", domain=compared(_cases, _reference, second=False))
def norm_of_difference(
    a: Expr, b: Expr, p: Any = 2, axis: int = -1, keepdims: bool = False, eps: float = 0.0, *, space: Space
) -> Expr:
    """Returns the p-norm of a - b + eps along ``axis``, broadcast; its gradient at 0 is 0."""
    return p_norm(a - b + eps, p, axis, space)


def _cdist_cases(rng: np.random.Generator) -> Cases:
    for p in (2.0, 1.0):
        yield (rng.uniform(-2, 2, (2, 3, 4)), rng.uniform(-2, 2, (5, 4))), {"p": p}


@composite(
    amp="float32",
    domain=compared(_cdist_cases, lambda a, b, p=2.0: _reference(a[..., None, :], b[..., None, :, :], p), second=False),
)
def cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Returns the p-norms of the differences of all pairs of rows: a (..., P, M) and b (..., R, M) give (..., P, R).

    Leading axes broadcast. Computed directly, without the expansion of the square, for each ``compute_mode``. Raises
    ShapeError if the rows differ in length.
    """
    if not p >= 0:
        raise ArgumentError(f"cdist: expected a p of 0 or more, got {p}")
    engine_of("cdist", a, b)
    _checked("cdist", a, b)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: expected shapes (..., P, M) and (..., R, M), got {a.shape} and {b.shape}")
    return norm_of_difference(unsqueeze(a, -2), unsqueeze(b, -3), float(p))  # type: ignore[no-any-return]


@composite(
    amp="float32",
    domain=compared(
        lambda rng: iter([((rng.uniform(-2, 2, (5, 3)),), {"p": p}) for p in (2.0, 3.0)]),
        lambda x, p=2.0: _reference(x[:, None], x[None], p)[np.triu_indices(len(x), 1)],
        second=False,
    ),
)
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Returns the p-norms of the differences of all pairs of rows i < j of x (N, M), row by row: (N (N - 1) / 2,)."""
    if not p >= 0:
        raise ArgumentError(f"pdist: expected a p of 0 or more, got {p}")
    engine_of("pdist", x)
    _checked("pdist", x, x)
    if x.ndim != 2:
        raise ShapeError(f"pdist: expected shape (N, M), got {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    return norm_of_difference(index_select(x, 0, first), index_select(x, 0, second), float(p))  # type: ignore[no-any-return]


def _pair_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, (3, 4))), {}
    yield (rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, (4,))), {"p": 1.0, "keepdims": True}


@composite(
    amp="float32",
    domain=compared(
        _pair_cases, lambda a, b, p=2.0, eps=1e-6, keepdims=False: _reference(a, b, p, -1, keepdims, eps), second=False
    ),
)
def pairwise_distance(a: Tensor, b: Tensor, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Tensor:
    """Returns the p-norm of a - b + eps over the last axis, broadcast."""
    engine_of("pairwise_distance", a, b)
    return norm_of_difference(a, b, float(p), -1, keepdims, eps=float(eps))  # type: ignore[no-any-return]


def _similarity_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, (3, 4))), {}
    yield (rng.uniform(-2, 2, (2, 3, 4)), rng.uniform(-2, 2, (3, 1))), {"axis": -1}


def _similarity(a: Any, b: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    a, b = np.broadcast_arrays(a, b)
    return (a * b).sum(axis) / np.sqrt((a * a).sum(axis) * (b * b).sum(axis))


@expression(shapes=reduced, amp="float32", domain=compared(_similarity_cases, _similarity))
def cosine_similarity(a: Expr, b: Expr, axis: int = 1, eps: float = 1e-8, *, space: Space) -> Expr:
    """Returns a b / (max(|a|, eps) max(|b|, eps)) along ``axis``, broadcast, from the quotients a / max(|a|, eps), so
    that no product overflows or underflows. A length below eps keeps its gradient, as in PyTorch.
    """
    _checked(space.op, a, b)
    at = space.axes(axis)
    first, second = (x / apply("maximum", safe_root(reduce("sum", x * x, at)), eps) for x in (a, b))
    return reduce("sum", first * second, at)
