"""torch.UntypedStorage and torch.TypedStorage: the types of storages of tensors, and the bytes of a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import netcl as nc
from netcl.core import Tensor
from netcl.core.dtypes import DType, itemsize
from netcl.core.storage.views import UntypedStorage as _Memory
from netcl.core.tensor.typed_storage import TypedStorage as TypedStorage

TORCH_NAMES = ("TypedStorage", "UntypedStorage")


class _Storages(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (_Bytes, _Memory))

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
        """Returns the vector of a dtype, on the same memory if the device works on the host's memory; bytes beyond a
        whole number of elements are left out.
        """
        values = self._values[: self._values.size // itemsize(dtype) * itemsize(dtype)]
        made: Tensor = nc.frombuffer(values, dtype=dtype) if values.size else nc.empty(0, dtype=dtype)
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


def asarray(obj: Any, *, dtype: Any = None, **options: Any) -> Any:
    """``netcl.asarray``, which also takes storages: the result has their bits in ``dtype``. Without one, and in uint8,
    bytes of a file (``UntypedStorage.from_file``) get their dtype by ``view(dtype)`` of the result.
    """
    if isinstance(obj, TypedStorage):
        obj, dtype = obj.untyped(), obj.dtype if dtype is None else dtype
    if isinstance(obj, _Bytes) and dtype in (None, "uint8"):
        return _Unread(obj)
    if isinstance(obj, (_Bytes, _Memory)):
        obj, dtype = obj.read(dtype), None
    return nc.asarray(obj, dtype=dtype, **options)
