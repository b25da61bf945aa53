"""Attention on OpenCL devices: an online softmax in one kernel each way, or in blocks of rows as on other backends.

CPU devices take one work-item for a block of queries (forward) or for a part of a head's keys (backward), which loops
over the other side with wide vectors; others a work-group for a tile, backward one kernel by q and one by k and v.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend import attention_blocks as blocks
from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.kernels.softmax_attention import attention_unit
from netcl.core.backend.opencl.kernels.softmax_attention.attention_shape import AttentionShape, shape_of
from netcl.core.backend.opencl.templates import Traits, source, struct, traits
from netcl.core.device.capabilities import profile_of
from netcl.core.dtypes import itemsize
from netcl.core.errors import UnsupportedError
from netcl.core.process.opencl import cl
from netcl.core.storage.data import TensorData
from netcl.core.tuning.matmul_precision import get_float32_matmul_precision
from netcl.core.tuning.matrix_units import attention_pays, attention_unit_of, local_memory, parts_of

_WIDTH = 32  # queries (forward) or keys (backward) of a work-item at a time
_TILES = 8  # tiles of rows of the other side at a time
_UNITS = 16  # work-items that keep the cores of a CPU busy
_MOST = 256  # of a head's sizes; more would not fit registers and local memory


class _Launch(NamedTuple):
    """The launch of a kernel; ``units`` are work-items on CPU devices, else (tiles, heads) of groups."""

    text: str
    units: tuple[int, ...]
    edge: int
    parts: int
    argument: Any
    bytes: int  # of local memory that is given as an argument


def _vector(device: Traits, dtype: str) -> int:
    return device.vector // 2 if dtype == "float64" else device.vector


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _cpu_tile(device: Traits, dtype: str) -> tuple[int, int]:
    """Returns the queries (forward) or keys (backward), and rows of the other side, in a work-item's registers."""
    return max(_WIDTH, 2 * _vector(device, dtype)), 8 if device.vector == 16 else 6


@lru_cache(maxsize=32)
def _cpu_program(device: Traits, dtype: str) -> str:
    width, rows = _cpu_tile(device, dtype)
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", _vector(device, dtype)), ("ROWS", rows), ("WIDTH", width),
        ("KEYS", rows * _TILES), ("QUERIES", rows * _TILES),
    )  # fmt: skip
    return source(("storage", "contract_attention_cpu"), defines)


@lru_cache(maxsize=32)
def _gpu_program(dtype: str, edge: int, chunks: int) -> str:
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("EDGE", edge), ("CHUNKS", chunks))
    return source(("storage", "contract_attention_gpu"), defines)


