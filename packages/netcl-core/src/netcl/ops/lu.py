"""LU factors, and the forms of linear systems, inverses and products of matrices that are made of other ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, ShapeError, SingularMatrixError
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part, tril, triu
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, cast, div, mul, where
from netcl.ops.factorizations import (
    cholesky,
    derived,
    host,
    inv,
    lapack,
    like,
    require_matrix,
    solution,
    solve,
    svdvals,
    transposed,
    well_conditioned,
)
from netcl.ops.linalg import matmul
from netcl.ops.matrix import matrix_norm
from netcl.ops.reduce import amax, amin
from netcl.ops.shape import permute, reshape
from netcl.ops.table import composite, computed, engine_of

# -- LU ----------------------------------------------------------------------------------------------------------------


def _factored(x: Any, pivot: bool = True) -> tuple[Any, Any]:
    """Returns (LU, pivots from 1) of the matrices of x by Gaussian elimination with partial pivoting."""
    lu = np.array(x)
    *batch, m, n = lu.shape
    flat = lu.reshape(math.prod(batch), m, n)
    k = min(m, n)
    pivots = np.tile(np.arange(1, k + 1, dtype=np.int32), (flat.shape[0], 1))
    each = np.arange(flat.shape[0])
    with np.errstate(all="ignore"):
        for j in range(k):
            if pivot:
                best = np.abs(flat[:, j:, j]).argmax(1) + j
                pivots[:, j] = best + 1
                rows = flat[each, best].copy()
                flat[each, best] = flat[:, j]
                flat[:, j] = rows
            diagonal = flat[:, j, j, None]
            flat[:, j + 1 :, j] /= np.where(diagonal == 0, 1, diagonal)
            flat[:, j + 1 :, j + 1 :] -= flat[:, j + 1 :, j, None] * flat[:, j, None, j + 1 :]
    return flat.reshape(x.shape), pivots.reshape(*batch, k)


def _order(pivots: Any, m: int) -> Any:
    """Returns the rows of x in the order of the factors: x[order] = L U."""
    *batch, k = pivots.shape
    flat = pivots.reshape(math.prod(batch), k)
    order = np.tile(np.arange(m), (flat.shape[0], 1))
    each = np.arange(flat.shape[0])
    for j in range(k):
        other = flat[:, j] - 1
        order[each, other], order[:, j] = order[:, j].copy(), order[each, other].copy()
    return order.reshape(*batch, m)


def _permutations(pivots: Any, m: int) -> Any:
    """Returns the matrices P with x = P L U."""
    return transposed(np.eye(m)[_order(pivots, m)])


@computed(
    name="linalg_permutation",
    domain=compared(
        lambda rng: iter([((np.array([3, 2, 3], np.int32),), {}), ((np.array([[2, 2], [1, 2]], np.int32),), {})]),
        lambda pivots: _permutations(pivots, pivots.shape[-1]),
        gradient=False,
    ),
)
def permutation(pivots: Tensor, m: int | None = None) -> Tensor:
    """Returns the matrices P (..., m, m), float32, with x = P L U for the exchanges that ``lu_factor`` gives; m is x's,
    by default their number.
    """
    engine_of("linalg_permutation", pivots)
    values = host(pivots)
    matrices = _permutations(values, values.shape[-1] if m is None else m)
    return like(pivots, matrices, "float32")


def _lu_cases(rng: np.random.Generator) -> Cases:
    for shape in ((3, 3), (2, 4, 4)):
        yield (well_conditioned(rng, *shape)[..., ::-1, :].copy(),), {}
    yield (well_conditioned(rng, 3, 3),), {"pivot": False}


@lapack("linalg_lu_factor", compared(_lu_cases, _factored))
def lu_factor(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """Returns (LU, pivots) of x (..., m, n): L below the diagonal of the first, without its ones, and U above; row i of
    x was exchanged with row pivots[i], int32 and from 1, one after the other. Without ``pivot`` no row is.

    A singular x gives zeros on the diagonal of U.
    """
    require_matrix("linalg_lu_factor", x, square=False)
    lu, pivots = _factored(host(x), pivot)
    return like(x, lu), like(x, pivots, "int32")


def _identity(x: Tensor, rows: int, columns: int) -> Tensor:
    return x.engine.tensor(np.eye(rows, columns), x.dtype)  # type: ignore[no-any-return]


@composite(
    name="linalg_lu_parts",
    domain=compared(
        lambda rng: iter([((rng.uniform(-1, 1, shape),), {}) for shape in ((3, 3), (2, 4, 3), (3, 4))]),
        lambda x: (
            (np.tril(x, -1) + np.eye(*x.shape[-2:]))[..., : min(x.shape[-2:])],
            np.triu(x)[..., : min(x.shape[-2:]), :],
        ),
    ),
)
def parts(lu: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (L, U) of packed factors (..., m, n): (..., m, k) and (..., k, n), k = min(m, n)."""
    require_matrix("linalg_lu_parts", lu, square=False)
    return _parts(lu)


