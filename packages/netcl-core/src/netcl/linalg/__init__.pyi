"""Linear algebra, recorded for gradients; written by tools/write_stubs.py."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from netcl.core import Tensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand
from netcl.core.errors import SingularMatrixError as LinAlgError


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

def cholesky(x: Tensor, *, upper: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the lower triangular L with x = L L^T, or with ``upper`` the upper triangular U with x = U^T U."""
def cholesky_ex(x: Tensor, *, upper: builtins.bool = False, check_errors: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns ``cholesky``, NaN for matrices that are not positive definite, and an int32 for each matrix: 0, or the order of the first leading minor that is not positive. Raises SingularMatrixError for such a matrix with ``check_errors``."""
def cond(x: Tensor, p: Any = None, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the condition number of x (..., n, n) in the norm ``p`` of ``matrix_norm``: the norm times the norm of the inverse, infinite for a singular matrix. None and 2 are the largest singular value over the smallest, also of x (..., m, n)."""
def cross(a: Tensor, b: Tensor, *, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the vector products of a and b, which broadcast, along ``axis`` of length 3."""
def det(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the determinant of x (..., n, n): (...); also the gradient of a singular matrix is exact."""
def diagonal(x: Tensor, *, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns ``diagonal`` of the last two axes."""
def eigh(x: Tensor, UPLO: str = 'L', *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns (eigenvalues (..., n) rising, eigenvectors (..., n, n) as columns) of a symmetric x; only its lower triangle is read ("L"), or the upper one ("U")."""
def eigvalsh(x: Tensor, UPLO: str = 'L', *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the eigenvalues of a symmetric x, (..., n) rising, as in ``eigh``."""
def householder_product(x: Tensor, tau: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The first n columns of the product of the reflections I - tau_i v_i v_i^T: v_i has a 1 in row i, the elements below of column i of x (..., m, n), and zeros above; tau (..., k), k <= n <= m."""
def inv(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse of x (..., n, n). Raises SingularMatrixError if there is none."""
def inv_ex(x: Tensor, *, check_errors: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns ``inv``, NaN for singular matrices, and an int32 for each matrix: 0, or the first row without a pivot. Raises SingularMatrixError for a singular matrix with ``check_errors``."""
def ldl_factor(x: Tensor, *, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """(LD, pivots) of a symmetric x (..., n, n), of which the lower triangle is read: D with blocks of one or two rows on the diagonal, L below it. pivots, int32 and from 1, name the row that was exchanged; both rows of a block of two have it with a minus. No gradient; raises SingularMatrixError if a pivot is zero."""
def ldl_factor_ex(x: Tensor, *, hermitian: builtins.bool = False, check_errors: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """``ldl_factor``, and an int32 for each matrix: 0, or the first pivot that is zero. Raises SingularMatrixError for such a matrix with ``check_errors``."""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The X with A X = B for the symmetric A (..., n, n) of which ``ldl_factor`` gave the factors; B (..., n, k), of which leading axes broadcast. No gradient. Raises ShapeError if the shapes do not match, SingularMatrixError if A is singular."""
def lstsq(a: Tensor, b: Tensor, rcond: builtins.float | None = None, *, driver: str | None = None, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns (solution, residuals, rank, singular values): the X of smallest norm that minimizes the norm of a X - b."""
def lu(x: Tensor, *, pivot: builtins.bool = True, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (P, L, U) with x = P L U: P (..., m, m) a permutation, L (..., m, k) lower triangular with ones on its diagonal, U (..., k, n) upper triangular, k = min(m, n). Without ``pivot`` P is the identity."""
def lu_factor(x: Tensor, *, pivot: builtins.bool = True, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns (LU, pivots) of x (..., m, n): L below the diagonal of the first, without its ones, and U above; row i of x was exchanged with row pivots[i], int32 and from 1, one after the other. Without ``pivot`` no row is."""
def lu_factor_ex(x: Tensor, *, pivot: builtins.bool = True, check_errors: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``lu_factor``, and an int32 for each matrix: 0, or the first zero on the diagonal of U. Raises SingularMatrixError for such a matrix with ``check_errors``."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: builtins.bool = True, adjoint: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the X with A X = B, or X A = B if not ``left``, for the square A with the factors of ``lu_factor``; with ``adjoint`` for its transpose. Leading axes broadcast. Raises ShapeError if the shapes do not match."""
def matmul(a: Tensor, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
def matrix_exp(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the exponential of a matrix or a stack of them, by scaling, the first 18 terms of its series, and squaring; in float32 for the half types."""
def matrix_norm(x: Tensor, ord: Any = 'fro', axis: Sequence[builtins.int] = (-2, -1), keepdims: builtins.bool = False, *, dtype: Any = None, dim: Sequence[builtins.int] | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the norm of the matrices on the two axes ``axis``."""
def matrix_power(x: Tensor, n: builtins.int, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns x (..., k, k) multiplied by itself: x^n by repeated squaring, the identity for 0, of the inverse if n < 0."""
def matrix_rank(x: Tensor, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the number of singular values of x (..., m, n) above the limit of ``pinv``: (...), int64."""
def matrix_transpose(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the last two axes swapped. Raises ShapeError for fewer than two."""
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the product of two or more matrices, in the order with the fewest multiplications; the first and the last may be vectors. Raises ShapeError if the lengths do not match."""
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Any = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns ``vector_norm`` or ``matrix_norm``: without ``ord`` the 2-norm of all elements of ``axis``; else of the vectors on one axis or of the matrices on two (None: of x, which then has one or two axes)."""
def outer(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
def pinv(x: Tensor, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the Moore-Penrose pseudoinverse of x (..., m, n): (..., n, m)."""
def qr(x: Tensor, mode: str = 'reduced', *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns (Q, R) with x = Q R, Q with orthonormal columns and R upper triangular: x (..., m, n), k = min(m, n)."""
def slogdet(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns (sign, log |det|) of x (..., n, n), each (...); (0, -inf) if it is singular."""
def solve(a: Tensor, b: Tensor, *, left: builtins.bool = True, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the X with a X = b, or X a = b if not ``left``: a (..., n, n), b (..., n, k), or (..., k, n) if not ``left``."""
def solve_ex(a: Tensor, b: Tensor, *, left: builtins.bool = True, check_errors: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """Returns ``solve``, NaN for singular matrices, and an int32 for each matrix as in ``inv_ex``."""
def solve_triangular(a: Tensor, b: Tensor, *, upper: builtins.bool, left: builtins.bool = True, unitriangular: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the X with a X = b, or X a = b if not ``left``, for a triangular a (..., n, n); only its upper or lower triangle is read; with ``unitriangular`` its diagonal counts as ones. Leading axes broadcast."""
def svd(x: Tensor, full_matrices: builtins.bool = True, *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (U, S, Vh) with x = U diag(S) Vh: orthonormal columns of U and rows of Vh, S (..., k) falling, k = min(m, n)."""
def svdvals(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the singular values of x (..., m, n), falling: (..., min(m, n))."""
def tensordot(a: Tensor, b: Tensor, axes: Any = 2, *, dims: Any = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the sum of products over axes of both: the last ``axes`` of a with the first of b, or the axes of a and of b that ``axes`` names in two lists. An axis of length 1 fits one of any length."""
def tensorinv(x: Tensor, ind: builtins.int = 2, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse of x as a matrix of its first ``ind`` axes by the others: their axes in front, then the first ones. Raises ShapeError unless both have as many elements, SingularMatrixError if there is none."""
def tensorsolve(a: Tensor, b: Tensor, dims: Sequence[builtins.int] | None = None, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the X with tensordot(a, X, X.ndim) = b; ``dims`` of a are moved to its end first. Only the elements of b count, not their axes. Raises ShapeError if the sizes do not match, SingularMatrixError if there is no solution."""
def vander(x: Tensor, *, N: builtins.int | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the powers 0 to N - 1 of each element, in a new last axis: (..., n) gives (..., n, N); N is n by default. A 0-d tensor is a vector of one element. Raises ShapeError for a negative N."""
def vecdot(a: Tensor, b: Tensor, *, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inner products of a and b, which broadcast, along ``axis``; integers are summed in int64."""
def vector_norm(x: Tensor, ord: builtins.float = 2, axis: Any = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Any = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns (sum |x|^ord)^(1/ord) over ``axis`` (None: all); ord inf and -inf are the extremes of |x|, 0 counts nonzeros."""
