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
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "vecdot",
    "vector_norm",
]

def cholesky(x: Tensor, *, upper: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The lower triangular L with x = L L^T, or with ``upper`` the upper triangular U with x = U^T U."""
def cross(a: Tensor, b: Tensor, *, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The vector products of a and b, which broadcast, along ``axis``, whose length is 3."""
def det(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The determinant of x (..., n, n): (...); also the gradient of a singular matrix is exact."""
def diagonal(x: Tensor, *, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """``diagonal`` of the last two axes."""
def eigh(x: Tensor, UPLO: str = 'L', *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """(eigenvalues (..., n) rising, eigenvectors (..., n, n) as columns) of a symmetric x, of which only the lower triangle is read ("L"), or the upper one ("U")."""
def eigvalsh(x: Tensor, UPLO: str = 'L', *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The eigenvalues of a symmetric x, (..., n) rising, as in ``eigh``."""
def inv(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The inverse of x (..., n, n). Raises SingularMatrixError if there is none."""
def lstsq(a: Tensor, b: Tensor, rcond: builtins.float | None = None, *, driver: str | None = None, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(solution, residuals, rank, singular values): the X of smallest norm that minimizes the norm of a X - b."""
def matmul(a: Tensor, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
def matrix_norm(x: Tensor, ord: Any = 'fro', axis: Sequence[builtins.int] = (-2, -1), keepdims: builtins.bool = False, *, dtype: Any = None, dim: Sequence[builtins.int] | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The norm of the matrices on the two axes ``axis``."""
def matrix_power(x: Tensor, n: builtins.int, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """x (..., k, k) multiplied by itself: x^n by repeated squaring, the identity for 0, of the inverse if n < 0."""
def matrix_rank(x: Tensor, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The number of singular values of x (..., m, n) above the limit of ``pinv``: (...), int64."""
def matrix_transpose(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The last two axes swapped. Raises ShapeError for fewer than two."""
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Any = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """``vector_norm`` or ``matrix_norm``: without ``ord`` the 2-norm of all elements of ``axis``; else of the vectors on one axis or of the matrices on two (None: of x, which then has one or two axes)."""
def outer(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
def pinv(x: Tensor, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The Moore-Penrose pseudoinverse of x (..., m, n): (..., n, m)."""
def qr(x: Tensor, mode: str = 'reduced', *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """(Q, R) with x = Q R, Q with orthonormal columns and R upper triangular: x (..., m, n), k = min(m, n)."""
def slogdet(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """(sign, log |det|) of x (..., n, n), each (...); (0, -inf) if it is singular."""
def solve(a: Tensor, b: Tensor, *, left: builtins.bool = True, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The X with a X = b, or X a = b if not ``left``: a (..., n, n), b (..., n, k), or (..., k, n) if not ``left``."""
def svd(x: Tensor, full_matrices: builtins.bool = True, *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, Vh) with x = U diag(S) Vh: orthonormal columns of U and rows of Vh, S (..., k) falling, k = min(m, n)."""
def svdvals(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The singular values of x (..., m, n), falling: (..., min(m, n))."""
def tensordot(a: Tensor, b: Tensor, axes: Any = 2, *, dims: Any = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The sum of products over axes of both: the last ``axes`` of a with the first of b, or the axes of a and of b that ``axes`` names in two lists."""
def vecdot(a: Tensor, b: Tensor, *, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The inner products of a and b, which broadcast, along ``axis``; integers are summed in int64."""
def vector_norm(x: Tensor, ord: builtins.float = 2, axis: Any = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Any = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) over ``axis`` (None: all); ord inf and -inf are the extremes of |x|, 0 counts nonzeros."""
