"""The engine of the device "meta": tensors have a shape and a dtype and no memory, and ops compute no element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu import Array, CPUBackend
from netcl.core.dtypes import STORAGE
from netcl.core.errors import NoDataError
from netcl.core.storage.data import TensorData, TensorT
from netcl.core.tensor.tensor import Tensor


class MetaBackend(CPUBackend):
    """The NumPy engine without its arithmetic: results have the shapes and dtypes of NumPy's, and launches do nothing.

    An array is one element that is repeated along all axes, so that a tensor of any size takes no memory. Work that
    reads elements, as ``nonzero`` does for the size of its result, raises NoDataError.
    """

    name = "meta"

    def __init__(self, queue: Any) -> None:
        super().__init__(queue)
        self.handle = queue.handle
        self.device_label = "meta"

    def empty(self, shape: Sequence[int], dtype: str, *, persistent: bool = False, pool: Any = None) -> Any:
        tensor = Tensor._wrap(self, tuple(shape), dtype, None, _array(shape, dtype), None)
        tensor.persistent = persistent
        return tensor

    def tensor(self, data: Array, dtype: str, *, persistent: bool = False) -> Any:
        return self.empty(data.shape, dtype, persistent=persistent)

    def fill(self, tensor: TensorData, value: float) -> None:
        """Does nothing: there are no elements."""

    def upload(
        self, data: Array, dtype: str, *, async_copy: bool | None, use_pinned: bool | None, copy: bool, persistent: bool
    ) -> tuple[tuple[Any, Array, Any], Any, Any, Array | None]:
        """Returns storage of the shape of ``data``."""
        return (None, _array(data.shape, dtype), None), None, None, None

    def write(self, target: TensorData, data: Array) -> None:
        """Does nothing: there are no elements."""

    def read(self, source: TensorData) -> Array:
        """Raises NoDataError."""
        raise NoDataError("a tensor on the device meta has no data to read; write x.new_empty(x.shape, device=...)")

    def receive(self, source: TensorT) -> TensorT:
        return self.empty(source.shape, source.dtype)  # type: ignore[no-any-return]

    def launch(self, function: Callable[..., None], *args: Any) -> None:
        """Does nothing: the results are allocated."""

    def planned(
        self, what: Any, args: Sequence[Any], scalars: Mapping[str, float | int]
    ) -> Callable[[Sequence[Any]], Tensor | None] | None:
        """Returns None: there is nothing to repeat."""
        return None


def _array(shape: Sequence[int], dtype: str) -> Array:
    return np.broadcast_to(np.zeros((), STORAGE[dtype]), tuple(shape))
