"""Sparse tensors: elements at positions, dense in computations; gradients flow to the elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from netcl_core_kit.dispatch import _core, call
from netcl_core_kit.engines import engine_for
from netcl_core_kit.errors import ShapeError, UnsupportedError

__all__ = ["Pattern", "SparseTensor", "sparse_coo_tensor", "sparse_csr_tensor", "spmm"]


class Pattern(NamedTuple):
    """The positions (axes, nnz) of elements, and the shape."""

    positions: Any
    shape: tuple[int, ...]


class SparseTensor:
    """A tensor of ``shape`` of which only some elements are stored; no ``Tensor``."""

    def __init__(self, pattern: Any, elements: Any, kind: Any, owned: bool = False) -> None:
        self.pattern, self.elements, self.layout, self.owned = pattern, elements, kind, owned
        self.shape, self.dtype = tuple(pattern.shape), elements.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether the gradient of the elements is wanted."""
        return self.elements.requires_grad

    def indices(self) -> Any:
        """The positions, (axes, nnz)."""
        return self.pattern.positions

    def values(self) -> Any:
        """The elements, (nnz, ...)."""
        return self.elements

    def to_dense(self) -> Any:
        """The same numbers as a Tensor."""
        zeros = self.elements.engine.zeros(self.shape, self.dtype)
        items = [self.pattern.positions[axis] for axis in range(self.pattern.positions.shape[0])]
        return call("index_put", zeros, items, self.elements, True, record=True)

    def __matmul__(self, other: Any) -> Any:
        return spmm(self, other)

    @staticmethod
    def __netcl_op__(row: Any, args: Any, kwargs: Any) -> Any:
        raise UnsupportedError(f"{row.name} has no form for sparse tensors; write x.to_dense()", op=row.name)


def _tensor(value: Any, dtype: Any, device: Any, positions: bool = False) -> Any:
    queue = engine_for(device).queue if device is not None or not isinstance(value, _core.tensor) else value.queue
    if isinstance(value, _core.tensor):
        found = value.to(queue)
        return found.astype("int64" if positions else dtype or value.dtype)
    array = np.asarray(value, np.int64 if positions else None)
    return _core.tensor.from_host(queue, array, "int64" if positions else dtype)


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """The tensor in COO with ``values`` (nnz, ...) at ``indices`` (axes, nnz); at the same position values add up."""
    if values is None:
        shape = tuple(int(one) for one in indices)
        indices, values, size = np.zeros((len(shape), 0), np.int64), np.zeros(0, np.float32), shape
    elements = _tensor(values, dtype, device)
    places = _tensor(indices, None, elements.queue, True)
    if places.ndim != 2 or places.shape[1] != elements.shape[0]:
        raise ShapeError(f"sparse_coo_tensor: indices {places.shape} for values {elements.shape}")
    if size is None:
        size = (*(int(one) + 1 for one in places.numpy().max(1)), *elements.shape[1:])
    host = places.numpy()
    if ((host < 0) | (host >= np.asarray(size[: places.shape[0]]).reshape(-1, 1))).any():
        raise IndexError(f"sparse_coo_tensor: a position is outside of {tuple(size)}")
    if requires_grad:
        elements = elements.detach()
        elements.requires_grad = True
    return SparseTensor(Pattern(places, tuple(size)), elements, "sparse_coo")


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """The matrix in CSR with ``values`` (nnz,) in the columns ``col_indices``, rows by ``crow_indices``."""
    elements = _tensor(values, dtype, device)
    starts, columns = (_tensor(one, None, elements.queue, True).numpy() for one in (crow_indices, col_indices))
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    size = size or (len(starts) - 1, int(columns.max()) + 1 if len(columns) else 0)
    found = sparse_coo_tensor(np.stack((rows, columns)), elements, size, requires_grad=requires_grad)
    found.layout = "sparse_csr"
    return found


def spmm(input: SparseTensor, mat2: Any) -> Any:
    """``input @ mat2`` for a sparse matrix and a dense one; gradients flow to the elements and to ``mat2``."""
    if len(input.shape) != 2 or mat2.ndim not in (1, 2) or input.shape[1] != mat2.shape[0]:
        raise ShapeError(f"spmm: shapes {input.shape} and {mat2.shape} do not fit")
    return call("matmul", input.to_dense(), mat2, record=True)
