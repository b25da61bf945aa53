"""TensorData: the storage fields of a tensor, which is all that backends read; the base of Tensor."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from netcl.core import dtypes

TensorT = TypeVar("TensorT", bound="TensorData")


class TensorData:
    """A contiguous block of device memory with its shape and dtype.

    On OpenCL the elements are stored in ``buffer``, on the NumPy backend in ``array``; ``pool_handle`` is the lease of
    the buffer. ``_version`` counts in-place writes and is shared by all tensors on the same storage.
    """

    __slots__ = ("__weakref__", "_version", "engine")
    engine: Any  # a DeviceBackend, whose calls take TensorData
    _version: list[int]
    buffer: Any
    array: Any
    shape: tuple[int, ...]
    dtype: str
    pool_handle: Any
    persistent: bool
    requires_grad: bool
    pending_event: Any
    pending_release: Any
    host_ref: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements (the buffer may be larger)."""
        return self.size * dtypes.itemsize(self.dtype)

    @property
    def storage(self) -> Any:
        """``buffer`` on OpenCL, ``array`` on NumPy: for backends."""
        return self.buffer if self.array is None else self.array

    @property
    def version(self) -> int:
        """How often the storage was written in place; tensors on the same storage count together."""
        return self._version[0]

    @property
    def storage_id(self) -> int:
        """A number that all tensors on the same storage share, and no others while one of them lives."""
        return id(self._version)
