"""Weights as ``.safetensors`` files, the format of most model hubs.

The library parses and checks the header; the bytes are read and written one array at a time, so that a model is never
in memory twice. The format has no checksum, so a file of netcl has CRC-32 sums in its metadata, under "netcl.crc32":
that of the names, dtypes, shapes and further metadata in alphabetical order, and that of each array in the order of the
names. They are computed in the background, and compared if they are there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import safe_open

from netcl.core import Tensor
from netcl.core.dtypes import from_bfloat16, numpy_dtype
from netcl.io.archive import Entry, entry_of
from netcl.io.atomic import replacing
from netcl.io.background import BackgroundWorker
from netcl.io.budget import Budget
from netcl.io.checksum import crc32
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
_CHECKSUMS = "netcl.crc32"
_LISTED = re.compile("[0-9a-f]{8}( [0-9a-f]{8})*")
# Bytes that Python takes for an entry of the header, with its lists and numbers.
_ENTRY_MEMORY = 1000
_ENTRY_SECONDS = 5e-5
# Of each length in a shape.
_NUMBER_MEMORY, _NUMBER_SECONDS = 48, 2e-7
# Smaller arrays are not worth the handover to another thread.
_SMALL = 1 << 16


def save_safetensors(
    model_or_state: Module | Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the state of a module, or tensors and arrays by name, to exactly ``path``, atomically. CheckpointError.

    ``metadata`` is texts by name; "netcl.crc32" is added, by which ``load_safetensors`` finds damage. Tensors shared
    under several names are written under each.
    """
    state = model_or_state.state_dict() if isinstance(model_or_state, Module) else model_or_state
    try:
        # The order of the library: the largest elements first, so that all are aligned to their size.
        entries = sorted((_entry(name, value) for name, value in state.items()), key=lambda e: (-e.itemsize, e.key))
    except TypeError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error
    texts = {name: text for name, text in (metadata or {}).items() if name != _CHECKSUMS}
    described = {entry.key: (_TO_FILE[entry.dtype], entry.shape) for entry in entries}
    sums = dict.fromkeys(described, 0)
    header = _header(entries, texts, "")
    with (
        replacing(path, len(header) + sum(entry.nbytes for entry in entries)) as file,
        BackgroundWorker(lambda key, data: sums.update({key: crc32(data)}), "netcl-checksum") as worker,
    ):
        file.write(header)
        for entry in entries:
            array = entry.load()
            flat = np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1)
            data = flat.view(np.uint8).data if flat.size else b""
            worker.submit(entry.key, data)
            file.write(data)
        worker.wait()
        file.seek(0)
        file.write(_header(entries, texts, _listed(_checksum(described, texts), sums)))


def _entry(name: str, value: Any) -> Entry:
    entry = entry_of(name, value if isinstance(value, Tensor) else np.asarray(value))
    if name == "__metadata__":
        raise TypeError("the name __metadata__ is that of the metadata")
    if entry.dtype not in _TO_FILE:
        raise TypeError(f"{name}: arrays of {entry.dtype} are not saved, only {', '.join(_TO_FILE)}")
    return entry


def _header(entries: list[Entry], texts: Mapping[str, str], checksums: str) -> bytes:
    """Returns the length of the JSON, and the JSON padded to a multiple of 8; without checksums, their room is left."""
    metadata = {**texts, _CHECKSUMS: checksums or _listed(0, dict.fromkeys((entry.key for entry in entries), 0))}
    described: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for entry in entries:
        offsets = [at, at + entry.nbytes]
        described[entry.key] = {"dtype": _TO_FILE[entry.dtype], "shape": list(entry.shape), "data_offsets": offsets}
        at = offsets[1]
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

    def read_bytes(self, file: Any) -> Array:
        """Returns the elements as they are stored."""
        file.seek(self.start)
        count = int(np.prod(self.shape, dtype=np.int64))
        flat = np.fromfile(file, np.dtype(numpy_dtype(self.dtype)).newbyteorder("<"), count)
        if len(flat) != count:
            raise EOFError("it ends early")
        return flat.reshape(self.shape)

    def values(self, stored: Array) -> Array:
        """Returns the values of stored elements; bfloat16 as float32."""
        return from_bfloat16(stored) if self.dtype == "bfloat16" else stored


def _bytes_of(array: Array) -> Any:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


class _Arrays:
    """The arrays of an open file, read in the order of ``names`` and each compared with its checksum.

    The checksum of an array is computed while the caller works on the one before, and while the next one is read.
    """

    def __init__(self, file: Any, state: Reading, stored: Mapping[str, _Stored], checksums: Mapping[str, int]) -> None:
        self._file, self._state, self._stored, self._checksums = file, state, stored, checksums

    def checked(self, names: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yields names and values. Raises CheckpointError at an array that is damaged, before it is yielded."""
        with BackgroundWorker(crc32, "netcl-checksum") as worker:
            read: tuple[str, Array, Future[int] | None] | None = None
            for name in names:
                with self._state.at(f"the array {name!r}"):
                    array = self._stored[name].read_bytes(self._file)
                # The sum of this one is computed while the caller works on the one before.
                large = bool(self._checksums) and array.nbytes >= _SMALL
                future = worker.submit(_bytes_of(array)) if large else None
                if read is not None:
                    yield self._compared(*read)
                read = name, array, future
            if read is not None:
                yield self._compared(*read)

    def _compared(self, name: str, array: Array, future: Future[int] | None) -> tuple[str, Array]:
        if self._checksums:
            found = crc32(_bytes_of(array)) if future is None else future.result()
            if found != self._checksums[name]:
                raise self._state.refuse(
                    f"is damaged: the array {name!r} does not have the checksum that it was saved with (if another "
                    f"program changed it and kept the metadata, remove {_CHECKSUMS!r} there)"
                )
        return name, self._stored[name].values(array)


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

    Raises CheckpointError for a file that cannot be read, has a dtype that netcl does not support, exceeds ``budget``
    (None: ``Budget()``) or, with nothing written, does not fit the model; for an array that does not have the checksum
    of its file, before it is written.
    """
    with opened(path, budget, "is damaged or no safetensors file") as (file, state):
        stored, checksums = _described(file, state)
        arrays = _Arrays(file, state, stored, checksums)
        if model is not None:
            described = {name: placeholder(entry.shape, entry.dtype) for name, entry in stored.items()}
            return load_into(model, described, arrays.checked, path, strict)[0]
        place = queue_of(queue)
        made = {}
        for name, values in arrays.checked(stored):
            with state.at(f"the array {name!r}"):
                made[name] = Tensor.from_host(place, values, stored[name].dtype)
        return made


def _described(file: Any, state: Reading) -> tuple[dict[str, _Stored], dict[str, int]]:
    """Returns the places of the arrays in the file, and their checksums if it has some."""
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
        return stored, {}
    first, *others = (int(number, 16) for number in metadata.pop(_CHECKSUMS, "0").split(" "))
    described = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}
    if len(others) != len(stored) or _checksum(described, metadata) != first:
        raise state.refuse(
            "is damaged: its header does not have the checksum that it was saved with (if another program changed it "
            f"and kept the metadata, remove {_CHECKSUMS!r} there)"
        )
    return stored, dict(zip(sorted(stored), others))
