"""LDL^T factors of symmetric matrices by the diagonal pivots of Bunch and Kaufman (1977), as LAPACK packs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.dtypes import promote
from netcl.core.errors import ShapeError, SingularMatrixError
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.factorizations import derived, host, lapack, like, require_matrix
from netcl.ops.table import engine_of

_GROWTH = (1 + math.sqrt(17)) / 8


def _pivot(a: Any, k: int) -> tuple[int, int]:
    """(the row to exchange, the size of the block, 1 or 2) for the pivot at row ``k`` of a lower triangle."""
    n, first = a.shape[0], abs(a[k, k])
    if k == n - 1:
        return k, 1
    row = k + 1 + int(np.abs(a[k + 1 :, k]).argmax())
    column_max = abs(a[row, k])
    if not max(first, column_max) > 0 or first >= _GROWTH * column_max:
        return k, 1
    others = np.abs(np.concatenate([a[row, k:row], a[row + 1 :, row]]))
    row_max = others.max()
    if first >= _GROWTH * column_max * (column_max / row_max):
        return k, 1
    return row, 1 if abs(a[row, row]) >= _GROWTH * row_max else 2


def _exchange(a: Any, k: int, last: int, row: int, size: int) -> None:
    """Exchanges rows and columns ``last`` and ``row`` of the part from ``k`` on."""
    a[row + 1 :, [last, row]] = a[row + 1 :, [row, last]]
    between = a[last + 1 : row, last].copy()
    a[last + 1 : row, last], a[row, last + 1 : row] = a[row, last + 1 : row], between
    a[last, last], a[row, row] = a[row, row], a[last, last]
    if size == 2:
        a[last, k], a[row, k] = a[row, k], a[last, k]


def _factor_matrix(a: Any, pivots: Any) -> int:
    """Factors one lower triangle in place; returns 0, or the first zero pivot, from 1."""
    n, k, info = a.shape[0], 0, 0
    while k < n:
        row, size = _pivot(a, k)
        last, rest = k + size - 1, slice(k + size, None)
        if row != last:
            _exchange(a, k, last, row, size)
        pivots[k : k + size] = row + 1 if size == 1 else -(row + 1)
        if size == 2 or a[k, k] != 0:
            block = a[k : k + size, k : k + size]
            block = np.tril(block) + np.tril(block, -1).T
            column = a[rest, k : k + size].copy()
            if column.size:
                lower = np.linalg.solve(block, column.T).T
                a[rest, rest] -= np.tril(lower @ column.T)
                a[rest, k : k + size] = lower
        elif not info:
            info = k + 1
        k += size
    return info


def _factored(x: Any) -> tuple[Any, Any, Any]:
    """(LD, pivots, info) of the lower triangles of x (..., n, n)."""
    ld = np.tril(x)
    flat = ld.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    pivots, info = np.zeros(flat.shape[:-1], np.int32), np.zeros(len(flat), np.int32)
    with np.errstate(all="ignore"):
        for place, matrix in enumerate(flat):
            info[place] = _factor_matrix(matrix, pivots[place])
    return flat.reshape(x.shape), pivots.reshape(x.shape[:-1]), info.reshape(x.shape[:-2])


def _symmetric(rng: np.random.Generator, *shape: int) -> Any:
    x = rng.uniform(-1, 1, shape)
    return x + np.swapaxes(x, -1, -2)


@lapack(
    "linalg_ldl_factor_ex",
    compared(
        lambda rng: iter([((_symmetric(rng, *shape),), {}) for shape in ((3, 3), (2, 5, 5))]),
        lambda x: _factored(x),
        gradient=False,
    ),
)
def ldl_factor_ex(x: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """``ldl_factor``, and int32: 0, or the first zero pivot; with ``check_errors`` SingularMatrixError then."""
    op = "linalg_ldl_factor_ex"
    require_matrix(op, x)
    ld, pivots, info = _factored(host(x))
    if check_errors and info.any():
        raise SingularMatrixError(f"{op}: a pivot is zero at row {int(info.max())}; input of shape {x.shape}")
    return like(x, ld), like(x, pivots, "int32"), like(x, info, "int32")


@derived(
    "linalg_ldl_factor",
    compared(
        lambda rng: iter([((_symmetric(rng, *shape),), {}) for shape in ((4, 4), (2, 3, 3))]),
        lambda x: _factored(x)[:2],
        gradient=False,
    ),
)
def ldl_factor(x: Tensor, *, hermitian: bool = False) -> tuple[Tensor, Tensor]:
    """(LD, pivots) of a symmetric x (..., n, n); its lower triangle is read: D with blocks of one or two rows on the
    diagonal, L below it. pivots, int32 and from 1, name the row that was exchanged; both rows of a block of two have it
    with a minus. No gradient; raises SingularMatrixError if a pivot is zero.
    """
    return ldl_factor_ex(x, hermitian=hermitian, check_errors=True)[:2]  # type: ignore[no-any-return]


def _solve_matrix(ld: Any, pivots: Any, x: Any) -> None:
    """Solves L D L^T x = b in place of b."""
    n, k, blocks = len(ld), 0, []
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        last, row, rest = k + size - 1, abs(int(pivots[k])) - 1, slice(k + size, None)
        x[[last, row]] = x[[row, last]]
        x[rest] -= ld[rest, k : k + size] @ x[k : k + size]
        block = np.tril(ld[k : k + size, k : k + size])
        x[k : k + size] = np.linalg.solve(block + np.tril(block, -1).T, x[k : k + size])
        blocks.append((k, size, last, row))
        k += size
    for k, size, last, row in reversed(blocks):
        x[k : k + size] -= ld[k + size :, k : k + size].T @ x[k + size :]
        x[[last, row]] = x[[row, last]]


def _solved(ld: Any, pivots: Any, b: Any) -> Any:
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    ld, pivots = np.broadcast_to(ld, (*batch, *ld.shape[-2:])), np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    for place in np.ndindex(*batch):
        _solve_matrix(ld[place], pivots[place], x[place])
    return x


def _solve_cases(rng: np.random.Generator) -> Cases:
    for shape, columns in (((4, 4), (4, 2)), ((2, 3, 3), (3, 1))):
        ld, pivots, _ = _factored(_symmetric(rng, *shape))
        yield (ld, pivots, rng.uniform(-1, 1, columns)), {}


@lapack("linalg_ldl_solve", compared(_solve_cases, _solved, gradient=False))
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The X with A X = B for the symmetric A (..., n, n) that ``ldl_factor`` factored; B (..., n, k), where leading
    axes broadcast. No gradient. Raises ShapeError if the shapes do not match, SingularMatrixError if A is singular.
    """
    op = "linalg_ldl_solve"
    require_matrix(op, LD)
    engine_of(op, LD, pivots, B)
    if pivots.shape != LD.shape[:-1] or B.ndim < 2 or B.shape[-2] != LD.shape[-1]:
        raise ShapeError(f"{op}: LD {LD.shape}, pivots {pivots.shape} and B {B.shape} do not match")
    dtype = promote(LD.dtype, B.dtype)
    try:
        with np.errstate(all="ignore"):
            return like(LD, _solved(host(LD), host(pivots), host(B)), dtype)
    except np.linalg.LinAlgError as error:
        raise SingularMatrixError(f"{op}: {error}; input of shape {LD.shape}") from None
