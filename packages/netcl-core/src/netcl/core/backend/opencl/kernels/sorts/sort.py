"""Sorting rows, searching in sorted ones, counting between edges and putting to positions, on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.host_sort import sort_values, sorted_rows, unique
from netcl.core.backend.opencl.kernels.selections.compaction import runs
from netcl.core.backend.opencl.kernels.selections.select import (
    are_few,
    are_short,
    few,
    first,
    first_of_rows,
    kth,
    kth_of_row,
    kth_of_rows,
    selects_rows,
    selects_whole_rows,
    worth,
)
from netcl.core.backend.opencl.kernels.sort_keys import keyed_program
from netcl.core.backend.opencl.kernels.sorts.radix_sort import radix_sort, sort_long_rows
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.templates import Traits, largest_group, profile, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.expr import Load, reduce
from netcl.core.storage.data import TensorData
from netcl.core.tuning.warp_table import warp_of

_UNITS = 64  # work-items of a CPU
_EIGHT = 8  # elements that a work-item sorts in registers
_TILE = 4096  # elements that a work-item of a CPU sorts within its cache
_GROUP = 128  # work-items that share a tile elsewhere: 16 KB of local memory at most
_ROW_GROUPS = (64, 128, 256, 512)  # work-items that sort a row of keys of 32 bits in local memory elsewhere
_LEAST_ROW = 257  # shorter rows share the group of a tile
_BYTES_OF_ITEM = 88  # of local memory: eight keys and places, 16 counts, two sums
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

    group, width = largest_group(_GROUP, device), _EIGHT
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
    if selects_rows(extent, kept, device):
        return first_of_rows(engine, x, kept, descending)
    if kept == extent and _on_host(engine, x, device):
        ordered, positions_of = sorted_rows(engine.read(x), x.dtype, descending)
        return engine.tensor(ordered, x.dtype), engine.tensor(positions_of, "int64")
    if group := _row_group(extent, itemsize(x.dtype), device):
        argument = struct(prod(lead), extent, kept, -1 if descending else 0)
        size = (prod(lead) * group,)
        engine.launch(_row_program(x.dtype, group), "sort_rows", size, (group,), [x, values, indices, argument])
        return values, indices
    if worth(extent, kept):
        chosen, positions = first(engine, x, kept, descending)
        values, order = _sorted(engine, chosen, kept, descending)
        # The positions of the chosen elements in the row, in their order.
        return values, engine.index("gather", positions, order, axis=-1)
    if kept == extent and _sorted_long(engine, x, [values, indices], descending):
        return values, indices
    planned = _passes_of(prod(lead), extent, kept, descending, device)
    text = _program(x.dtype, device, "sort")
    words = 2 if itemsize(x.dtype) == 8 else 1
    source, scratch = (engine.empty((x.size * words,), "int64") for _ in range(2))
    for name, size, local, argument in planned.passes:
        if name == "tiles":
            buffers = [x, source, scratch]
            source, scratch = (scratch, source) if planned.swapped else (source, scratch)
        elif name == "merge":
            buffers = [source, scratch]
            source, scratch = scratch, source
        else:
            buffers = [x, source, values, indices]
        engine.launch(text, name, size, local, [*buffers, argument])
    return values, indices


def _row_group(extent: int, size: int, device: Traits) -> int:
    """Returns the work-items that sort a row in local memory; 0 if it is too long, too short, or of 64-bit keys."""
    if device.is_cpu or size == 8 or extent < _LEAST_ROW:
        return 0
    fitting = (group for group in _ROW_GROUPS if extent <= group * _EIGHT and group <= device.group)
    return next((group for group in fitting if group * _BYTES_OF_ITEM <= device.local_memory), 0)


def _sorted_long(engine: Any, x: TensorData, results: list[TensorData], descending: bool) -> bool:
    """Writes the sorted values of long rows and, if ``results`` has two tensors, their positions, or returns False."""
    extent, device, size, alone = x.shape[-1], traits(engine), itemsize(x.dtype), len(results) == 1
    rows = x.size // extent
    how = radix_sort(rows, extent, size, device, "", alone)
    warp = None if how is None else warp_of(profile(engine))
    if warp is not None:
        how = radix_sort(rows, extent, size, device, warp, alone) or how
    if how is None:
        return False
    if how.warp:
        key = ("sort", x.dtype, len(results), descending, how)
        run_planned(engine, key, partial(sort_long_rows, how, descending), (x, *results))
    else:
        sort_long_rows(how, descending, engine, x, *results)
    return True


def _on_host(engine: Any, x: TensorData, device: Traits) -> bool:
    """True if NumPy sorts ``x`` faster than the device, a CPU, and nothing is being recorded."""
    return device.is_cpu and x.size >= _FOR_HOST and engine.recording is None


def _values(engine: Any, x: TensorData, descending: bool) -> TensorData:
    if _on_host(engine, x, traits(engine)):
        values = engine.read(x)
        sort_values(values, partial(engine.read, x), x.dtype, descending)
        return engine.tensor(values, x.dtype)  # type: ignore[no-any-return]
    return _sorted(engine, x, x.shape[-1], descending)[0]


def _unstable(engine: Any, x: TensorData) -> TensorData:
    """Returns the sorted values; long rows are sorted by keys without positions."""
    if x.size:
        values: TensorData = engine.empty(x.shape, x.dtype)
        if _sorted_long(engine, x, [values], False):
            return values
    return _values(engine, x, False)


def _kth(engine: Any, x: TensorData, positions: TensorData) -> TensorData:
    if are_short(positions.size, x.shape[-1], traits(engine)):
        return kth_of_row(engine, x, positions)
    if positions.size and selects_whole_rows(positions.size, x.shape[-1], traits(engine)):
        return kth_of_rows(engine, x, positions)
    if worth(x.shape[-1], 0) and positions.size:
        return kth(engine, x, positions)
    return engine.index("gather", _sorted(engine, x, x.shape[-1], False)[1], positions, axis=-1)  # type: ignore[no-any-return]


def _program(dtype: str, device: Traits, name: str) -> str:
    """Returns the text of a program for one dtype."""
    numbers = {"ALONE": 1} if device.is_cpu else {"TILE": _GROUP * _EIGHT}
    return keyed_program(dtype, *(("sort_elements",) if name == "sort" else ()), name, **numbers)


def _row_program(dtype: str, group: int) -> str:
    """Returns the text of the kernel that sorts rows in local memory."""
    return keyed_program(dtype, "group_sums", "sort_sums", "sort_rows", GROUP=group)


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
    if kind == "unstable":
        return _unstable(engine, x)
    if kind == "runs":
        return runs(engine, x, wanted)
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
