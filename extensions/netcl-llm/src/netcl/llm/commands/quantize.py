"""Packs the matrices of a GGUF file in blocks of few bits, and writes another file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core import packed
from netcl.llm.commands.options import parser, run
from netcl.llm.gguf import Entry, Gguf, write_gguf

__all__ = ["main", "quantized"]

# Numbers of `general.file_type` by the format of most matrices.
_FILE_TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K": 15}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl quantize``."""
    quantize = parser("quantize", __doc__)
    quantize.add_argument("model", help="a .gguf file")
    quantize.add_argument("out", help="the .gguf file to write")
    quantize.add_argument("format", choices=sorted(_FILE_TYPES), help="the format of the matrices")
    quantize.add_argument("--output-format", choices=sorted(_FILE_TYPES), help="that of embedding and head (Q8_0)")
    quantize.add_argument("--device", help="where to compute, such as cpu, pocl, intel, gpu")
    return run("quantize", _quantize, quantize.parse_args(arguments))


def _quantize(parsed: argparse.Namespace) -> int:
    file = Gguf(parsed.model)
    ends = parsed.output_format or "Q8_0"
    tensors = {
        name: quantized(entry, ends if name in ("token_embd.weight", "output.weight") else parsed.format, parsed.device)
        for name, entry in file.tensors.items()
    }
    keys = {name: value for name, value in file.metadata.items() if not name.startswith("split.")}
    write_gguf(parsed.out, {**keys, "general.file_type": _FILE_TYPES[parsed.format]}, tensors)
    before = sum(entry.data.nbytes for entry in file.tensors.values())
    after = sum(
        value.nbytes if isinstance(value, packed.PackedTensor) else value.data.nbytes for value in tensors.values()
    )
    changed = sum(isinstance(value, packed.PackedTensor) for value in tensors.values())
    print(f"{parsed.out}: {changed} of {len(tensors)} tensors, {before / 1e6:.1f} MB became {after / 1e6:.1f} MB")
    return 0


def quantized(entry: Entry, form: str, device: Any = None) -> Entry | packed.PackedTensor:
    """Returns a matrix in a format; vectors, and rows that no block divides, stay as they are."""
    if len(entry.shape) != 2 or entry.type == form or entry.shape[1] % packed.FORMATS[form].block:
        return entry
    if entry.is_packed:
        return packed.quantize(entry.packed(device).unpack("float32"), form)
    return packed.quantize(np.ascontiguousarray(entry.array(), np.float32), form)
