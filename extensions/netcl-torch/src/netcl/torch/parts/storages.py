"""torch.UntypedStorage: the type of ``x.untyped_storage()``, and the bytes of a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import netcl as nc

TORCH_NAMES = ("UntypedStorage",)


class _Storages(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Bytes) or bool(nc.is_storage(instance))


class UntypedStorage(metaclass=_Storages):
    """The memory of tensors; ``from_file`` makes one of a file, and a tensor has one in ``x.untyped_storage()``."""

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> _Bytes:
        """Returns the first ``nbytes`` bytes of a file; a write to them changes the file only with ``shared``."""
        return _Bytes(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)))


class _Bytes:
    """A range of bytes, of which ``torch.asarray`` makes a tensor on the same memory."""

    device: str = "cpu"

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    def untyped(self) -> _Bytes:
        """The storage itself."""
        return self

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._values.size

    size = __len__ = nbytes

    def __getitem__(self, at: Any) -> Any:
        part = self._values[at]
        return _Bytes(part) if isinstance(at, slice) else int(part)

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._values.__dlpack_device__()
