"""Matrix factorizations, inverses and linear systems, computed by LAPACK on the host through NumPy.

Each op reads its operands on the host and writes the results to their device; float16 and bfloat16 are computed in
float32. The gradients are closed forms, in `netcl.autograd.rules.factorizations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating, promote
from netcl.core.engine.recording import host_read_allowed
from netcl.core.errors import ArgumentError, ShapeError, SingularMatrixError
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.table import OpFunction, composite, computed, engine_of


def lapack(name: str, domain: Domain, forms: str = "") -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates as ``computed`` an op of floating matrices, which LAPACK computes in float32 under autocast."""
    return computed(name=name, dtypes="floating", amp="float32", domain=domain, forms=forms)


def derived(name: str, domain: Domain, forms: str = "") -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates as ``composite`` an op over such ops, in float32 under autocast."""
    return composite(name=name, amp="float32", domain=domain, forms=forms)


def require_matrix(op: str, x: Tensor, square: bool = True) -> None:
    """Raises ShapeError if ``x`` is not a (square) matrix or a stack of them."""
    engine_of(op, x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        wanted = "(..., n, n)" if square else "(..., m, n)"
        raise ShapeError(f"{op}: expected a matrix or a stack of them, {wanted}, got shape {x.shape}")


def host(x: Tensor) -> Any:
    """Returns the values of ``x`` as LAPACK takes them; on the device "meta", where results have a shape only, identity
    matrices, or ones as positions.
    """
    if x.is_meta:
        floating = is_floating(x.dtype) and x.ndim > 1
        return np.broadcast_to(np.eye(*x.shape[-2:], dtype=np.float32) if floating else np.ones((), np.int32), x.shape)
    host_read_allowed(x.engine)
    values = x.to_host()
    return values.astype(np.float32) if values.dtype == np.float16 else values


# LAPACK's iterations may not end on infinities, in an SVD of two of them for example.
_ITERATIVE = {
    "linalg_svd", "linalg_svdvals", "linalg_eigh", "linalg_eigvalsh", "linalg_pinv", "linalg_lstsq",
    "linalg_matrix_rank",
}  # fmt: skip


def _solved(op: str, function: Callable[..., Any], *arrays: Any, **attributes: Any) -> Any:
    """Returns what ``function`` of LAPACK returns; raises SingularMatrixError with its reason."""
    if op in _ITERATIVE and not all(np.isfinite(array).all() for array in arrays):
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise SingularMatrixError(f"{op}: no convergence on NaN or infinities; input of shape {shapes}")
    try:
        with np.errstate(all="ignore"):
            return function(*arrays, **attributes)
    except np.linalg.LinAlgError as error:
        raise SingularMatrixError(f"{op}: {error}; input of shape {arrays[0].shape}") from None


def like(x: Tensor, values: Any, dtype: str | None = None) -> Tensor:
    with np.errstate(over="ignore"):  # float16 results are computed in float32
        result: Tensor = x.engine.tensor(np.ascontiguousarray(values), dtype or x.dtype)
    return result._alias(np.shape(values)) if result.shape != np.shape(values) else result


def transposed(values: Any) -> Any:
    """Returns the matrices of a NumPy array transposed."""
    return np.swapaxes(values, -1, -2)


# -- test ranges -------------------------------------------------------------------------------------------------------


def well_conditioned(rng: np.random.Generator, *shape: int) -> Any:
    """Matrices with distinct singular values of about 1 to 4."""
    x = rng.uniform(-0.4, 0.4, shape)
    for i in range(min(shape[-2:])):
        x[..., i, i] += 1.5 + 0.7 * i
    return x


def _squares(rng: np.random.Generator) -> Cases:
    yield (well_conditioned(rng, 3, 3),), {}
    yield (well_conditioned(rng, 2, 4, 4),), {}
    yield (well_conditioned(rng, 1, 1),), {}


def _with(attributes: dict[str, Any], *shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for shape in shapes:
            yield (well_conditioned(rng, *shape),), attributes

    return cases


# -- factorizations ----------------------------------------------------------------------------------------------------


def _cholesky(x: Any, upper: bool = False) -> Any:
    lower = np.linalg.cholesky(transposed(x) if upper else x)
    return transposed(lower) if upper else lower


def _gram(rng: np.random.Generator) -> Cases:
    for shape, attributes in (((3, 3), {}), ((2, 4, 4), {}), ((3, 3), {"upper": True})):
        x = well_conditioned(rng, *shape)
        yield (x @ transposed(x),), attributes


# Only one triangle is read, and the gradient is symmetric: tests of its own symmetrize the input.
@lapack("linalg_cholesky", compared(_gram, _cholesky, gradient=False), "x.cholesky")
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """Returns the lower triangular L with x = L L^T, or with ``upper`` the upper triangular U with x = U^T U.

    x (..., n, n), symmetric and positive definite; only the lower (upper) triangle is read. Raises
    SingularMatrixError if a matrix is not positive definite.
    """
    require_matrix("linalg_cholesky", x)
    return like(x, _solved("linalg_cholesky", _cholesky, host(x), upper=upper))


_MODES = ("reduced", "complete", "r")


def _qr(x: Any, mode: Any = "reduced") -> Any:
    if mode == "r":
        return np.zeros(0), np.linalg.qr(x, "r")
    return tuple(np.linalg.qr(x, mode))


def _qr_cases(rng: np.random.Generator) -> Cases:
    for shape in ((3, 3), (2, 5, 3), (3, 5)):
        yield (well_conditioned(rng, *shape),), {}


@lapack("linalg_qr", compared(_qr_cases, _qr))
def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Returns (Q, R) with x = Q R, Q with orthonormal columns and R upper triangular: x (..., m, n), k = min(m, n).

    ``mode``: ``reduced`` gives (..., m, k) and (..., k, n); ``complete`` (..., m, m) and (..., m, n); ``r`` an empty Q
    and R (..., k, n). Raises ValueError for another mode.
    """
    require_matrix("linalg_qr", x, square=False)
    if mode not in _MODES:
        raise ArgumentError(f"linalg_qr: expected one of {', '.join(_MODES)} as mode, got {mode!r}")
    q, r = _qr(host(x), mode)
    return like(x, q), like(x, r)


