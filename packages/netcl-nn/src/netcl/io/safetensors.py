"""Weights as ``.safetensors`` files, the format of most model hubs.

The library parses and checks the header; the bytes are read and written one array at a time, so that a model is never
in memory twice. The format has no checksum, so a file of netcl has checksums in its metadata, under "netcl.sums": the
CRC-32 of the names, dtypes, shapes and further metadata in alphabetical order, and the ``array_sum`` of each array in
the order of the names. They are compared if they are there. Files of earlier versions have "netcl.crc32": the sums of
arrays are CRC-32 too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import safe_open

from netcl.core import Tensor
from netcl.core.dtypes import from_bfloat16, numpy_dtype
from netcl.core.errors import from_here
from netcl.io.archive import Entry, entry_of
from netcl.io.atomic import replacing
from netcl.io.budget import Budget
from netcl.io.checksum import array_sum, crc32
from netcl.io.errors import CheckpointError
from netcl.io.load_into import load_into, placeholder
from netcl.io.reading import Reading, opened
from netcl.nn.module import Module
from netcl.nn.placement import queue_of

Array = np.ndarray[Any, Any]
# safetensors' names for the dtypes that netcl supports.
_FROM_FILE = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I32": "int32",
    "I64": "int64",
    "I8": "int8",
    "I16": "int16",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
}
_TO_FILE = {dtype: name for name, dtype in _FROM_FILE.items()}
# The names of checksums in the metadata of files, and the function of the arrays' sums; new files use the first.
_SUMS: dict[str, Callable[[Any], int]] = {"netcl.sums": array_sum, "netcl.crc32": crc32}
_NEW = next(iter(_SUMS))
_LISTED = re.compile("[0-9a-f]{8}( [0-9a-f]{8})*")
# Bytes that Python takes for an entry of the header, with its lists and numbers.
_ENTRY_MEMORY = 1000
_ENTRY_SECONDS = 5e-5
# Of each length in a shape.
_NUMBER_MEMORY, _NUMBER_SECONDS = 48, 2e-7


@from_here
def save_safetensors(
    model_or_state: Module | Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the state of a module, or tensors and arrays by name, to exactly ``path``, atomically. Raises
    CheckpointError.

    ``metadata`` is texts by name; "netcl.sums" is added, for ``load_safetensors`` to find damage. Tensors shared
    under several names are written under each.
    """
    state = model_or_state if isinstance(model_or_state, Mapping) else model_or_state.state_dict()
    try:
        # The order of the library: the largest elements first, so that all are aligned to their size.
        entries = sorted((_entry(name, value) for name, value in state.items()), key=lambda e: (-e.itemsize, e.key))
    except TypeError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error
    texts = {name: text for name, text in (metadata or {}).items() if name not in _SUMS}
    described = {entry.key: (_TO_FILE[entry.dtype], entry.shape) for entry in entries}
    sums = dict.fromkeys(described, 0)
    header = _header(entries, texts, "")
    with replacing(path, len(header) + sum(entry.nbytes for entry in entries)) as file:
        file.write(header)
        for entry in entries:
            array = entry.load()
            flat = np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1)
            data = flat.view(np.uint8).data if flat.size else b""
            sums[entry.key] = _SUMS[_NEW](data)
            file.write(data)
        file.seek(0)
        file.write(_header(entries, texts, _listed(_checksum(described, texts), sums)))


def _entry(name: str, value: Any) -> Entry:
    entry = entry_of(name, value if isinstance(value, Tensor) else np.asarray(value))
    if name == "__metadata__":
        raise TypeError("the name __metadata__ is that of the metadata")
    if entry.dtype not in _TO_FILE:
        raise TypeError(f"{name}: expected an array of {', '.join(_TO_FILE)}, got {entry.dtype}")
    return entry


def _header(entries: list[Entry], texts: Mapping[str, str], checksums: str) -> bytes:
    """Returns the length of the JSON, and the JSON padded to a multiple of 8; without checksums, their room is left."""
    metadata = {**texts, _NEW: checksums or _listed(0, dict.fromkeys((entry.key for entry in entries), 0))}
    described: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for entry in entries:
        offsets = [offset, offset + entry.nbytes]
        described[entry.key] = {"dtype": _TO_FILE[entry.dtype], "shape": list(entry.shape), "data_offsets": offsets}
        offset = offsets[1]
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(described: Mapping[str, tuple[str, Iterable[int]]], texts: Mapping[str, str]) -> int:
    """Returns the checksum of the header: independent of the order of its entries, which other programs change."""
    plain = [sorted((name, dtype, list(shape)) for name, (dtype, shape) in described.items()), dict(texts)]
    return crc32(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())


def _listed(header: int, arrays: Mapping[str, int]) -> str:
    return " ".join(f"{number:08x}" for number in (header, *(arrays[name] for name in sorted(arrays))))