def _parts(lu: Tensor) -> tuple[Tensor, Tensor]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = add(part(tril(lu, -1), lu.ndim - 1, 0, k), _identity(lu, m, k))
    return lower, part(triu(lu), lu.ndim - 2, 0, k)


def _lu(x: Any, pivot: bool = True) -> Any:
    lu, pivots = _factored(x, pivot)
    k, eye = min(x.shape[-2:]), np.eye(*x.shape[-2:])
    lower = (np.tril(lu, -1) + eye)[..., :k]
    return _permutations(pivots, x.shape[-2]), lower, np.triu(lu)[..., :k, :]


def _square_cases(rng: np.random.Generator) -> Cases:
    for shape in ((3, 3), (2, 4, 4)):
        yield (well_conditioned(rng, *shape)[..., ::-1, :].copy(),), {}


@derived("linalg_lu", compared(_square_cases, _lu, second=False))
def lu(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (P, L, U) with x = P L U: P (..., m, m) a permutation, L (..., m, k) lower triangular with ones on its
    diagonal, U (..., k, n) upper triangular, k = min(m, n). Without ``pivot`` P is the identity.
    """
    packed, pivots = lu_factor(x, pivot=pivot)
    return cast(permutation(pivots, x.shape[-2]), dtype=x.dtype), *_parts(packed)


def _lu_solve_cases(rng: np.random.Generator) -> Cases:
    packed, pivots = _factored(well_conditioned(rng, 2, 3, 3)[..., ::-1, :].copy())
    for attributes, shape in (({}, (2, 3, 2)), ({"adjoint": True}, (2, 3, 1)), ({"left": False}, (2, 4, 3))):
        yield (packed, pivots, rng.uniform(-1, 1, shape)), attributes


def _lu_solve_reference(packed: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    lower, upper = np.tril(packed, -1) + np.eye(packed.shape[-1]), np.triu(packed)
    x = _permutations(pivots, packed.shape[-1]) @ lower @ upper
    x = transposed(x) if adjoint else x
    return solution(x, b, left)


@derived("linalg_lu_solve", compared(_lu_solve_cases, _lu_solve_reference))
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Returns the X with A X = B, or X A = B if not ``left``, for the square A with the factors of ``lu_factor``;
    with ``adjoint`` for its transpose. Leading axes broadcast. Raises ShapeError if the shapes do not match.
    """
    op = "linalg_lu_solve"
    require_matrix(op, LU)
    engine_of(op, LU, pivots, B)
    if pivots.shape != LU.shape[:-1] or B.ndim < 2 or B.shape[-2 if left else -1] != LU.shape[-1]:
        raise ShapeError(f"{op}: LU {LU.shape}, pivots {pivots.shape} and B {B.shape} do not match (left={left})")
    lower, upper = _parts(LU)
    order = cast(permutation(pivots), dtype=LU.dtype)
    if not left:
        return _t(_by_factors(order, lower, upper, _t(B), not adjoint))
    return _by_factors(order, lower, upper, B, adjoint)


def _by_factors(order: Tensor, lower: Tensor, upper: Tensor, b: Tensor, turned: bool) -> Tensor:
    """Returns the solution for P L U, or for its transpose."""
    if turned:
        return matmul(order, solve(_t(lower), solve(_t(upper), b)))  # type: ignore[no-any-return]
    return solve(upper, solve(lower, matmul(order, b, transpose_a=True)))  # type: ignore[no-any-return]


def _t(x: Tensor) -> Tensor:
    return permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])  # type: ignore[no-any-return]


# -- with a number in place of an error --------------------------------------------------------------------------------


