"""Compression on the wire: float32 values travel as float16 or bfloat16, and are summed in float32."""

from __future__ import annotations

import numpy as np

from netcl.core import Tensor
from netcl.distributed.group import ProcessGroup
from netcl.distributed.reductions import BFLOAT16, Array, from_bfloat16, to_bfloat16

_KINDS = (None, "float16", "bfloat16")


def check_compression(kind: str | None) -> None:
    """Raises ValueError if ``kind`` is not None, "float16" or "bfloat16"."""
    if kind not in _KINDS:
        raise ValueError(f"compression: expected None, 'float16' or 'bfloat16', got {kind!r}")


def compress(values: Array, kind: str) -> Array:
    """Returns float32 values as a new array of half their bytes, which ``reduce_in_order`` can sum."""
    return values.astype(np.float16) if kind == "float16" else to_bfloat16(values)


def decompress(short: Array, out: Array) -> None:
    """Writes the values of ``compress`` into a float32 array."""
    if short.dtype == BFLOAT16:
        out[...] = from_bfloat16(short)
    else:
        out[...] = short


def all_reduce_compressed(flat: Tensor, op: str, group: ProcessGroup, kind: str | None) -> None:
    """Calls ``group.all_reduce(flat, op)``, with float32 values compressed on the way unless ``kind`` is None."""
    if kind is None or flat.dtype != "float32":
        group.all_reduce(flat, op)
        return
    short = compress(np.asarray(flat.to_host()), kind)
    group.all_reduce(short, op)
    values = np.empty(flat.shape, np.float32)
    decompress(short, values)
    flat.write(values)
