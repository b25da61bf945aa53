"""Weights as ``.safetensors`` files, the format of most model hubs.

The library parses and checks the header; the bytes are read and written one array at a time, so that a model is never
in memory twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from netcl.core import Tensor
from netcl.core.dtypes import from_bfloat16, numpy_dtype
from netcl.io.archive import Entry, entry_of
from netcl.io.atomic import replacing
from netcl.io.errors import CheckpointError
from netcl.io.load_into import load_into, placeholder
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


def save_safetensors(
    model_or_state: Module | Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the state of a module, or tensors and arrays by name, to exactly ``path``, atomically. CheckpointError.

    ``metadata`` is texts by name. Tensors shared under several names are written under each.
    """
    state = model_or_state.state_dict() if isinstance(model_or_state, Module) else model_or_state
    try:
        # The order of the library: the largest elements first, so that all are aligned to their size.
        entries = sorted((_entry(name, value) for name, value in state.items()), key=lambda e: (-e.itemsize, e.key))
    except TypeError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error
    header = _header(entries, metadata)
    with replacing(path, len(header) + sum(entry.nbytes for entry in entries)) as file:
        file.write(header)
        for entry in entries:
            array = entry.load()
            flat = np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1)
            file.write(flat.view(np.uint8).data if flat.size else b"")


def _entry(name: str, value: Any) -> Entry:
    entry = entry_of(name, value if isinstance(value, Tensor) else np.asarray(value))
    if entry.dtype not in _TO_FILE:
        raise TypeError(f"{name}: arrays of {entry.dtype} are not saved, only {', '.join(_TO_FILE)}")
    return entry


def _header(entries: list[Entry], metadata: Mapping[str, str] | None) -> bytes:
    """Returns the length of the JSON, and the JSON padded to a multiple of 8."""
    described: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for entry in entries:
        offsets = [at, at + entry.nbytes]
        described[entry.key] = {"dtype": _TO_FILE[entry.dtype], "shape": list(entry.shape), "data_offsets": offsets}
        at = offsets[1]
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True)
class _Stored:
    """The location of an array in the file."""

    start: int
    shape: tuple[int, ...]
    dtype: str

    def read(self, file: Any) -> Array:
        """Returns the values; bfloat16 as float32."""
        file.seek(self.start)
        count = int(np.prod(self.shape, dtype=np.int64))
        flat = np.fromfile(file, np.dtype(numpy_dtype(self.dtype)).newbyteorder("<"), count)
        values = flat.reshape(self.shape)
        return from_bfloat16(values) if self.dtype == "bfloat16" else values


def load_safetensors(
    path: str | os.PathLike[str], model: Module | None = None, *, queue: Any = None, strict: bool = True
) -> dict[str, Tensor]:
    """Returns the tensors of a file by name, on ``queue`` (None: the active device); with ``model`` they are read into
    it, and its own tensors are returned.

    Raises CheckpointError for a file that cannot be read, has a dtype that netcl does not support or, with nothing
    written, does not fit the model.
    """
    try:
        with open(path, "rb") as file:
            stored = _described(path, file)
            if model is not None:
                described = {name: placeholder(entry.shape, entry.dtype) for name, entry in stored.items()}
                return load_into(model, described, lambda name: stored[name].read(file), path, strict)
            return {
                name: Tensor.from_host(queue_of(queue), entry.read(file), entry.dtype) for name, entry in stored.items()
            }
    except OSError as error:
        raise CheckpointError(f"cannot be read ({error.strerror or error})", path) from error


def _described(path: str | os.PathLike[str], file: Any) -> dict[str, _Stored]:
    """Returns placeholders of the arrays in the file; the library has checked its header against its size."""
    try:
        with safe_open(path, framework="np"):
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"is damaged or no safetensors file ({error})", path) from error
    header.pop("__metadata__", None)
    unknown = {name: entry["dtype"] for name, entry in header.items() if entry["dtype"] not in _FROM_FILE}
    if unknown:
        raise CheckpointError(f"has dtypes that netcl lacks: {unknown}", path)
    return {
        name: _Stored(8 + length + entry["data_offsets"][0], tuple(entry["shape"]), _FROM_FILE[entry["dtype"]])
        for name, entry in header.items()
    }