@lru_cache(maxsize=256)
def _cpu_launch(device: Traits, dtype: str, s: AttentionShape, backward: bool) -> _Launch:
    """Returns the sizes, and the places of the blocks in local memory, for the kernel of CPU devices."""
    vector = _vector(device, dtype)
    width, rows = _cpu_tile(device, dtype)
    most = rows * _TILES
    width_step, values_step = (_up(_up(size, rows), 2 * vector) for size in (s.width, s.values))
    width_rows, values_rows = (_up(size, rows) for size in (s.width, s.values))
    if backward:
        columns = -(-s.keys // width)
        heads = s.samples * s.heads // s.shared
        parts = max(1, min(columns, _UNITS // heads))
        each = -(-columns // parts)
        parts = -(-columns // each)
        sizes = (
            s.width * width, s.values * width, width * width_step, width_rows * width, values_rows * width,
            most * width_step, most * values_step, most * width, most * width,
        )  # fmt: skip
        units = heads * parts
    else:
        columns, parts, each = -(-s.queries // width), 1, 1
        sizes = (s.width * width, values_rows * width, most * width, most * max(width_step, values_step), *(0,) * 5)
        units = s.samples * s.heads * columns
    places = [sum(sizes[:number]) // vector for number in range(9)]
    argument = struct(
        s.queries, s.keys, s.width, s.values, s.heads, s.shared, columns, parts, each, width_step, values_step,
        int(s.causal), s.masked, s.mask_steps(), places,
    )  # fmt: skip
    return _Launch(
        _cpu_program(device, dtype), (units,), 1, parts, argument, sum(sizes) * itemsize(compute_dtype(dtype))
    )


@lru_cache(maxsize=256)
def _gpu_launch(device: Traits, dtype: str, s: AttentionShape, kernel: str) -> _Launch | None:
    """Returns a launch with groups of 16 x 16, or 8 x 8 if these or their tiles do not fit; None if neither fits."""
    for edge in (16, 8):
        tile = 4 * edge
        local = (2 * edge + tile) * (tile + 1) * itemsize(compute_dtype(dtype))
        if device.group >= edge * edge and local <= device.local_memory:
            break
    else:
        return None
    chunks = 1
    while chunks * tile < max(s.width, s.values):
        chunks *= 2
    argument = struct(s.queries, s.keys, s.width, s.values, s.heads, s.shared, int(s.causal), s.masked, s.mask_steps())
    by_keys = kernel == "gradients_by_k_v"
    tiles = -(-(s.keys if by_keys else s.queries) // tile)
    units = (tiles, s.samples * (s.heads // s.shared if by_keys else s.heads))
    return _Launch(_gpu_program(dtype, edge, chunks), units, edge, 1, argument, 0)


def _fits(device: Traits, dtype: str, s: AttentionShape) -> bool:
    sizes = (s.samples, s.heads, s.queries, s.keys, s.width, s.values)
    if min(sizes) < 1 or max(s.width, s.values) > _MOST:
        return False
    if device.is_cpu:
        return _cpu_launch(device, dtype, s, True).bytes <= device.local_memory
    return _gpu_launch(device, dtype, s, "attend_tiles") is not None


def _way(engine: Any, s: AttentionShape, dtype: str, variant: str | None) -> str:
    """Returns ``blocks``, ``online``, or the name of the matrix unit that is used."""
    if variant in (None, "online") and not _fits(traits(engine), dtype, s):
        if variant is None:
            return "blocks"
        raise UnsupportedError(f"attention with heads of {s.width} and {s.values} in {dtype} does not fit the kernel")
    if variant is not None:
        return variant
    unit = None if traits(engine).is_cpu else _unit(engine, s, dtype)
    return "online" if unit is None else unit


def _unit(engine: Any, s: AttentionShape, dtype: str) -> str | None:
    """Returns the matrix unit that is used, if there is one and it is expected to be the fastest."""
    parts = parts_of(dtype, get_float32_matmul_precision())
    if parts is None or not attention_pays(parts, s.samples * s.heads * s.queries * s.keys):
        return None
    profile = profile_of(engine.queue)
    unit = attention_unit_of(profile, parts)
    fits = unit is not None and attention_unit.fits(unit, s.width, s.values, local_memory(profile))
    return unit if fits else None


def attention(
    engine: Any,
    q: TensorData,
    k: TensorData,
    v: TensorData,
    mask: TensorData | None,
    causal: bool,
    scale: float,
    variant: str | None = None,
) -> tuple[TensorData, TensorData]:
    """Returns softmax(scale q k^T + mask) v and the logarithms of the weights' divisors; ``variant`` forces ``online``,
    ``blocks``, or the kernels of a matrix unit by its name.
    """
    s = shape_of(q, k, v, mask, causal)
    way = _way(engine, s, q.dtype, variant)
    if way == "blocks":
        return blocks.attention(engine, q, k, v, mask, causal, scale)
    seen = _read_mask(engine, mask, q)
    if way == "online":
        return _attend(engine, s, q, k, v, seen, scale)
    return attention_unit.attend(engine, way, s, q, k, v, seen, scale)


def attention_grad(
    engine: Any,
    grad: TensorData,
    q: TensorData,
    k: TensorData,
    v: TensorData,
    mask: TensorData | None,
    out: TensorData,
    lse: TensorData,
    causal: bool,
    scale: float,
    variant: str | None = None,
) -> tuple[TensorData, TensorData, TensorData]:
    """Returns the gradients by q, k and v of ``attention``, which gave ``out`` and ``lse``."""
    s = shape_of(q, k, v, mask, causal)
    way = _way(engine, s, q.dtype, variant)
    if way == "blocks":
        return blocks.attention_grad(engine, grad, q, k, v, mask, out, lse, causal, scale)
    operands = [grad, q, k, v, _read_mask(engine, mask, q), lse, blocks.weighted(engine, grad, out)]
    if way == "online":
        return (_gradients if traits(engine).is_cpu else _gradients_in_groups)(engine, s, operands, scale)
    return attention_unit.gradients(engine, way, s, operands, scale)


def _read_mask(engine: Any, mask: TensorData | None, q: TensorData) -> TensorData:
    """Returns the kernels' mask argument: booleans, or numbers in the computing type; without a mask ``q``, unread."""
    if mask is None:
        return q
    return mask if mask.dtype == "bool" else blocks.as_dtype(engine, mask, compute_dtype(q.dtype))


def _attend(
    engine: Any, s: AttentionShape, q: TensorData, k: TensorData, v: TensorData, mask: TensorData, scale: float
) -> tuple[TensorData, TensorData]:
    device, wide = traits(engine), compute_dtype(q.dtype)
    launch = (
        _cpu_launch(device, q.dtype, s, False) if device.is_cpu else _gpu_launch(device, q.dtype, s, "attend_tiles")
    )
    out = engine.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = engine.empty(q.shape[:-1], wide)
    _enqueue(engine, launch, "attend" if device.is_cpu else "attend_tiles", [q, k, v, mask, out, lse], wide, scale)
    return out, lse


def _gradients(
    engine: Any, s: AttentionShape, operands: list[TensorData], scale: float
) -> tuple[TensorData, TensorData, TensorData]:
    """Computes the gradients on CPU devices; each part of the keys has a gradient by q, which are added in order."""
    q, k, v = operands[1:4]
    wide = compute_dtype(q.dtype)
    launch = _cpu_launch(traits(engine), q.dtype, s, True)
    by_q, by_k, by_v = (engine.empty(x.shape, x.dtype) for x in (q, k, v))
    whole = launch.parts == 1 and wide == q.dtype
    parts = by_q if whole else engine.empty((launch.parts, *q.shape), wide)
    _enqueue(engine, launch, "attend_gradients", [*operands, parts, by_k, by_v], wide, scale)
    if not whole:
        reduce_partials(engine, parts, by_q, launch.parts)
    return by_q, by_k, by_v


def _gradients_in_groups(
    engine: Any, s: AttentionShape, operands: list[TensorData], scale: float
) -> tuple[TensorData, TensorData, TensorData]:
    q, k, v = operands[1:4]
    wide = compute_dtype(q.dtype)
    by_q, by_k, by_v = (engine.empty(x.shape, x.dtype) for x in (q, k, v))
    for kernel, results in (("gradients_by_q", [by_q]), ("gradients_by_k_v", [by_k, by_v])):
        launch = _gpu_launch(traits(engine), q.dtype, s, kernel)
        _enqueue(engine, launch, kernel, [*operands, *results], wide, scale)
    return by_q, by_k, by_v


def _enqueue(
    engine: Any, launch: _Launch | None, kernel: str, buffers: list[TensorData], wide: str, scale: float
) -> None:
    assert launch is not None
    numbers = [launch.argument, np.dtype(wide).type(scale)]
    if launch.bytes:
        engine.launch(launch.text, kernel, launch.units, (1,), [*buffers, *numbers, cl.LocalMemory(launch.bytes)])
        return
    tiles, heads = launch.units
    engine.launch(
        launch.text, kernel, (tiles * launch.edge, heads * launch.edge), (launch.edge,) * 2, [*buffers, *numbers]
    )