def _checked(op: str, info: Any, check_errors: bool, what: str) -> None:
    if check_errors and info.any():
        place = np.unravel_index(int((info != 0).argmax()), info.shape) if info.ndim else ()
        raise SingularMatrixError(f"{op}: {what} at row {int(info.max())}, matrix {tuple(int(i) for i in place)}")


def _require_floating(op: str, x: Tensor) -> None:
    require_matrix(op, x)
    if not is_floating(x.dtype):
        raise DTypeError(f"{op}: expected floating dtypes, got {x.dtype}; convert with astype")


def _only(x: Tensor, info: Any) -> Tensor:
    """Returns x with the identity in place of the matrices without a result."""
    good = like(x, (info == 0)[..., None, None], "bool")
    return where(good, x, _identity(x, *x.shape[-2:]))  # type: ignore[no-any-return]


def _or_nan(x: Tensor, info: Any, result: Tensor) -> Tensor:
    return where(like(x, (info == 0)[..., None, None], "bool"), result, math.nan)  # type: ignore[no-any-return]


def _zero_pivots(x: Any) -> Any:
    """Returns the first row, from 1, at which elimination finds no pivot; 0 for none."""
    packed, _ = _factored(x)
    return _first(np.diagonal(packed, axis1=-2, axis2=-1) == 0)


def _first(true: Any) -> Any:
    """The first true element of each row, from 1; 0 for none."""
    if not true.shape[-1]:
        return np.zeros(true.shape[:-1], np.int32)
    return np.where(true.any(-1), true.argmax(-1) + 1, 0).astype(np.int32)


def _not_positive(x: Any) -> Any:
    """Returns the order of the first leading minor that is not positive; 0 for none."""
    info = np.zeros(x.shape[:-2], np.int32)
    for place in np.ndindex(*info.shape):
        for k in range(1, x.shape[-1] + 1):
            try:
                np.linalg.cholesky(x[place][:k, :k])
            except np.linalg.LinAlgError:
                info[place] = k
                break
    return info


def _spoiled(rng: np.random.Generator) -> Any:
    x = well_conditioned(rng, 2, 3, 3)
    x = x @ transposed(x)
    x[1] = np.diag([1.0, 0.0, 2.0])
    return x


def _ex_reference(function: Any, info_of: Any) -> Any:
    def reference(x: Any, *more: Any, **attributes: Any) -> Any:
        info = info_of(x)
        good = (info == 0)[..., None, None]
        return np.where(good, function(np.where(good, x, np.eye(x.shape[-1])), *more, **attributes), np.nan), info

    return reference


def _triangle(x: Any, upper: bool = False) -> Any:
    lower = np.linalg.cholesky(transposed(x) if upper else x)
    return transposed(lower) if upper else lower


@derived(
    "linalg_cholesky_ex",
    compared(
        lambda rng: iter([((_spoiled(rng),), {}), ((_spoiled(rng)[0],), {"upper": True})]),
        _ex_reference(_triangle, _not_positive),
        gradient=False,
    ),
)
def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Returns ``cholesky``, NaN for matrices that are not positive definite, and an int32 for each matrix: 0, or the
    order of the first leading minor that is not positive. Raises SingularMatrixError for such a matrix with
    ``check_errors``.
    """
    op = "linalg_cholesky_ex"
    _require_floating(op, x)
    info = _not_positive(transposed(host(x)) if upper else host(x))
    _checked(op, info, check_errors, "the leading minor is not positive")
    factor = cholesky(_only(x, info) if info.any() else x, upper=upper)
    return _or_nan(x, info, factor) if info.any() else factor, like(x, info, "int32")


@derived(
    "linalg_inv_ex",
    compared(
        lambda rng: iter([((_spoiled(rng),), {}), ((_spoiled(rng)[0],), {})]),
        _ex_reference(np.linalg.inv, _zero_pivots),
        gradient=False,
    ),
)
def inv_ex(x: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Returns ``inv``, NaN for singular matrices, and an int32 for each matrix: 0, or the first row without a pivot.
    Raises SingularMatrixError for a singular matrix with ``check_errors``.
    """
    op = "linalg_inv_ex"
    _require_floating(op, x)
    info = _zero_pivots(host(x))
    _checked(op, info, check_errors, "there is no pivot")
    inverse = inv(_only(x, info) if info.any() else x)
    return _or_nan(x, info, inverse) if info.any() else inverse, like(x, info, "int32")


