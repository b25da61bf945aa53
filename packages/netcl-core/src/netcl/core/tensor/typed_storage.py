"""The elements of a storage in their dtype: ``x.storage()``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netcl.core.storage.views import UntypedStorage, root_tensor


class TypedStorage:
    """The elements that a tensor shares with its views, in the order of memory: numbers, which can be set."""

    def __init__(self, tensor: Any) -> None:
        self._elements: Any = root_tensor(tensor.detach()).reshape(-1)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._elements.dtype

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._elements.device

    def untyped(self) -> UntypedStorage:
        """Returns the memory without a dtype."""
        storage: UntypedStorage = self._elements.untyped_storage()
        return storage

    def data_ptr(self) -> int:
        """Returns the number of ``untyped().data_ptr()``."""
        return self.untyped().data_ptr()

    def element_size(self) -> int:
        """Returns the bytes of an element."""
        return int(self._elements.element_size())

    def nbytes(self) -> int:
        """Returns the bytes of all elements."""
        return self.untyped().nbytes()

    def size(self) -> int:
        """Returns the number of elements."""
        return int(self._elements.numel())

    __len__ = size

    def tolist(self) -> list[Any]:
        """Returns the elements as Python's numbers."""
        values: list[Any] = self._elements.tolist()
        return values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            raise TypeError("TypedStorage: expected an index, got a slice; write tensor.view(-1)[begin:end]")
        return self._elements[at].item()

    def __setitem__(self, at: int | slice, value: Any) -> None:
        self._elements[at] = value

    def __repr__(self) -> str:
        return f"[TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"
