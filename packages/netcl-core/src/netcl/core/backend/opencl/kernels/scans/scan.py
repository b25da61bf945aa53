"""Running sums, products, extrema and linear recurrences along an axis on OpenCL devices."""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.scans.scan_states import scan_program, state_words
from netcl.core.backend.opencl.kernels.warps import look_back
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.templates import Traits, profile, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.storage.data import TensorData
from netcl.core.tuning.warp_table import warp_of

_UNITS = 64  # work-items that share an axis on a CPU
_THREADS = 1 << 16  # work-items that keep another device busy
_SHORTEST = 64  # positions that are worth a chunk of their own
_WIDTH = 16  # columns side by side on a CPU
_STRETCH = 16  # positions that a work-item of another device carries at a time
_SHORT_ROW = 512  # positions of a row that a group of 32 work-items scans, which needs no waiting on many devices
_ROW_BYTES = 1 << 14  # of local memory for such work-groups; extrema of float64 take 15,104
_LONG_ROW = 1 << 13  # positions that are worth several work-groups
_ROW_GROUPS = 16  # of them for each compute unit
_MOST_CHUNKS = 1 << 11  # of a row; each work-group combines the totals before its own
_WARP_GROUP = 128  # work-items of a group that looks back
_WARP_STRETCHES = (32, 16)  # positions of its work-items: as many as local memory has room for


class _RowScan(NamedTuple):
    """The scan of rows by work-groups of ``group`` work-items with ``stretch`` positions each; each work-group scans a
    chunk. With ``warp``, a row of the table of warps, a chunk is what a work-group scans at once.
    """

    group: int
    stretch: int
    rows: int
    extent: int
    chunks: int  # of a row
    length: int  # of a chunk
    warp: str = ""


class _Level(NamedTuple):
    """One pass over a (before, extent, after) layout; ``chunks`` totals per column come of it."""

    chunks: int
    size: tuple[int, ...]
    argument: Any
    local: tuple[int, ...] | None


