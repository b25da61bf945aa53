"""torch.UntypedStorage: the type of ``x.untyped_storage()``, and the bytes of a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import netcl as nc
from netcl.core import Tensor
from netcl.core.dtypes import DType

TORCH_NAMES = ("UntypedStorage",)


class _Storages(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Bytes) or bool(nc.is_storage(instance))

    def __call__(cls, values: Any = 0) -> _Bytes:
        """Returns so many bytes, zeros, or the bytes of a sequence."""
        return _Bytes(np.zeros(values, np.uint8) if isinstance(values, int) else np.array(values, np.uint8))


class UntypedStorage(metaclass=_Storages):
    """The memory of tensors; ``from_file`` makes one of a file, and a tensor has one in ``x.untyped_storage()``."""

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> _Bytes:
        """Returns the first ``nbytes`` bytes of a file; a write to them changes the file only with ``shared``."""
        return _Bytes(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)))


class _Bytes:
    """A range of bytes, that ``torch.asarray(storage[begin:end]).view(dtype)`` reads."""

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

    def read(self, dtype: Any) -> Tensor:
        """Returns the vector of a dtype, on the same memory if the device works on the host's memory."""
        made: Tensor = nc.frombuffer(self._values, dtype=dtype) if self._values.size else nc.empty(0, dtype=dtype)
        return made


class _Unread:
    """Bytes of a file before their dtype is known: ``view(dtype)`` reads them, all else is of the uint8 tensor."""

    def __init__(self, storage: _Bytes) -> None:
        self._storage = storage

    def view(self, *shape: Any, dtype: Any = None) -> Tensor:
        """Returns the vector of a dtype, or the bytes in a shape."""
        kind = shape[0] if dtype is None and shape and isinstance(shape[0], DType) else dtype
        made: Tensor = self._storage.read("uint8").view(*shape) if kind is None else self._storage.read(kind)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage.read("uint8"), name)


def asarray(obj: Any, **options: Any) -> Any:
    """``netcl.asarray``, which also takes bytes of a file (``UntypedStorage.from_file``): ``view(dtype)`` of its result
    is a tensor of these bits.
    """
    bytes_of_file = isinstance(obj, _Bytes) and options.get("dtype") in (None, "uint8")
    return _Unread(obj) if bytes_of_file else nc.asarray(obj, **options)
