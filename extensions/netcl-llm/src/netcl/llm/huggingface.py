"""Folders of Hugging Face: config.json, safetensors in one or several files, and tokenizer.json.

A folder is from a stranger as a GGUF file is: names of files stay inside of it, and netcl.io's reader checks the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.io.reading import opened
from netcl.io.safetensors import load_safetensors
from netcl.llm.config import Config, from_huggingface
from netcl.llm.decoder import Decoder

__all__ = ["decoder_of_folder", "read_json"]

# Of config.json and of the index of files.
_JSON_BYTES = 64 << 20
# Names of the whole model, the longest first; and matrices that are several layers joined.
_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.")
_JOINED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def read_json(path: Path, budget: Budget | None = None) -> Any:
    """Returns the value of a JSON file of at most 64 MB; raises CheckpointError."""
    with opened(path, budget, "is damaged or no JSON file") as (file, state):
        if state.size > _JSON_BYTES:
            raise state.refuse(f"expected at most {_JSON_BYTES:,} bytes, got {state.size:,}")
        state.meter.spend(10 * state.size, "its values")
        return json.loads(file.read())


def decoder_of_folder(
    path: str | os.PathLike[str], queue: Any = None, dtype: str = "float32", budget: Budget | None = None
) -> tuple[Decoder, dict[str, Any]]:
    """Returns the decoder of a folder with weights in ``dtype``, and the values of config.json.

    Raises CheckpointError for a folder that is damaged, unsupported or beyond ``budget``.
    """
    folder = Path(path)
    values = read_json(folder / "config.json", budget)
    if not isinstance(values, Mapping):
        raise CheckpointError(f"expected an object, got {type(values).__name__}", folder / "config.json")
    try:
        config = from_huggingface(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"describes no model that netcl has ({error})", folder / "config.json") from error
    tensors: dict[str, Tensor] = {}
    for file in _files(folder, budget):
        for name, tensor in load_safetensors(file, queue=queue, budget=budget).items():
            prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
            tensors.update(_split(config, name.removeprefix(prefix), tensor))
    used: set[str] = set()

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != shape or not is_floating(tensor.dtype):
            got = "no such tensor" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise CheckpointError(f"{name}: expected numbers of shape {shape}, got {got}", path)
        used.add(name)
        return tensor if tensor.dtype == dtype else tensor.astype(dtype)

    decoder = Decoder(config, source).eval()
    left = {name for name in tensors.keys() - used if name != "lm_head.weight" and not name.endswith("inv_freq")}
    if left:
        raise CheckpointError(f"has {len(left)} tensors that the model does not use: {min(left)}", path)
    return decoder, dict(values)


def _files(folder: Path, budget: Budget | None) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return [folder / "model.safetensors"]
    values = read_json(index, budget)
    names = values.get("weight_map") if isinstance(values, Mapping) else None
    if not isinstance(names, Mapping) or not names:
        raise CheckpointError("expected a weight_map of files by tensors", index)
    files = sorted({str(name) for name in names.values()})
    for name in files:
        if Path(name).name != name or name in ("", ".", ".."):
            raise CheckpointError(f"expected names of files in the same folder, got {name!r:.200}", index)
    return [folder / name for name in files]


def _split(config: Config, name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Returns a tensor by its name; joined matrices (Phi-3) as single ones, views of the rows."""
    joined = next((part for part in _JOINED if f".{part}." in name), None)
    if joined is None:
        return {name: tensor}
    kv, q = config.kv_heads * config.head_dim, config.heads * config.head_dim
    sizes = (q, kv, kv) if joined == "qkv_proj" else (config.intermediate_size,) * 2
    ends = list(accumulate(sizes))
    return {
        name.replace(joined, part): tensor[end - size : end] for part, size, end in zip(_JOINED[joined], sizes, ends)
    }