@lru_cache(maxsize=512)
def _levels(before: int, extent: int, after: int, reverse: bool, device: Traits) -> tuple[int, tuple[_Level, ...]]:
    """Returns the columns of a work-item, and the passes: over x, its totals, their totals, until one chunk is left."""
    width = min(_WIDTH, after) if device.is_cpu else 1
    width = _WIDTH if width == _WIDTH else 1  # two kernels, not one for each number of columns
    stretches = -(-after // width)
    levels: list[_Level] = []
    local = (1, 1) if device.is_cpu else None
    while not levels or levels[-1].chunks > 1:
        chunks_needed = max(1, (_UNITS if device.is_cpu else _THREADS) // max(before * stretches, 1))
        length = min(extent, max(_SHORTEST, -(-extent // chunks_needed)))
        chunks = -(-extent // length)
        share = max(1, before * chunks * stretches // _UNITS) if device.is_cpu else 1
        argument = struct(before, extent, after, length, chunks, share, int(reverse))
        levels.append(_Level(chunks, (stretches, -(-before * chunks // share)), argument, local))
        extent, reverse = chunks, False
    return width, tuple(levels)


@lru_cache(maxsize=512)
def _row_scan(before: int, extent: int, device: Traits) -> _RowScan | None:
    """Returns the scan of rows by work-groups; None if rows are short, or the device has no room for it."""
    if device.is_cpu or device.group < 64 or device.local_memory < _ROW_BYTES or not _SHORTEST <= extent < 1 << 32:
        return None
    group, chunks = 32 if extent <= _SHORT_ROW else 64, 1
    block = group * _STRETCH
    if extent >= _LONG_ROW:
        chunks = max(1, min(_MOST_CHUNKS, device.units * _ROW_GROUPS // before))
    length = -(-extent // (chunks * block)) * block
    return _RowScan(group, _STRETCH, before, extent, -(-extent // length), length)


@lru_cache(maxsize=256)
def _warp_scan(kind: str, dtype: str, rows: int, extent: int, device: Traits, warp: str) -> _RowScan | None:
    """Returns the scan of rows in one pass over the data; None if the device has no room for it."""
    # Of an element the value, and of an extremum its place; of a work-item two states.
    size = max(itemsize(dtype), 4) + (4 if kind in ("max", "min") else 0)
    states = 8 * state_words(kind, dtype)
    for stretch in _WARP_STRETCHES if device.group >= _WARP_GROUP else ():
        length = _WARP_GROUP * stretch
        if _WARP_GROUP * ((stretch + 1) * size + states) + 64 <= device.local_memory:
            return _RowScan(_WARP_GROUP, stretch, rows, extent, -(-extent // length), length, warp)
    return None


def scan(
    engine: Any, kind: str, x: TensorData, other: TensorData | None = None, *, axis: int, reverse: bool = False
) -> Any:
    """Computes a prefix scan: combines the elements along ``axis`` up to each position (``reverse``: from it on), in
    ``x``'s shape and dtype.

    ``sum``, ``prod`` and ``logsumexp`` give a tensor, ``max`` and ``min`` (values, indices int64: of the last extremum,
    NaN being one), ``linear`` y[i] = x[i] + other[i] * y[i - 1]. float16 and bfloat16 are computed in float32; sums and
    products of floats carry what their roundings lose, so that a result is within one unit in the last place of the
    exact sum (of the sum of magnitudes, where terms cancel).
    """
    axis %= x.ndim
    before, extent, after = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    extremum = kind in ("max", "min")
    out = engine.empty(x.shape, x.dtype)
    indices = [engine.empty(x.shape, "int64")] if extremum else []
    if x.size == 0:
        return (out, *indices) if extremum else out
    device = traits(engine)
    rows = _row_scan(before, extent, device) if after == 1 and kind != "linear" else None
    if rows:
        _scan_rows(engine, kind, x, [out, *indices], rows, reverse)
        return (out, *indices) if extremum else out
    width, levels = _levels(before, extent, after, reverse, device)
    text = scan_program(kind, x.dtype, "scan", "scan_levels", WIDTH=width)

    def launch(name: str, level: _Level, *buffers: Any) -> None:
        engine.launch(text, name, level.size, level.local, [*buffers, level.argument])

    operands = [x] if other is None else [x, other]
    totals = [_states(engine, kind, x, before * level.chunks * after) for level in levels[:-1]]
    if totals:
        launch("totals", levels[0], *operands, totals[0])
    for level, source_totals, target in zip(levels[1:], totals, totals[1:]):
        launch("fold", level, source_totals, target)
    for depth in range(len(totals) - 1, -1, -1):
        above = totals[min(depth + 1, len(totals) - 1)]  # of the topmost it is not read: a single chunk has no carry
        launch("spread", levels[depth + 1], totals[depth], above)
    launch("scan", levels[0], *operands, totals[0] if totals else out, out, *indices)
    return (out, *indices) if extremum else out


def _scan_rows(engine: Any, kind: str, x: TensorData, results: list[TensorData], how: _RowScan, reverse: bool) -> None:
    if how.chunks > 1 and (warp := warp_of(profile(engine))) is not None:
        how = _warp_scan(kind, x.dtype, how.rows, how.extent, traits(engine), warp) or how
    run_planned(engine, ("scan", kind, x.dtype, reverse, how), partial(_launch_rows, how, kind, reverse), (x, *results))


def _launch_rows(how: _RowScan, kind: str, reverse: bool, engine: Any, x: TensorData, *results: TensorData) -> None:
    argument = struct(how.rows, how.extent, 1, how.length, how.chunks, 1, int(reverse))
    chunks = how.rows * how.chunks
    numbers = {"GROUP": how.group, "STRETCH": how.stretch, "REVERSE": int(reverse)}

    def launch(*buffers: Any, totals: bool = False) -> None:
        text = scan_program(kind, x.dtype, *look_back.templates(how.warp), "scan_rows", TOTALS=int(totals), **numbers)
        name = "row_totals" if totals else "row_scan"
        engine.launch(text, name, (chunks * how.group,), (how.group,), [x, *buffers, argument])

    if how.warp:
        numbers["FAN"] = look_back.FAN
        signals = engine.signals(look_back.signal_words(how.rows, how.chunks, state_words(kind, x.dtype)))
        launch(signals, np.uint32(signals.size), *results)
    else:
        totals = results[0]  # of a single chunk totals are not read
        if how.chunks > 1:
            totals = _states(engine, kind, x, chunks)
            launch(totals, totals=True)
        launch(totals, *results)


def _states(engine: Any, kind: str, x: TensorData, count: int) -> TensorData:
    """Returns memory for ``count`` states."""
    return engine.empty((count * state_words(kind, x.dtype),), "int32")  # type: ignore[no-any-return]
