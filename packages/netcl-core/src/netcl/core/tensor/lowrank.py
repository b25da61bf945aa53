"""Factors of low rank: randomized singular values (Halko, Martinsson and Tropp 2011), and the extreme eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

from netcl.core.errors import ShapeError, from_here
from netcl.core.ops_table import dispatch
from netcl.core.tensor.tensor import Tensor

# Beyond this, a call would not end.
_STEPS_MAX = 10_000


class Factors(NamedTuple):
    """Factors of x = U diag(S) V^T, approximately."""

    U: Tensor
    S: Tensor
    V: Tensor


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return dispatch.call(name, *args, record=True, **kwargs)


def _matrix(op: str, x: Any) -> Any:
    """``x`` as a dense tensor; raises ShapeError unless it is a matrix or a stack of them."""
    x = x if isinstance(x, Tensor) else x.to_dense()
    if x.ndim < 2:
        raise ShapeError(f"{op}: expected (..., m, n), got shape {x.shape}")
    return x


def _basis(x: Any, q: int, niter: int) -> Any:
    """Q (..., m, q) with orthonormal columns, so that Q Q^T x is nearly x."""
    if niter > _STEPS_MAX:
        raise ValueError(
            f"expected niter of at most {_STEPS_MAX}, got {niter}: 2 to 7 steps are enough for most matrices"
        )
    drawn = _call("normal", 0.0, 1.0, shape=(x.shape[-1], q), dtype=x.dtype, queue=x.engine.queue)
    basis, _ = _call("linalg_qr", _call("matmul", x, drawn))
    for _ in range(niter):
        for matrix in (x.mT, x):
            basis, _ = _call("linalg_qr", _call("matmul", matrix, basis))
    return basis


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Factors:
    """Returns (U, S, V) with A - M nearly U diag(S) V^T: A (..., m, n), U (..., m, q), S (..., q), V (..., n, q).

    The vectors span what ``niter`` steps of subspace iteration make of q random vectors; S is exact for a rank up to q.
    """
    x = _matrix("svd_lowrank", A)
    x = x if M is None else _call("sub", x, M)
    wide = x.shape[-2] < x.shape[-1]
    x = x.mT if wide else x
    basis = _basis(x, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = _call("linalg_svd", _call("matmul", basis.mT, x), full_matrices=False)
    u, v = _call("matmul", basis, u), vh.mT
    return Factors(v, s, u) if wide else Factors(u, s, v)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Factors:
    """Returns ``svd_lowrank`` of A without the mean of each column, unless ``center`` is False: the columns of V are
    principal directions, S**2 / (m - 1) the variances along them. q is by default min(6, m, n). Raises ValueError for
    another q than 0 to min(m, n) and for a negative ``niter``.
    """
    x = _matrix("pca_lowrank", A)
    most = min(x.shape[-2:])
    if q is not None and not 0 <= q <= most or niter < 0:
        raise ValueError(f"pca_lowrank: expected q from 0 to {most} and niter of 0 or more, got {q} and {niter}")
    mean = _call("mean", x, axis=-2, keepdims=True) if center else None
    return svd_lowrank(x, min(6, most) if q is None else q, niter, mean)


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """Returns (E (..., k), X (..., m, k)): the k largest eigenvalues of a symmetric A (..., m, m), falling, or with
    ``largest=False`` the k smallest, rising, and their vectors; A X = B X diag(E) for a positive definite B.

    The eigenvalues are exact, by ``linalg.eigh``, so that what steers the iteration has no effect. k is by default the
    number of columns of X, or 1. Raises ValueError for m < 3 k, as PyTorch does.
    """
    x = _matrix("lobpcg", A)
    count = (1 if X is None else X.shape[-1]) if k is None else k
    if x.shape[-1] < 3 * count:
        raise ValueError(f"lobpcg: expected at least 3 k = {3 * count} rows, got {x.shape[-1]}")
    lower = None
    if B is not None:
        lower = _call("linalg_cholesky", _matrix("lobpcg", B))
        half = _call("linalg_solve_triangular", lower, x, upper=False)
        x = _call("linalg_solve_triangular", lower.mT, half, upper=True, left=False)
    values, vectors = _call("linalg_eigh", x)
    if largest is None or largest:
        values, vectors = _call("flip", values, -1), _call("flip", vectors, -1)
    values, vectors = values[..., :count], vectors[..., :count]
    if lower is not None:
        vectors = _call("linalg_solve_triangular", lower.mT, vectors, upper=True)
    return values, vectors


from_here(globals())
