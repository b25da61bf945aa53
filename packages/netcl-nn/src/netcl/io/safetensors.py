"""Weights as ``.safetensors`` files, the form that most model hubs serve."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy as library
from safetensors import SafetensorError, deserialize

from netcl.core import Tensor
from netcl.core.dtypes import canonical, from_bfloat16, numpy_dtype, to_bfloat16
from netcl.io.atomic import replacing
from netcl.io.errors import CheckpointError
from netcl.io.fit import load_fitting
from netcl.nn.module import Module
from netcl.nn.placement import queue_of

# safetensors' names for the dtypes that netcl has.
_FROM_FILE = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "BOOL": "bool",
}


def save_safetensors(
    model_or_state: Module | Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the state of a module, or tensors and arrays by name, to exactly ``path``, atomically. CheckpointError.

    ``metadata`` is texts by name. Tensors shared under several names are written under each.
    """
    state = model_or_state.state_dict() if isinstance(model_or_state, Module) else model_or_state
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    bfloat16 = set()
    for name, value in state.items():
        host = value.to_host() if isinstance(value, Tensor) else np.asarray(value)
        dtype = canonical(value.dtype if isinstance(value, Tensor) else host.dtype)
        if dtype == "bfloat16":
            bfloat16.add(name)
            host = to_bfloat16(host.astype(np.float32))
        arrays[name] = np.asarray(host, order="C")
    try:
        data = _renamed(library.save(arrays, dict(metadata) if metadata else None), bfloat16)
    except SafetensorError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error
    with replacing(path, len(data)) as file:
        file.write(data)


def load_safetensors(
    path: str | os.PathLike[str], model: Module | None = None, *, queue: Any = None, strict: bool = True
) -> dict[str, Tensor]:
    """The tensors of a file by name, on ``queue`` (None: that of the model, else the active device); they are written
    into ``model`` if given.

    CheckpointError for a file that cannot be read, has a dtype that netcl lacks or, with nothing written, does not fit
    the model.
    """
    try:
        with open(path, "rb") as file:
            entries = deserialize(file.read())  # type: ignore[no-untyped-call]
    except OSError as error:
        raise CheckpointError(f"cannot be read ({error.strerror or error})", path) from error
    except SafetensorError as error:
        raise CheckpointError(f"is damaged or no safetensors file ({error})", path) from error
    unknown = {name: entry["dtype"] for name, entry in entries if entry["dtype"] not in _FROM_FILE}
    if unknown:
        raise CheckpointError(f"has dtypes that netcl lacks: {unknown}", path)
    if queue is None and model is not None:
        queue = next((tensor.queue for tensor in model.state_dict().values()), None)
    state: dict[str, Tensor] = {}
    for name, entry in entries:
        dtype = _FROM_FILE[entry["dtype"]]
        stored = np.frombuffer(entry["data"], numpy_dtype(dtype).newbyteorder("<")).reshape(entry["shape"])
        values = from_bfloat16(stored) if dtype == "bfloat16" else stored
        state[name] = Tensor.from_host(queue_of(queue), values, dtype)
    if model is not None:
        load_fitting(model, state, path, strict)
    return state


def _renamed(data: bytes, names: set[str]) -> bytes:
    """The file with the dtype of these tensors, whose bits NumPy holds as U16, given as BF16; offsets count from the
    header's end.
    """
    if not names:
        return data
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for name in names:
        header[name]["dtype"] = "BF16"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]