@dataclass(frozen=True)
class _Stored:
    """The location of an array in the file."""

    start: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The size in the file."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(numpy_dtype(self.dtype)).itemsize

    def read_bytes(self, file: Any, room: Array) -> Array:
        """Returns the bytes of the elements, read into ``room``."""
        file.seek(self.start)
        raw = room[: self.nbytes]
        if file.readinto(raw.data) != len(raw):
            raise EOFError("it ends early")
        return raw

    def values(self, raw: Array) -> Array:
        """Returns the values of these bytes; bfloat16 as float32."""
        stored = raw.view(np.dtype(numpy_dtype(self.dtype)).newbyteorder("<")).reshape(self.shape)
        return from_bfloat16(stored) if self.dtype == "bfloat16" else stored


class _Arrays:
    """The arrays of an open file, each compared with its checksum, if there are ``checksums``, by ``sum_of``."""

    def __init__(
        self,
        file: Any,
        state: Reading,
        stored: Mapping[str, _Stored],
        checksums: Mapping[str, int],
        sum_of: str,
    ) -> None:
        self._file, self._state, self._stored, self._checksums, self._sum_of = file, state, stored, checksums, sum_of

    def checked(self, names: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yields names and values. Raises CheckpointError at an array that is damaged, before it is yielded.

        The memory of an array is reused for the next one.
        """
        names = list(names)
        room = np.empty(max((self._stored[name].nbytes for name in names), default=0), np.uint8)
        for name in names:
            with self._state.at(f"the array {name!r}"):
                raw = self._stored[name].read_bytes(self._file, room)
            if self._checksums and _SUMS[self._sum_of](raw.data) != self._checksums[name]:
                raise self._state.refuse(
                    f"is damaged: the array {name!r} does not have the checksum that it was saved with (if another "
                    f"program changed it and kept the metadata, remove {self._sum_of!r} there)"
                )
            yield name, self._stored[name].values(raw)


@from_here
def load_safetensors(
    path: str | os.PathLike[str],
    model: Module | None = None,
    *,
    queue: Any = None,
    strict: bool = True,
    budget: Budget | None = None,
) -> dict[str, Tensor]:
    """Returns the tensors of a file by name, on ``queue`` (None: the active device); with ``model`` they are read into
    it, and its own tensors are returned.

    Raises CheckpointError for a file that cannot be read, has an unsupported dtype, exceeds ``budget`` (None:
    ``Budget()``) or, with nothing written, does not fit the model; for an array that does not have the checksum of its
    file, before it is written.
    """
    with opened(path, budget, "is damaged or no safetensors file") as (file, state):
        stored, checksums, sums = _described(file, state)
        arrays = _Arrays(file, state, stored, checksums, sums)
        if model is not None:
            described = {name: placeholder(entry.shape, entry.dtype) for name, entry in stored.items()}
            return load_into(model, described, arrays.checked, path, strict)[0]
        place = queue_of(queue)
        tensors = {}
        for name, values in arrays.checked(stored):
            with state.at(f"the array {name!r}"):
                tensors[name] = Tensor.from_host(place, values, stored[name].dtype)
        return tensors


def _described(file: Any, state: Reading) -> tuple[dict[str, _Stored], dict[str, int], str]:
    """Returns the places of the arrays in the file, their checksums if it has some, and the checksums' name."""
    length = int.from_bytes(file.read(8), "little")
    if length > state.size - 8:
        raise state.refuse(f"is damaged or no safetensors file (its header has {length:,} bytes, more than the file)")
    text = file.read(length)
    count, numbers = text.count(b"{"), text.count(b",")
    state.meter.spend(count * _ENTRY_MEMORY + numbers * _NUMBER_MEMORY, "the header")
    state.meter.take(count * _ENTRY_SECONDS + numbers * _NUMBER_SECONDS, "reading its arrays")
    # The library checks the offsets against the size of the file.
    with safe_open(state.path, framework="np"):
        header = json.loads(text)
    metadata = header.pop("__metadata__", None) or {}
    unknown = {name: entry["dtype"] for name, entry in header.items() if entry["dtype"] not in _FROM_FILE}
    if unknown:
        raise state.refuse(f"has dtypes that netcl lacks: {unknown}")
    stored = {
        name: _Stored(8 + length + entry["data_offsets"][0], tuple(entry["shape"]), _FROM_FILE[entry["dtype"]])
        for name, entry in header.items()
    }
    # The name may be damaged, too.
    if not any(name.startswith("netcl") or _LISTED.fullmatch(text) for name, text in metadata.items()):
        return stored, {}, _NEW
    sums = next((name for name in _SUMS if name in metadata), _NEW)
    first, *others = (int(number, 16) for number in metadata.pop(sums, "0").split(" "))
    described = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}
    if len(others) != len(stored) or _checksum(described, metadata) != first:
        raise state.refuse(
            "is damaged: its header does not have the checksum that it was saved with (if another program changed it "
            f"and kept the metadata, remove {sums!r} there)"
        )
    return stored, dict(zip(sorted(stored), others)), sums


from_here(globals())
