"""Linear algebra of the array API standard, and its ``linalg`` extension, over the functions of netcl.linalg."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import netcl.linalg as _linalg
from netcl.array_api.array import returns_arrays
from netcl.array_api.manipulation import permute_dims
from netcl.array_api.promotion import accumulated, converted, together
from netcl.array_api.rows import defined, row
from netcl.core.dtypes import canonical, is_floating
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor


class Eigh(NamedTuple):
    """The result of ``eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """The result of ``qr``."""

    Q: Tensor
    R: Tensor


class SlogDet(NamedTuple):
    """The result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    """The result of ``svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@returns_arrays
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns x1 @ x2 of vectors, matrices, or stacks of matrices; leading axes broadcast."""
    return row("matmul")(*together(x1, x2))  # type: ignore[no-any-return]


@returns_arrays
def matrix_transpose(x: Tensor, /) -> Tensor:
    """Returns ``x`` with its last two axes swapped."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least two axes, got shape {x.shape}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@returns_arrays
def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Returns the sum of products over axes of both: the last of x1 with the first of x2, or those named."""
    return row("tensordot")(*together(x1, x2), axes)  # type: ignore[no-any-return]


@returns_arrays
def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the sum of products along ``axis``, which has one length; the other axes broadcast."""
    left, right = together(x1, x2)
    least = min(left.ndim, right.ndim)
    if not -least <= axis < least and axis >= 0:
        raise ValueError(f"vecdot: axis {axis} is out of range")
    if left.shape[axis] != right.shape[axis]:
        raise ValueError(f"vecdot: lengths {left.shape[axis]} and {right.shape[axis]} along axis {axis} differ")
    return converted(row("sum")(row("mul")(left, right), axis=axis), left.dtype)


@returns_arrays
def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Returns the Cholesky factor of positive definite matrices, lower or ``upper``."""
    return _linalg.cholesky(x, upper=upper)


@returns_arrays
def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the cross product of vectors of length 3 along ``axis``; the other axes broadcast."""
    return _linalg.cross(*together(x1, x2), axis=axis)


@returns_arrays
def det(x: Tensor, /) -> Tensor:
    """Returns the determinants of square matrices."""
    return _linalg.det(x)


@returns_arrays
def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Returns the diagonals ``offset`` of matrices."""
    return _linalg.diagonal(x, offset=offset)


@returns_arrays
def eigh(x: Tensor, /) -> Eigh:
    """Returns eigenvalues, ascending, and eigenvectors of symmetric matrices."""
    return Eigh(*_linalg.eigh(x))


@returns_arrays
def eigvalsh(x: Tensor, /) -> Tensor:
    """Returns the eigenvalues of symmetric matrices, ascending."""
    return _linalg.eigvalsh(x)


@returns_arrays
def inv(x: Tensor, /) -> Tensor:
    """Returns the inverses of square matrices."""
    return _linalg.inv(x)


@returns_arrays
def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro") -> Tensor:
    """Returns the norms ``ord`` of matrices; None is "fro"."""
    return _linalg.matrix_norm(x, ord="fro" if ord is None else ord, keepdims=keepdims)


@returns_arrays
def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Returns square matrices to the power of ``n``."""
    return _linalg.matrix_power(x, n)


@returns_arrays
def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Returns the number of singular values above ``rtol`` times the largest, int64."""
    if isinstance(rtol, Tensor):
        values = svdvals(x)
        largest = row("amax")(values, axis=-1, keepdims=True)
        tolerance = row("mul")(largest, row("unsqueeze")(converted(rtol, x.dtype), -1))
        return row("sum")(row("gt")(values, tolerance), axis=-1)  # type: ignore[no-any-return]
    return _linalg.matrix_rank(x, rtol=rtol)


@returns_arrays
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the products of all pairs of two vectors."""
    return row("outer")(*together(x1, x2))  # type: ignore[no-any-return]


@returns_arrays
def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Returns the pseudoinverses of matrices; singular values up to ``rtol`` times the largest count as 0."""
    if isinstance(rtol, Tensor) and rtol.ndim == 0:
        rtol = rtol.item()
    if not isinstance(rtol, Tensor):
        return _linalg.pinv(x, rtol=rtol)
    u, s, vh = svd(x, full_matrices=False)
    tolerance = row("mul")(row("amax")(s, axis=-1, keepdims=True), row("unsqueeze")(converted(rtol, x.dtype), -1))
    kept = row("where")(row("gt")(s, tolerance), row("reciprocal")(s), 0.0)
    scaled = row("mul")(matrix_transpose(vh), row("unsqueeze")(kept, -2))
    return matmul(scaled, matrix_transpose(u))


@returns_arrays
def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """Returns orthogonal and upper triangular factors of matrices."""
    return QR(*_linalg.qr(x, mode))


@returns_arrays
def slogdet(x: Tensor, /) -> SlogDet:
    """Returns the signs and the logarithms of the absolute values of determinants."""
    return SlogDet(*_linalg.slogdet(x))


@returns_arrays
def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the solution of x1 @ result = x2; a vector x2 is one right-hand side, otherwise they are matrices."""
    left, right = together(x1, x2)
    return _linalg.solve(left, right)


@returns_arrays
def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """Returns singular value decompositions U, S, Vh of matrices."""
    return SVD(*_linalg.svd(x, full_matrices))


@returns_arrays
def svdvals(x: Tensor, /) -> Tensor:
    """Returns the singular values of matrices, descending."""
    return _linalg.svdvals(x)


@returns_arrays
def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Returns the sums of the diagonals ``offset`` of matrices; integers are summed in int64 or uint64."""
    result_dtype = accumulated(x.dtype) if dtype is None else canonical(dtype)
    values = converted(x, result_dtype) if is_floating(result_dtype) else x
    return converted(row("sum")(diagonal(values, offset=offset), axis=-1), result_dtype)


@returns_arrays
def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Returns the norms ``ord`` over ``axis`` (None: of all elements)."""
    if axis is not None:
        axis = tuple(normalize_axes(axis, x.ndim, "vector_norm"))
    if axis == () or (not x.ndim and math.isfinite(ord)):
        return row("abs")(x) if ord else converted(row("ne")(x, 0), x.dtype)
    return _linalg.vector_norm(x, ord, axis, keepdims)


__all__ = defined(globals())
