"""Packs the matrices of a GGUF file, or of a folder, in blocks of few bits, and writes a GGUF file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netcl.core import packed
from netcl.llm.commands.options import parser, run
from netcl.llm.gguf import Entry, Gguf, entry_of, write_gguf
from netcl.llm.gguf_model import contents_of
from netcl.llm.model import load

__all__ = ["main", "quantized"]

# Numbers of `general.file_type` by the format of most matrices.
_FILE_TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K": 15}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl quantize``."""
    quantize = parser("quantize", __doc__)
    quantize.add_argument("model", help="a .gguf file, or a folder with config.json, safetensors and tokenizer.json")
    quantize.add_argument("out", help="the .gguf file to write")
    quantize.add_argument("format", choices=sorted(_FILE_TYPES), help="the format of the matrices")
    quantize.add_argument("--output-format", choices=sorted(_FILE_TYPES), help="that of embedding and head (Q8_0)")
    quantize.add_argument("--device", help="where to compute, such as cpu, pocl, intel, gpu")
    return run("quantize", _quantize, quantize.parse_args(arguments))


def _quantize(parsed: argparse.Namespace) -> int:
    if Path(parsed.model).is_dir():
        model = load(parsed.model, "cpu")  # where unpacked weights take no second place in memory
        keys, entries = contents_of(model.decoder, model.gguf_keys())
    else:
        file = Gguf(parsed.model)
        keys, entries = file.metadata, file.tensors
    ends = parsed.output_format or "Q8_0"
    tensors = {
        name: quantized(entry, ends if name in ("token_embd.weight", "output.weight") else parsed.format, parsed.device)
        for name, entry in entries.items()
    }
    keys = {name: value for name, value in keys.items() if not name.startswith("split.")}
    write_gguf(parsed.out, {**keys, "general.file_type": _FILE_TYPES[parsed.format]}, tensors)
    before, after = (sum(entry.data.nbytes for entry in rows.values()) / 1e6 for rows in (entries, tensors))
    changed = sum(tensors[name] is not entries[name] for name in tensors)
    print(f"{parsed.out}: {changed} of {len(tensors)} tensors, {before:.1f} MB became {after:.1f} MB")
    return 0


def quantized(entry: Entry, form: str, device: Any = None) -> Entry:
    """Returns a matrix in a format; vectors, and rows that no block divides, stay as they are."""
    if len(entry.shape) != 2 or entry.type == form or entry.shape[1] % packed.FORMATS[form].block:
        return entry
    plain = (
        entry.packed(device).unpack("float32") if entry.is_packed else np.ascontiguousarray(entry.array(), np.float32)
    )
    return entry_of(entry.name, packed.quantize(plain, form))
