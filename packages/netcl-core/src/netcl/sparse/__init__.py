"""Functions of sparse tensors with the names of torch.sparse; gradients flow to elements and dense operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError, from_here
from netcl.core.tensor import sparse as _forms
from netcl.core.tensor.sparse import SparseTensor, spmm

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "softmax", "spmm", "sum"]


def _sparse(op: str, x: Any) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise UnsupportedError(
            f"netcl.sparse.{op}: expected a SparseTensor, got {type(x).__name__}; write x.to_sparse()"
        )
    return x


def mm(mat1: Any, mat2: Any) -> Any:
    """Returns ``mat1 @ mat2``, one or both sparse: dense, but sparse if both are. Raises ShapeError."""
    return _forms.matmul(mat1, mat2)


def addmm(mat: Tensor, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Returns ``beta * mat + alpha * mat1 @ mat2``, dense, for one sparse factor."""
    result: Tensor = _forms.addmm(mat, mat1, mat2, beta, alpha)
    return result


def sum(input: SparseTensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Returns the sum of all elements, or over the axes ``dim``: sparse, or dense if no axis with positions remains."""
    return _forms.sum_over(_sparse("sum", input), dim, dtype=dtype)


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Returns the softmax of the stored elements along ``dim``; the others count as -inf, and their result is zero."""
    return _forms.softmax(_sparse("softmax", input), dim, dtype)


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Returns the logarithm of ``softmax`` for the stored elements; the others stay zero."""
    return _forms.log_softmax(_sparse("log_softmax", input), dim, dtype)


from_here(globals())