@derived(
    "linalg_solve_ex",
    compared(
        lambda rng: iter([((_spoiled(rng), rng.uniform(-1, 1, (2, 3, 2))), {})]),
        _ex_reference(np.linalg.solve, _zero_pivots),
        gradient=False,
    ),
)
def solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Returns ``solve``, NaN for singular matrices, and an int32 for each matrix as in ``inv_ex``."""
    op = "linalg_solve_ex"
    _require_floating(op, a)
    info = _zero_pivots(host(a))
    _checked(op, info, check_errors, "there is no pivot")
    if not info.any():
        return solve(a, b, left=left), like(a, info, "int32")
    solved = solve(_only(a, info), b, left=left)
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape)
    good = like(a, (info == 0)[..., None] if vector else (info == 0)[..., None, None], "bool")
    return where(good, solved, math.nan), like(a, info, "int32")


@derived(
    "linalg_lu_factor_ex",
    compared(
        lambda rng: iter([((_spoiled(rng),), {})]),
        lambda x, pivot=True: (*_factored(x, pivot), _zero_pivots(x)),
        gradient=False,
    ),
)
def lu_factor_ex(x: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``lu_factor``, and an int32 for each matrix: 0, or the first zero on the diagonal of U. Raises
    SingularMatrixError for such a matrix with ``check_errors``.
    """
    op = "linalg_lu_factor_ex"
    packed, pivots = lu_factor(x, pivot=pivot)
    info = _first(np.diagonal(host(packed), axis1=-2, axis2=-1) == 0)
    _checked(op, info, check_errors, "U has a zero")
    return packed, pivots, like(x, info, "int32")


# -- triangles, conditions, tensors as matrices ------------------------------------------------------------------------


def _triangular_cases(rng: np.random.Generator) -> Cases:
    a = well_conditioned(rng, 2, 3, 3)
    yield (a, rng.uniform(-1, 1, (2, 3, 2))), {"upper": True}
    yield (a, rng.uniform(-1, 1, (3, 1))), {"upper": False}
    yield (a, rng.uniform(-1, 1, (2, 2, 3))), {"upper": False, "left": False}
    yield (a, rng.uniform(-1, 1, (2, 3, 2))), {"upper": True, "unitriangular": True}


def _triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    kept = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        kept = kept - kept * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return solution(kept, b, left)