def _svd(x: Any, full_matrices: bool = True) -> Any:
    return tuple(np.linalg.svd(x, full_matrices))


@lapack("linalg_svd", compared(_with({"full_matrices": False}, (3, 3), (2, 5, 3), (3, 4)), _svd))
def svd(x: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (U, S, Vh) with x = U diag(S) Vh: orthonormal columns of U and rows of Vh, S (..., k) falling, k = min(m,
    n).

    x (..., m, n); U (..., m, m) and Vh (..., n, n), or (..., m, k) and (..., k, n) without ``full_matrices``. The
    gradient is finite only if the singular values are distinct, and for ``full_matrices`` uses the first k vectors.
    """
    require_matrix("linalg_svd", x, square=False)
    return tuple(like(x, part) for part in _solved("linalg_svd", _svd, host(x), full_matrices=full_matrices))  # type: ignore[return-value]


@lapack("linalg_svdvals", compared(_with({}, (3, 3), (2, 5, 3), (3, 4)), lambda x: np.linalg.svd(x, compute_uv=False)))
def svdvals(x: Tensor) -> Tensor:
    """Returns the singular values of x (..., m, n), falling: (..., min(m, n))."""
    require_matrix("linalg_svdvals", x, square=False)
    return like(x, _solved("linalg_svdvals", np.linalg.svd, host(x), compute_uv=False))


def _eigh(x: Any, UPLO: Any = "L") -> Any:
    return tuple(np.linalg.eigh(x, UPLO))


def _symmetric(rng: np.random.Generator) -> Cases:
    for shape, attributes in (((3, 3), {}), ((2, 4, 4), {}), ((3, 3), {"UPLO": "U"})):
        x = well_conditioned(rng, *shape)
        yield (x + transposed(x),), attributes


def _triangle(op: str, uplo: str) -> str:
    if uplo not in ("L", "U"):
        raise ArgumentError(f"{op}: expected UPLO 'L' or 'U', got {uplo!r}")
    return uplo


@lapack("linalg_eigh", compared(_symmetric, _eigh, gradient=False))
def eigh(x: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """Returns (eigenvalues (..., n) rising, eigenvectors (..., n, n) as columns) of a symmetric x; only its lower
    triangle is read ("L"), or the upper one ("U").

    The gradient by the vectors is finite only if the eigenvalues are distinct.
    """
    require_matrix("linalg_eigh", x)
    parts = _solved("linalg_eigh", _eigh, host(x), UPLO=_triangle("linalg_eigh", UPLO))
    return tuple(like(x, part) for part in parts)  # type: ignore[return-value]


def _eigenvalues(x: Any, triangle: Any) -> Any:
    return np.linalg.eigvalsh(x, triangle)


@lapack("linalg_eigvalsh", compared(_symmetric, lambda x, UPLO="L": _eigenvalues(x, UPLO), gradient=False))
def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """Returns the eigenvalues of a symmetric x, (..., n) rising, as in ``eigh``."""
    require_matrix("linalg_eigvalsh", x)
    return like(x, _solved("linalg_eigvalsh", np.linalg.eigvalsh, host(x), UPLO=_triangle("linalg_eigvalsh", UPLO)))


# -- inverses and systems ----------------------------------------------------------------------------------------------


@lapack("linalg_inv", compared(_squares, np.linalg.inv), "x.inverse")
def inv(x: Tensor) -> Tensor:
    """Returns the inverse of x (..., n, n). Raises SingularMatrixError if there is none."""
    require_matrix("linalg_inv", x)
    return like(x, _solved("linalg_inv", np.linalg.inv, host(x)))


def _pinv(x: Any, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Any:
    """Returns V diag(1 / s) U^T, with zero for singular values up to max(atol, rtol * the largest)."""
    if 0 in x.shape:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, vectors = np.linalg.eigh(x)
        size, left, right = np.abs(values), vectors, vectors
    else:
        left, values, rows = np.linalg.svd(x, full_matrices=False)
        size, right = values, transposed(rows)
    keep = size > _limit(size, x, atol, rtol)
    inverse = np.where(keep, 1 / np.where(keep, values, 1), 0).astype(x.dtype)
    return (right * inverse[..., None, :]) @ transposed(left)


def _limit(size: Any, x: Any, atol: float | None, rtol: float | None) -> Any:
    """Returns the smallest singular value that counts: max(atol, rtol * the largest); PyTorch's defaults."""
    absolute = 0.0 if atol is None else atol
    if rtol is None:
        rtol = 0.0 if absolute > 0 else max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return np.maximum(absolute, rtol * size.max(-1, keepdims=True))


@lapack("linalg_pinv", compared(_with({}, (3, 3), (2, 5, 3), (3, 4)), _pinv), "x.pinverse")
def pinv(x: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """Returns the Moore-Penrose pseudoinverse of x (..., m, n): (..., n, m).

    Singular values up to max(atol, rtol * the largest) count as zero; by default atol is 0, and rtol max(m, n) times
    the machine epsilon, or 0 with a given atol. ``hermitian``: x is symmetric, and its lower triangle is read.
    """
    require_matrix("linalg_pinv", x, square=hermitian)
    return like(x, _solved("linalg_pinv", _pinv, host(x), atol=atol, rtol=rtol, hermitian=hermitian))


def _vector(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """True if the right-hand side is a vector for each matrix, by PyTorch's rule."""
    return len(b) == 1 or (len(a) - 1 == len(b) and a[:-1] == b)


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    if _vector(a.shape, b.shape):
        return np.linalg.solve(a, b[..., None])[..., 0]
    return solution(a, b, left)


def solution(a: Any, b: Any, left: bool) -> Any:
    """Returns x of a x = b, or of x a = b, for NumPy's matrices."""
    # NumPy 1 takes a b of one axis less than a for vectors, whatever its shape.
    b = b.reshape((1,) * (a.ndim - b.ndim) + b.shape)
    return np.linalg.solve(a, b) if left else transposed(np.linalg.solve(transposed(a), transposed(b)))


def _solve_cases(rng: np.random.Generator) -> Cases:
    for a, b, attributes in (
        ((3, 3), (3, 2), {}),
        ((2, 3, 3), (2, 3, 1), {}),
        ((3, 3), (3,), {}),
        ((2, 3, 3), (2, 3), {}),
        ((2, 1, 3, 3), (4, 3, 2), {}),
        ((3, 3), (2, 3), {"left": False}),
    ):
        yield (well_conditioned(rng, *a), rng.uniform(-1, 1, b)), attributes


@lapack("linalg_solve", compared(_solve_cases, _solve))
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """Returns the X with a X = b, or X a = b if not ``left``: a (..., n, n), b (..., n, k), or (..., k, n) if not
    ``left``.

    Leading axes broadcast. b (n,), or of a's shape without its last axis, is a vector for each matrix. Raises
    SingularMatrixError if a matrix is singular, ShapeError if the shapes do not match.
    """
    op = "linalg_solve"
    require_matrix(op, a)
    engine_of(op, a, b)
    vector = _vector(a.shape, b.shape)
    length = b.shape[-1] if b.ndim and (vector or not left) else b.shape[-2] if b.ndim > 1 else -1
    if length != a.shape[-1] or (vector and not left):
        raise ShapeError(f"{op}: shapes {a.shape} and {b.shape} do not match (left={left})")
    dtype = promote(a.dtype, b.dtype)
    values = _solved(op, _broadcast(op, _solve), host(a), host(b), left=left)
    return like(a, values, dtype)


def _broadcast(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any, **attributes: Any) -> Any:
        try:
            return function(a, b, **attributes)
        except np.linalg.LinAlgError:
            raise
        except ValueError:
            raise ShapeError(f"{op}: leading axes of {a.shape} and {b.shape} do not broadcast") from None

    return call


def _lstsq(a: Any, b: Any, rcond: float | None = None) -> Any:
    """Returns solution, residuals (empty unless m > n and the rank is n), rank, singular values; of stacks, by item."""
    m, n = a.shape[-2:]
    wide = b[..., None] if _vector(a.shape, b.shape) and b.ndim < a.ndim else b
    eps = np.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    batch = np.broadcast_shapes(a.shape[:-2], wide.shape[:-2])
    a, wide = np.broadcast_to(a, (*batch, m, n)), np.broadcast_to(wide, (*batch, *wide.shape[-2:]))
    solution = np.empty((*batch, n, wide.shape[-1]), a.dtype)
    rank = np.empty(batch, np.int64)
    values = np.empty((*batch, min(m, n)), a.dtype)
    for place in np.ndindex(*batch):
        solution[place], _, rank[place], values[place] = np.linalg.lstsq(a[place], wide[place], rcond=eps)
    whole = m > n and bool((rank == n).all())
    residuals = ((a @ solution - wide) ** 2).sum(-2) if whole else np.zeros(0, a.dtype)
    if wide.ndim != b.ndim:
        solution, residuals = solution[..., 0], residuals[..., 0] if whole else residuals
    return solution, residuals, rank, values


def _lstsq_cases(rng: np.random.Generator) -> Cases:
    for a, b in (((5, 3), (5, 2)), ((2, 4, 2), (2, 4, 1)), ((3, 3), (3, 2)), ((2, 4), (2, 3))):
        yield (well_conditioned(rng, *a), rng.uniform(-1, 1, b)), {}


@lapack("linalg_lstsq", compared(_lstsq_cases, _lstsq, gradient=False))
def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns (solution, residuals, rank, singular values): the X of smallest norm that minimizes the norm of a X - b.

    a (..., m, n), b (..., m, k); leading axes broadcast. The residuals, squared and summed, are empty unless m > n and
    all ranks are n. Singular values up to ``rcond`` times the largest count as zero (default: max(m, n) machine
    epsilons). The solution is always that of "gelsd"; the ``driver`` "gelsy" gives no residuals and no singular values,
    "gels" no rank and no singular values, as in PyTorch. The solution and the residuals have a gradient.
    """
    op = "linalg_lstsq"
    require_matrix(op, a, square=False)
    engine_of(op, a, b)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ArgumentError(f"{op}: expected driver None, 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    if b.ndim == 0 or a.shape[-2] != (b.shape[-1] if _vector(a.shape, b.shape) else b.shape[-2]):
        raise ShapeError(f"{op}: shapes {a.shape} and {b.shape} do not match")
    dtype = promote(a.dtype, b.dtype)
    parts = _solved(op, _broadcast(op, _lstsq), host(a), host(b), rcond=rcond)
    solution, residuals, rank, values = parts
    if driver == "gelsy":
        residuals = np.zeros(0, residuals.dtype)
    if driver in ("gels", "gelsy"):
        values = np.zeros(0, values.dtype)
    if driver == "gels":
        rank = np.zeros(0, np.int64)
    return like(a, solution, dtype), like(a, residuals, dtype), like(a, rank, "int64"), like(a, values)


# -- determinants and rank ---------------------------------------------------------------------------------------------


@lapack("linalg_det", compared(_squares, np.linalg.det), "x.det")
def det(x: Tensor) -> Tensor:
    """Returns the determinant of x (..., n, n): (...); also the gradient of a singular matrix is exact."""
    require_matrix("linalg_det", x)
    with np.errstate(all="ignore"):
        return like(x, np.linalg.det(host(x)))


def _cofactors(x: Any) -> Any:
    """Returns det(x) x^-T = det(U) det(V) U diag(products of all other singular values) Vh, which needs no inverse."""
    if not np.isfinite(x).all():
        return np.full_like(x, np.nan)
    left, values, right = np.linalg.svd(x)
    n = values.shape[-1]
    with np.errstate(all="ignore"):
        others = np.where(np.eye(n, dtype=bool), 1, values[..., None, :]).prod(-1).astype(x.dtype)
        sign = np.linalg.det(left) * np.linalg.det(right)
        return sign[..., None, None] * ((left * others[..., None, :]) @ right)


@lapack(
    "linalg_cofactors", compared(_squares, lambda x: np.linalg.det(x)[..., None, None] * transposed(np.linalg.inv(x)))
)
def cofactors(x: Tensor) -> Tensor:
    """Returns the cofactors of x (..., n, n), det(x) times the transposed inverse: the gradient of ``det``."""
    require_matrix("linalg_cofactors", x)
    return like(x, _cofactors(host(x)))


@lapack("linalg_slogdet", compared(_squares, lambda x: tuple(np.linalg.slogdet(x))), "x.slogdet")
def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (sign, log |det|) of x (..., n, n), each (...); (0, -inf) if it is singular."""
    require_matrix("linalg_slogdet", x)
    with np.errstate(all="ignore"):
        sign, logarithm = np.linalg.slogdet(host(x))
    return like(x, sign), like(x, logarithm)


def _rank(x: Any, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Any:
    if 0 in x.shape[-2:]:
        return np.zeros(x.shape[:-2], np.int64)
    size = np.abs(np.linalg.eigvalsh(x)) if hermitian else np.linalg.svd(x, compute_uv=False)
    return (size > _limit(size, x, atol, rtol)).sum(-1)


def _rank_cases(rng: np.random.Generator) -> Cases:
    yield (well_conditioned(rng, 2, 4, 3),), {}
    yield (np.ones((3, 3)),), {}
    yield (np.diag([2.0, 1.0, 0.0]),), {"hermitian": True}
    yield (np.diag([2.0, 1.0, 0.25]),), {"atol": 0.5}


@lapack("linalg_matrix_rank", compared(_rank_cases, _rank, gradient=False))
def matrix_rank(x: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """Returns the number of singular values of x (..., m, n) above the limit of ``pinv``: (...), int64."""
    require_matrix("linalg_matrix_rank", x, square=hermitian)
    return like(x, _solved("linalg_matrix_rank", _rank, host(x), atol=atol, rtol=rtol, hermitian=hermitian), "int64")
