"""Attention of one new token of each row to the keys of a cache, on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.templates import filled_program, largest_group, traits
from netcl.core.process.opencl import cl
from netcl.core.storage.data import TensorT

if TYPE_CHECKING:
    from netcl.core.expr.kernel_source import KernelText

_GROUP = 128
_PER_UNIT = 8  # groups
_CHUNK = 256  # keys at a time, and for a group at least
_KINDS = {"float16": "half", "bfloat16": "ushort", "float32": "float", "int8": "char"}


@lru_cache(maxsize=64)
def program(dtype: str, kind: str, size: int, group: int, norms: bool, split: bool) -> KernelText:
    """Returns the kernels' text for heads of ``size`` numbers, and a cache of the dtype ``kind``; int8 is for Q8_0."""
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", 8), ("KIND", _KINDS[kind]), ("HALF", int(kind == "float16")),
        ("QUANTS", int(kind == "int8")), ("BFLOAT", int(kind == "bfloat16")), ("SIZE", size), ("GROUP", group),
        ("ALONE", int(group == 1)),
        ("CHUNK", _CHUNK), ("PARTS", _parts(size, group)), ("NORMS", int(norms)), ("SPLIT", int(split)),
        ("TWO", 2),
    )  # fmt: skip
    return filled_program(("storage", "half_at", "cached_attention"), defines, {})


def _parts(size: int, group: int) -> int:
    return max(1, group // (size // 8))


def parts_of(groups: int, places: int, units: int) -> int:
    """Returns the number of parts of the keys, so that each compute unit has some groups if there are keys."""
    return max(1, min(-(-_PER_UNIT * units // groups), places // _CHUNK))


def cached_attention(
    engine: Any,
    x: TensorT,
    tables: Sequence[TensorT],
    used: TensorT,
    turns: TensorT,
    norms: Sequence[TensorT],
    *,
    scale: float,
    window: int,
    cap: float,
    eps: float,
) -> TensorT:
    """Returns the attention of one new token of each row, whose key and value it writes to the cache. ``tables`` has
    keys and values, and the scales of both for a cache in Q8_0.
    """
    device = traits(engine)
    rows, kv_heads, places, size = tables[0].shape
    heads = x.shape[1] // size - 2 * kv_heads
    group = 1 if device.is_cpu else largest_group(_GROUP, device)
    parts = parts_of(rows * heads, places, device.units)
    text = program(x.dtype, tables[0].dtype, size, group, bool(norms), parts > 1)
    out: TensorT = engine.empty((rows, heads * size), x.dtype)
    sums = out if parts == 1 else engine.empty((rows, heads, parts, size + 2), "float32")
    local = cl.LocalMemory(4 * (2 * size + _CHUNK + group + _parts(size, group) * size))
    numbers = [np.int64(number) for number in (heads, kv_heads, places, turns.shape[1], window)]
    numbers += [np.float32(number) for number in (scale, cap, eps)]
    args = [x, *tables[:2], used, turns, *tables[2:], *norms, sums, local, *numbers]
    engine.launch(text, "cached_attention", (rows * heads * group, parts), (group, 1), args)
    if parts > 1:
        engine.launch(text, "join_parts", (out.size,), None, [sums, out, np.int64(parts)])
    return out
