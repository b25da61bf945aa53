"""Writes states as ``.pt`` files that ``torch.load`` reads, also with ``weights_only=True``, without using PyTorch."""

from __future__ import annotations

import os
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import DType, canonical
from netcl.core.errors import from_here
from netcl.io import pickled_arrays
from netcl.io.archive import Entry, entry_of
from netcl.io.atomic import replacing
from netcl.io.errors import CheckpointError
from netcl.io.torch import STORAGES
from netcl.nn.module import holds_module

_CLASSES = {dtype: name for name, dtype in STORAGES.items()}
_ALIGNMENT = 64
_DEPTH = 200


@from_here
def save_torch(state: Any, path: str | os.PathLike[str], *, arrays: bool = False) -> None:
    """Writes ``state`` to exactly ``path``, atomically, in the format of ``torch.save``: a Module's state, or dicts,
    lists and tuples of tensors, arrays and plain values.

    Arrays are written as tensors, or with ``arrays`` as they are, as ``torch.save`` does. A tensor that occurs under
    several names is written once. Raises CheckpointError for other values, a full disk, or a
    folder that cannot be written.
    """
    writer, data = _pickled(state.state_dict() if holds_module(state) else state, path, arrays)
    nbytes = len(data) + sum(entry.nbytes + 300 for entry in writer.entries) + 4096
    with replacing(path, nbytes) as file:
        _write_archive(file, writer, data)


def write_torch(state: Any, file: BinaryIO, name: str, *, arrays: bool = False) -> None:
    """Writes ``state`` to a binary file that is open, as ``save_torch``; CheckpointError calls it ``name``."""
    writer, data = _pickled(state, name, arrays)
    _write_archive(file, writer, data)


def _pickled(state: Any, path: str | os.PathLike[str], arrays: bool) -> tuple[_Pickle, bytes]:
    writer = _Pickle(arrays)
    try:
        return writer, writer.text(state)
    except TypeError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error


def _write_archive(file: BinaryIO, writer: _Pickle, data: bytes) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, content in (("data.pkl", data), (".storage_alignment", b"64"), ("byteorder", b"little")):
            _write(archive, file, name, content)
        for number, entry in enumerate(writer.entries):
            array = entry.load()
            flat = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C").reshape(-1)
            _write(archive, file, f"data/{number}", flat.view(np.uint8).data if flat.size else b"")
        _write(archive, file, "version", b"3\n")


def _write(archive: zipfile.ZipFile, file: BinaryIO, name: str, content: bytes | memoryview) -> None:
    """Writes a member with its bytes at a multiple of 64, so that PyTorch can map them; a field "FB" of the header
    fills the gap, as in PyTorch's own files.
    """
    info = zipfile.ZipInfo(f"archive/{name}")
    # zipfile adds a field of 20 bytes for the sizes of a member of more than 2 GB.
    start = file.tell() + 30 + len(info.filename) + (20 if len(content) > zipfile.ZIP64_LIMIT else 0) + 4
    gap = -start % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", gap) + b"Z" * gap
    info.file_size = len(content)
    with archive.open(info, "w") as member:
        member.write(content)


class _Pickle:
    """Writes values in the instructions of protocol 2; the tensors among them are collected in ``entries``."""

    def __init__(self, arrays: bool) -> None:
        self.arrays = arrays
        self.entries: list[Entry] = []
        self._keys: dict[Any, int] = {}
        self._parts: list[bytes] = []

    def text(self, value: Any) -> bytes:
        """Returns the complete pickle of ``value``."""
        self._parts = [b"\x80\x02"]
        self._value(value, "state", 0)
        return b"".join([*self._parts, b"."])

    def _value(self, value: Any, path: str, depth: int) -> None:
        if depth > _DEPTH:
            raise TypeError(f"{path}: nested more than {_DEPTH} levels deep")
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, DType):
            self._parts.append(f"ctorch\n{canonical(value)}\n".encode())
        elif value is None or isinstance(value, (bool, int, float, str)):
            self._parts.append(_plain(value))
        elif self.arrays and isinstance(value, np.ndarray):
            self._parts.append(pickled_arrays.pickled(value))
        elif isinstance(value, (Tensor, np.ndarray)):
            self._tensor(value, path)
        elif isinstance(value, Mapping):
            begun = b"ccollections\nOrderedDict\n)R(" if isinstance(value, OrderedDict) else b"}("
            self._parts.append(begun)
            for key, item in value.items():
                if not isinstance(key, (str, int)):
                    raise TypeError(
                        f"{path}: expected texts and whole numbers as keys of a state, got {type(key).__name__}"
                    )
                self._parts.append(_plain(key))
                self._value(item, f"{path}.{key}", depth + 1)
            self._parts.append(b"u")
        elif isinstance(value, (list, tuple)):
            self._parts.append(b"](" if isinstance(value, list) else b"(")
            for number, item in enumerate(value):
                self._value(item, f"{path}.{number}", depth + 1)
            self._parts.append(b"e" if isinstance(value, list) else b"t")
        else:
            raise TypeError(
                f"{path}: a {type(value).__name__} cannot be saved; a state has plain values, tensors and arrays"
            )

    def _tensor(self, value: Any, path: str) -> None:
        """Writes ``torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())``."""
        # Tensors of one storage and shape are one entry: a tied weight, under each of its names.
        key = (value.storage_id, value.shape, value.dtype) if isinstance(value, Tensor) else id(value)
        if key not in self._keys:
            entry = entry_of(path, value)
            if entry.dtype not in _CLASSES:
                raise TypeError(f"{path}: PyTorch has no storage of {entry.dtype}")
            self._keys[key] = len(self.entries)
            self.entries.append(entry)
        number = self._keys[key]
        entry = self.entries[number]
        strides, step = [], 1
        for length in reversed(entry.shape):
            strides.append(step)
            step *= max(length, 1)
        self._parts += [
            b"ctorch._utils\n_rebuild_tensor_v2\n((",
            _plain("storage") + f"ctorch\n{_CLASSES[entry.dtype]}\n".encode(),
            _plain(str(number)) + _plain("cpu") + _plain(entry.nbytes // entry.itemsize) + b"tQ" + _plain(0),
            *(b"(" + b"".join(map(_plain, sizes)) + b"t" for sizes in (entry.shape, strides[::-1])),
            b"\x88" if _is_leaf_with_grad(value) else b"\x89",
            b"ccollections\nOrderedDict\n)RtR",
        ]


def _is_leaf_with_grad(value: Any) -> bool:
    """True for tensors that ``torch.load`` restores with requires_grad; parameters do not count, as tensors of a state
    do not require grad.
    """
    return isinstance(value, Tensor) and value.requires_grad and not isinstance(value, ag.Parameter)


def _plain(value: Any) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(data) > 255:
            raise TypeError(f"a whole number of {len(data)} bytes cannot be saved")
        return b"\x8a" + bytes([len(data)]) + data
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    data = str(value).encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


from_here(globals())