@derived("linalg_solve_triangular", compared(_triangular_cases, _triangular))
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Returns the X with a X = b, or X a = b if not ``left``, for a triangular a (..., n, n); only its upper or lower
    triangle is read; with ``unitriangular`` its diagonal counts as ones. Leading axes broadcast.

    Raises SingularMatrixError for a zero on the diagonal, ShapeError if the shapes do not match.
    """
    op = "linalg_solve_triangular"
    require_matrix(op, a)
    engine_of(op, a, b)
    if b.ndim < 2 or b.shape[-2 if left else -1] != a.shape[-1]:
        raise ShapeError(f"{op}: shapes {a.shape} and {b.shape} do not match (left={left})")
    offset = (1 if upper else -1) if unitriangular else 0
    kept = triu(a, offset) if upper else tril(a, offset)
    if unitriangular:
        kept = add(kept, _identity(a, a.shape[-1], a.shape[-1]))
    return solve(kept, b, left=left)  # type: ignore[no-any-return]


def _condition_cases(rng: np.random.Generator) -> Cases:
    for p in (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"):
        yield (well_conditioned(rng, 2, 3, 3),), {"p": p}
    yield (well_conditioned(rng, 4, 3),), {}


@derived("linalg_cond", compared(_condition_cases, lambda x, p=None: np.linalg.cond(x, p), second=False))
def cond(x: Tensor, p: Any = None) -> Tensor:
    """Returns the condition number of x (..., n, n) in the norm ``p`` of ``matrix_norm``: the norm times the norm of
    the inverse, infinite for a singular matrix. None and 2 are the largest singular value over the smallest, also of x
    (..., m, n).
    """
    op = "linalg_cond"
    require_matrix(op, x, square=p not in (None, 2, -2))
    if not x.size:
        return like(x, np.zeros(x.shape[:-2]))
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, least = amax(values, -1), amin(values, -1)
        return div(least, largest) if p == -2 else div(largest, least)  # type: ignore[no-any-return]
    inverse, info = inv_ex(x)
    product = mul(matrix_norm(x, p), matrix_norm(inverse, p))
    bad = host(info) != 0
    return where(like(x, bad, "bool"), math.inf, product) if bad.any() else product  # type: ignore[no-any-return]


@derived(
    "linalg_tensorinv",
    compared(
        lambda rng: iter(
            [
                ((well_conditioned(rng, 6, 6).reshape(2, 3, 6),), {}),
                ((well_conditioned(rng, 6, 6).reshape(6, 3, 2),), {"ind": 1}),
            ]
        ),
        lambda x, ind=2: np.linalg.tensorinv(x, ind),
    ),
)
def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """Returns the inverse of x as a matrix of its first ``ind`` axes by the others: their axes in front, then the first
    ones. Raises ShapeError unless both have as many elements, SingularMatrixError if there is none.
    """
    op = "linalg_tensorinv"
    engine_of(op, x)
    rows, columns = x.shape[:ind], x.shape[ind:]
    if ind < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(f"{op}: {rows} and {columns} of shape {x.shape} have not as many elements")
    return reshape(inv(reshape(x, (math.prod(rows), math.prod(columns)))), (*columns, *rows))  # type: ignore[no-any-return]


def _tensor_cases(rng: np.random.Generator) -> Cases:
    yield (well_conditioned(rng, 6, 6).reshape(2, 3, 6), rng.uniform(-1, 1, (2, 3))), {}
    yield (well_conditioned(rng, 6, 6).reshape(2, 6, 3), rng.uniform(-1, 1, (2, 3))), {"dims": (1,)}


@derived("linalg_tensorsolve", compared(_tensor_cases, lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims)))
def tensorsolve(a: Tensor, b: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Returns the X with tensordot(a, X, X.ndim) = b; ``dims`` of a are moved to its end first. Only the elements of b
    count, not their axes. Raises ShapeError if the sizes do not match, SingularMatrixError if there is no solution.
    """
    op = "linalg_tensorsolve"
    engine_of(op, a, b)
    if dims is not None:
        moved = [axis % a.ndim for axis in dims]
        a = permute(a, [*(axis for axis in range(a.ndim) if axis not in moved), *moved])
    shape = a.shape[b.ndim :]
    if math.prod(a.shape[: b.ndim]) != b.size or math.prod(shape) != b.size:
        raise ShapeError(f"{op}: shapes {a.shape} and {b.shape} do not match (dims={dims})")
    return reshape(solve(reshape(a, (b.size, b.size)), reshape(b, (b.size,))), shape)  # type: ignore[no-any-return]


def _chain_cases(rng: np.random.Generator) -> Cases:
    for shapes in (((3, 4), (4, 2), (2, 5), (5, 3)), ((4,), (4, 2), (2,)), ((3, 2), (2, 3))):
        yield ([rng.uniform(-1, 1, shape) for shape in shapes],), {}


@composite(
    name="linalg_multi_dot",
    amp="half",
    domain=compared(_chain_cases, lambda tensors: np.linalg.multi_dot(tensors), gradient=False),
)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the product of two or more matrices, in the order with the fewest multiplications; the first and the last
    may be vectors. Raises ShapeError if the lengths do not match.
    """
    op = "linalg_multi_dot"
    factors = list(tensors)
    if len(factors) < 2:
        raise ShapeError(f"{op}: expected two tensors or more, got {len(factors)}")
    engine_of(op, *factors)
    first, last = factors[0].ndim == 1, factors[-1].ndim == 1
    if first:
        factors[0] = reshape(factors[0], (1, -1))
    if last:
        factors[-1] = reshape(factors[-1], (-1, 1))
    if any(x.ndim != 2 for x in factors) or any(a.shape[1] != b.shape[0] for a, b in zip(factors, factors[1:])):
        raise ShapeError(f"{op}: shapes {' and '.join(str(x.shape) for x in tensors)} do not match")
    sizes = [factors[0].shape[0], *(x.shape[1] for x in factors)]
    result = _product(factors, _splits(sizes), 0, len(factors) - 1)
    lead = () if first else (sizes[0],)
    return reshape(result, (*lead, *(() if last else (sizes[-1],))))  # type: ignore[no-any-return]


def _splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Returns the place at which each part of a chain is best divided, by dynamic programming."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def _product(tensors: Sequence[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return tensors[i]
    k = split[i, j]
    return matmul(_product(tensors, split, i, k), _product(tensors, split, k + 1, j))  # type: ignore[no-any-return]
