"""Running sums, products, extrema and linear recurrences along an axis on OpenCL devices."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.kernels.scan_states import scan_parts
from netcl.core.backend.opencl.templates import Traits, filled, source, struct, traits
from netcl.core.dtypes import is_floating, itemsize

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_UNITS = 64  # work-items that share an axis on a CPU
_THREADS = 1 << 16  # work-items that keep another device busy
_SHORTEST = 64  # positions that are worth a chunk of their own
_WIDTH = 16  # columns side by side on a CPU
_GROUP, _STRETCH = 64, 32  # work-items that carry so many positions each through local memory elsewhere
_ROW_GROUP, _ROW_STRETCH = 128, (4, 8, 16)  # the same of a group that scans a row, by the row's length
_ROW_BYTES = 1 << 15  # of local memory; extrema of float64 take 30,208


class _Level(NamedTuple):
    """One pass over a (before, extent, after) layout; ``chunks`` totals per column come of it."""

    chunks: int
    size: tuple[int, ...]
    argument: Any
    local: tuple[int, ...] | None


@lru_cache(maxsize=512)
def _levels(
    before: int, extent: int, after: int, reverse: bool, device: Traits, staged: bool
) -> tuple[int, tuple[_Level, ...]]:
    """The columns of one work-item, and the passes: over x, over its totals, over theirs, until a chunk holds all."""
    width = min(_WIDTH, after) if device.is_cpu else 1
    width = _WIDTH if width == _WIDTH else 1  # two kernels, not one for each number of columns
    stretches = -(-after // width)
    levels: list[_Level] = []
    local = (1, 1) if device.is_cpu else None
    if staged:
        chunks = -(-extent // _STRETCH)
        argument = struct(before, extent, 1, _STRETCH, chunks, 1, int(reverse))
        levels.append(_Level(chunks, (before * -(-chunks // _GROUP) * _GROUP,), argument, (_GROUP,)))
        extent, reverse = chunks, False
    while not levels or levels[-1].chunks > 1:
        wanted = max(1, (_UNITS if device.is_cpu else _THREADS) // max(before * stretches, 1))
        length = min(extent, max(_SHORTEST, -(-extent // wanted)))
        chunks = -(-extent // length)
        share = max(1, before * chunks * stretches // _UNITS) if device.is_cpu else 1
        argument = struct(before, extent, after, length, chunks, share, int(reverse))
        levels.append(_Level(chunks, (stretches, -(-before * chunks // share)), argument, local))
        extent, reverse = chunks, False
    return width, tuple(levels)


@lru_cache(maxsize=256)
def _program(kind: str, dtype: str, width: int, staged: bool) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1), ("WIDTH", width)]
    if staged:
        defines += [("GROUP", _GROUP), ("STRETCH", _STRETCH)]
    names = ("storage", "scan_walk", "scan", *(("scan_staged",) if staged else ()), "scan_levels")
    return filled(source(names, tuple(defines)), scan_parts(kind, exact=not is_floating(dtype)))


@lru_cache(maxsize=256)
def _row_program(kind: str, dtype: str, stretch: int) -> str:
    """The text of the kernel that scans rows by a work-group each."""
    dtype = "uint8" if dtype == "bool" else dtype
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("GROUP", _ROW_GROUP), ("STRETCH", stretch))
    text = source(("storage", "scan_walk", "scan_rows"), defines)
    return filled(text, scan_parts(kind, exact=not is_floating(dtype)))


def _stretch(kind: str, before: int, extent: int, after: int, device: Traits) -> int:
    """The positions that a work-item carries in the scan of a row by a work-group; 0 if rows are not scanned so: if
    they are short, or too few to keep the device busy.
    """
    if device.is_cpu or device.group < _ROW_GROUP or device.local_memory < _ROW_BYTES:
        return 0
    if after != 1 or kind == "linear" or extent < _SHORTEST:
        return 0
    if before < device.units and extent > _ROW_GROUP * _ROW_STRETCH[-1]:
        return 0
    return next((one for one in _ROW_STRETCH if extent <= _ROW_GROUP * one), _ROW_STRETCH[-1])


def scan(
    engine: Any, kind: str, x: TensorData, other: TensorData | None = None, *, axis: int, reverse: bool = False
) -> Any:
    """Prefix scan: combines the elements along ``axis`` up to each position (``reverse``: from it on), in ``x``'s shape
    and dtype.

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
    stretch = _stretch(kind, before, extent, after, device)
    if stretch:
        argument = struct(before, extent, 1, stretch, 1, 1, int(reverse))
        text = _row_program(kind, x.dtype, stretch)
        engine.launch(text, "row_scan", (before * _ROW_GROUP,), (_ROW_GROUP,), [x, out, *indices, argument])
        return (out, *indices) if extremum else out
    staged = not device.is_cpu and device.group >= _GROUP and after == 1 and extent >= _GROUP * _STRETCH
    staged = staged and kind != "linear"  # which has two operands to carry
    width, levels = _levels(before, extent, after, reverse, device, staged)
    text = _program(kind, x.dtype, width, staged)
    stage = "staged_" if staged else ""

    def launch(name: str, level: _Level, *buffers: Any) -> None:
        engine.launch(text, name, level.size, level.local, [*buffers, level.argument])

    operands = [x] if other is None else [x, other]
    # Two numbers for each total, of which an index is the largest.
    words = 16 if extremum else 2 * max(itemsize(x.dtype), 4)
    totals = [engine.empty((before * level.chunks * after * words // 4,), "int32") for level in levels[:-1]]
    if totals:
        launch(stage + "totals", levels[0], *operands, totals[0])
    for level, source_totals, target in zip(levels[1:], totals, totals[1:]):
        launch("fold", level, source_totals, target)
    for depth in range(len(totals) - 1, -1, -1):
        above = totals[min(depth + 1, len(totals) - 1)]  # of the topmost it is not read: a single chunk has no carry
        launch("spread", levels[depth + 1], totals[depth], above)
    launch(stage + "scan", levels[0], *operands, totals[0] if totals else out, out, *indices)
    return (out, *indices) if extremum else out
