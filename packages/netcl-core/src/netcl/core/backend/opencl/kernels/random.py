"""Random numbers on OpenCL devices: Philox, with the seed and the counter's base on the device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from netcl.core.backend.opencl.templates import source, struct, traits
from netcl.core.storage.data import TensorData

_LANES = 8  # counters side by side on a CPU
_UNITS = 64
_GROUP = 128  # work-items of a group elsewhere, with one counter each
_COUNTERS = 4  # counters of one that draws which elements are kept
# Bits of a uniform number: as many as a dtype holds below one.
UNIFORM_BITS = {"float32": 24, "float64": 24, "float16": 11, "bfloat16": 8}


def _program(kind: str, dtype: str, lanes: int) -> str:
    stored = "UINT8" if dtype == "bool" else dtype.upper()
    defines: list[tuple[str, object]] = [(f"DTYPE_{stored}", 1), (f"KIND_{kind.upper()}", 1), ("LANES", lanes)]
    if kind == "uniform":
        bits = UNIFORM_BITS[dtype]
        defines += [("SHIFT", 32 - bits), ("SCALE", f"0x1p-{bits}f")]
    return source(("storage", "random"), tuple(defines))


def random(
    engine: Any, kind: str, shape: Sequence[int], dtype: str, *, offset: int, low: int = 0, high: int = 0
) -> TensorData:
    """Returns Philox4x32-10 numbers from the engine's ``rng_state`` (seed, base); element i is word i % 4 of counter
    base + ``offset`` + i // 4, and ``ceil(size / 4)`` counters are used.

    ``uniform`` is in [0, 1) in steps of 2**-24 (2**-11 float16, 2**-8 bfloat16), ``normal`` by Box and Muller from
    pairs of words, ``bits`` the word itself (int32), ``randint`` in [``low``, ``high``) by (word * range) >> 32,
    ``kept`` (bool) true if the uniform number of 24 bits is at least ``low`` * 2**-24.
    """
    out: TensorData = engine.empty(tuple(shape), dtype)
    size = prod(out.shape)
    if size == 0:
        return out
    device = traits(engine)
    lanes = _LANES if device.is_cpu else 1
    steps = -(-size // (4 * (_COUNTERS if kind == "kept" and lanes == 1 else lanes)))
    block = -(-steps // _UNITS) if device.is_cpu else 1
    argument = struct(offset, size, block, low, high - low)
    local = (1,) if device.is_cpu else None
    text, items = _program(kind, dtype, lanes), -(-steps // block)
    if not device.is_cpu and device.group >= _GROUP:
        items, local = -(-items // _GROUP) * _GROUP, (_GROUP,)
    engine.launch(text, "draw", (items,), local, [out, engine.rng_state, argument])
    return out
