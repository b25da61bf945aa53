"""Sorting rows, searching in sorted ones, counting between edges and putting to positions, on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.host_sort import sort_values, sorted_rows, unique
from netcl.core.backend.opencl.kernels.select import are_few, are_short, few, first, kth, kth_of_row, worth
from netcl.core.backend.opencl.kernels.sort_keys import keys_text
from netcl.core.backend.opencl.templates import Traits, filled, source, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.expr import Load, reduce

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_UNITS = 64  # work-items of a CPU
_EIGHT = 8  # elements that a work-item sorts in registers
_TILE = 4096  # elements that a work-item of a CPU sorts within its cache
_GROUP = 128  # work-items that share a tile elsewhere: 16 KB of local memory at most
_ROW_GROUPS = (64, 128, 256, 512)  # work-items that sort a row of keys of 32 bits in local memory elsewhere
_LEAST_ROW = 257  # shorter rows share the group of a tile
_BYTES_OF_ITEM = 84  # of local memory: eight keys and places, 16 counts, two sums
_BLOCK_GROUP = 256  # work-items that sort a block of a long row by a digit elsewhere
_LEAST_BLOCKS = 1 << 14  # elements of a long row
_FOR_HOST = 1 << 12  # elements from which NumPy sorts for a CPU; it shares its memory
_COUNTS = 1 << 16  # counts of all tables together, where many work-items count at once


class _Pass(NamedTuple):
    name: str
    size: tuple[int]
    local: tuple[int] | None
    argument: Any


class _Passes(NamedTuple):
    passes: tuple[_Pass, ...]
    swapped: bool  # the tiles are sorted into the second scratch


@lru_cache(maxsize=512)
def _passes_of(rows: int, extent: int, kept: int, descending: bool, device: Traits) -> _Passes:
    def step(name: str, tile: int, width: int) -> _Pass:
        tiles = -(-extent // tile)
        units, share, local = rows * (tile if name == "unpack" else tiles), 1, None
        if device.is_cpu:
            share, local = -(-units // _UNITS), (1,)
            units = -(-units // share)
        elif name != "unpack":
            local = (group,)
            units = -(-units // (group * _EIGHT // tile)) * group
        return _Pass(name, (units,), local, struct(rows, extent, tile, tiles, width, share, -1 if descending else 0))

    group, width = 1, _EIGHT
    while 2 * group <= min(_GROUP, device.group):
        group *= 2
    most = _TILE if device.is_cpu else group * _EIGHT
    while width < min(most, extent):
        width *= 2
    swapped = device.is_cpu and (width // _EIGHT).bit_length() % 2 == 0
    passes = [step("tiles", width, width)]
    merged = max(-(-extent * rows // _UNITS), _TILE) if device.is_cpu else most
    while width < extent:
        passes.append(step("merge", merged, width))
        width *= 2
    passes.append(step("unpack", kept, width))
    return _Passes(tuple(passes), swapped)


def _sorted(engine: Any, x: TensorData, kept: int, descending: bool) -> tuple[TensorData, TensorData]:
    *lead, extent = x.shape
    values, indices = engine.empty((*lead, kept), x.dtype), engine.empty((*lead, kept), "int64")
    if values.size == 0:
        return values, indices
    device = traits(engine)
    if are_few(prod(lead), extent, kept, device):
        return few(engine, x, kept, descending)
    if kept == extent and _on_host(engine, x, device):
        ordered, positions_of = sorted_rows(engine.read(x), x.dtype, descending)
        return engine.tensor(ordered, x.dtype), engine.tensor(positions_of, "int64")
    if worth(extent, kept):
        chosen, positions = first(engine, x, kept, descending)
        values, order = _sorted(engine, chosen, kept, descending)
        # The positions of the chosen among all, in their order.
        return values, engine.index("gather", positions, order, axis=-1)
    if group := _row_group(extent, itemsize(x.dtype), device):
        argument = struct(prod(lead), extent, kept, -1 if descending else 0)
        size = (prod(lead) * group,)
        engine.launch(_row_program(x.dtype, group), "sort_rows", size, (group,), [x, values, indices, argument])
        return values, indices
    if kept == extent and _sorts_blocks(extent, itemsize(x.dtype), device):
        _sort_blocks(engine, x, values, indices, descending)
        return values, indices
    planned = _passes_of(prod(lead), extent, kept, descending, device)
    text = _program(x.dtype, device, "sort")
    words = 2 if itemsize(x.dtype) == 8 else 1
    one, two = (engine.empty((x.size * words,), "int64") for _ in range(2))
    for name, size, local, argument in planned.passes:
        if name == "tiles":
            buffers = [x, one, two]
            one, two = (two, one) if planned.swapped else (one, two)
        elif name == "merge":
            buffers = [one, two]
            one, two = two, one
        else:
            buffers = [x, one, values, indices]
        engine.launch(text, name, size, local, [*buffers, argument])
    return values, indices


def _row_group(extent: int, size: int, device: Traits) -> int:
    """The work-items that sort a row in local memory; 0 if it is too long or too short, or its keys have 64 bits."""
    if device.is_cpu or size == 8 or extent < _LEAST_ROW:
        return 0
    fitting = (one for one in _ROW_GROUPS if extent <= one * _EIGHT and one <= device.group)
    return next((one for one in fitting if one * _BYTES_OF_ITEM <= device.local_memory), 0)


def _sorts_blocks(extent: int, size: int, device: Traits) -> bool:
    """True if long rows are sorted digit by digit."""
    # Of a work-item eight elements, 16 counts and two sums; of 256 digits where they begin, here and in the row.
    local = _BLOCK_GROUP * (_EIGHT * (16 if size == 8 else 8) + 36) + 2048
    return (
        not device.is_cpu and extent >= _LEAST_BLOCKS and device.group >= _BLOCK_GROUP and local <= device.local_memory
    )


def _sort_blocks(engine: Any, x: TensorData, values: TensorData, indices: TensorData, descending: bool) -> None:
    rows, extent, words = prod(x.shape[:-1]), x.shape[-1], 2 if itemsize(x.dtype) == 8 else 1
    blocks = -(-extent // (_BLOCK_GROUP * _EIGHT))
    size, local = (rows * blocks * _BLOCK_GROUP,), (_BLOCK_GROUP,)
    one, two = (engine.empty((x.size * words,), "int64") for _ in range(2))
    counts = engine.empty((rows, 256 * blocks), "int32")
    last = 32 * words - 8
    for shift in range(0, last + 8, 8):
        text = _block_program(x.dtype, shift == 0, shift == last)
        taken = x if shift == 0 else one
        argument = struct(extent, blocks, shift, -1 if descending else 0)
        engine.launch(text, "block_counts", size, local, [taken, counts, argument])
        sums = engine.scan("sum", counts, axis=1)
        target = [x, values, indices] if shift == last else [two]
        engine.launch(text, "block_scatter", size, local, [taken, counts, sums, *target, argument])
        one, two = two, one


def _on_host(engine: Any, x: TensorData, device: Traits) -> bool:
    """True if NumPy sorts ``x`` faster than the device, a CPU, and nothing is being recorded."""
    return device.is_cpu and x.size >= _FOR_HOST and engine.recording is None


def _values(engine: Any, x: TensorData, descending: bool) -> TensorData:
    if _on_host(engine, x, traits(engine)):
        values = engine.read(x)
        sort_values(values, partial(engine.read, x), x.dtype, descending)
        return engine.tensor(values, x.dtype)  # type: ignore[no-any-return]
    return _sorted(engine, x, x.shape[-1], descending)[0]


def _kth(engine: Any, x: TensorData, positions: TensorData) -> TensorData:
    if are_short(positions.size, x.shape[-1], traits(engine)):
        return kth_of_row(engine, x, positions)
    if worth(x.shape[-1], 0) and positions.size:
        return kth(engine, x, positions)
    return engine.index("gather", _sorted(engine, x, x.shape[-1], False)[1], positions, axis=-1)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _program(dtype: str, device: Traits, name: str) -> str:
    """The text of a program for one dtype; bool is sorted as the bytes 0 and 1."""
    dtype = "uint8" if dtype == "bool" else dtype
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1)]
    defines.append(("ALONE", 1) if device.is_cpu else ("TILE", _GROUP * _EIGHT))
    elements = ("sort_elements",) if name == "sort" else ()
    return filled(source(("storage", *elements, name), tuple(defines)), {"keys": keys_text(dtype)})


@lru_cache(maxsize=64)
def _row_program(dtype: str, group: int) -> str:
    """The text of the kernel that sorts rows in local memory."""
    dtype = "uint8" if dtype == "bool" else dtype
    text = source(("storage", "sort_sums", "sort_rows"), ((f"DTYPE_{dtype.upper()}", 1), ("GROUP", group)))
    return filled(text, {"keys": keys_text(dtype), "unroll": "#pragma unroll"})


@lru_cache(maxsize=64)
def _block_program(dtype: str, first: bool, final: bool) -> str:
    """The text of the kernels of a pass over the blocks of long rows."""
    dtype = "uint8" if dtype == "bool" else dtype
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("GROUP", _BLOCK_GROUP), ("FIRST", int(first)), ("FINAL", int(final)),
    )  # fmt: skip
    text = source(("storage", "sort_elements", "sort_sums", "sort_blocks"), defines)
    return filled(text, {"keys": keys_text(dtype), "unroll": "#pragma unroll"})


def sort(
    engine: Any,
    kind: str,
    x: TensorData,
    other: TensorData | None = None,
    *,
    size: int = 0,
    descending: bool = False,
    right: bool = False,
    wanted: Sequence[str] = (),
) -> Any:
    """See ``DeviceBackend.sort``."""
    if kind == "sort":
        return _sorted(engine, x, size, descending)
    if kind == "values":
        return _values(engine, x, descending)
    if kind == "unique":
        if not traits(engine).is_cpu:
            return None
        elements, *others = unique(engine.read(x), partial(engine.read, x), x.dtype, wanted)
        return engine.tensor(elements, x.dtype), *(engine.tensor(other, "int64") for other in others)
    assert other is not None
    if kind == "kth":
        return _kth(engine, x, other)
    device = traits(engine)
    text = _program(x.dtype, device, "search")
    walked = other if kind == "search" else x
    width = walked.shape[-1] if walked.ndim and kind == "put" or kind == "search" and x.ndim > 1 else walked.size
    rows = walked.size // max(width, 1)
    extent = size if kind == "put" else x.shape[-1] if kind == "search" else other.shape[0]
    share = max(1, -(-walked.size // _UNITS)) if device.is_cpu else 1
    units = -(-walked.size // share)
    copies = units if device.is_cpu else max(1, min(units, _COUNTS // max(extent, 1)))
    argument = struct(rows, extent, width, share, int(right), copies)
    local = (1,) if device.is_cpu else None
    if kind == "search":
        out = engine.empty(other.shape, "int64")
        shared = np.int64(x.ndim == 1)
        engine.launch(text, "search", (units,), local, [x, other, out, argument, shared])
        return out
    if kind == "put":
        out = engine.zeros((*x.shape[:-1], size), x.dtype)
        engine.launch(text, "put", (units,), local, [x, other, out, argument])
        return out
    if units == 0:
        return engine.zeros((extent - 1,), "int64")
    tables = engine.zeros((copies, extent - 1), "int32")
    engine.launch(text, "count", (units,), local, [x, other, tables, argument])
    total = engine.run((reduce("sum", Load(0, "int32"), (0,)),), (tables,), shapes=((1, extent - 1),))[0]
    return total.reshape((extent - 1,))
