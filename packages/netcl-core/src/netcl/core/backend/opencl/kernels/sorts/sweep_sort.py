"""Radix sort of long rows in one pass over the data for each digit, on devices with operations of a warp."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.kernels.sorts.sort_keys import keyed_program
from netcl.core.backend.opencl.kernels.warps.cleared import cleared
from netcl.core.backend.opencl.kernels.warps.look_back import WARP_TEMPLATES
from netcl.core.backend.opencl.templates import Traits, struct
from netcl.core.dtypes import itemsize

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_GROUP = 256  # work-items of a group, one for each digit
_EACH, _EACH_WIDE, _EACH_ALONE = 16, 12, 32  # elements of a work-item; with keys of 64 bits; without positions
_CHUNKS_OF_UNIT = 8  # chunks per compute unit in the counting of digits
_LEAST = 1 << 14  # elements of a long row
_MOST = 1 << 30  # a published sum has thirty bits


class SweepSort(NamedTuple):
    """The sort of rows in tiles; ``warp`` is a row of the table of warps."""

    warp: str
    rows: int
    extent: int
    each: int  # elements of a work-item
    tiles: int  # of a row
    chunks: int  # of a row, for the counting of digits
    length: int  # of a chunk


@lru_cache(maxsize=256)
def sweep_sort(rows: int, extent: int, size: int, device: Traits, warp: str, alone: bool) -> SweepSort | None:
    """Returns the sort of rows of elements of ``size`` bytes, ``alone``: without positions; None if rows are short or
    too long, or the device has no room.
    """
    each = _EACH_WIDE if size == 8 else _EACH_ALONE if alone else _EACH
    # Of an element the key and the place, of a warp counters of digits, a base and a digit for each work-item.
    local = _GROUP * (each * (max(size, 4) + (0 if alone else 4)) + _GROUP // 32 * 4 + 8) + 16
    if not _LEAST <= extent < _MOST or device.group < _GROUP or local > device.local_memory:
        return None
    tile = _GROUP * each
    length = -(-extent // (max(1, device.units * _CHUNKS_OF_UNIT // rows) * tile)) * tile
    return SweepSort(warp, rows, extent, each, -(-extent // tile), -(-extent // length), length)


def sweep_blocks(how: SweepSort, descending: bool, engine: Any, x: TensorData, *results: TensorData) -> None:
    """Writes the sorted values and, if ``results`` has two tensors, their positions."""
    alone, wide = len(results) == 1, itemsize(x.dtype) == 8
    passes = 8 if wide else 4
    work = cleared(engine, passes + how.rows * passes * 256)
    words = engine.empty((passes * how.rows * how.tiles * 256,), "int32")
    keys = [engine.empty((x.size * (2 if wide else 1),), "int32") for _ in range(2)]
    places = [] if alone else [engine.empty((x.size,), "int32") for _ in range(2)]

    def argument(done: int) -> Any:
        flip = -1 if descending else 0
        return struct(how.rows, how.extent, how.tiles, how.chunks, how.length, done, flip)

    counting = (how.rows * how.chunks * _GROUP,)
    text = counts_program(x.dtype, how.each, alone)
    engine.launch(text, "digit_counts", counting, (_GROUP,), [x, work, words, argument(0)])
    for done in range(passes):
        first, final = done == 0, done == passes - 1
        text = sweep_program(x.dtype, how.each, how.warp, first, final, alone)
        buffers = [x, work, words, *keys, *places, *(results if final else ()), argument(done)]
        engine.launch(text, "digit_sweep", (how.rows * how.tiles * _GROUP,), (_GROUP,), buffers)


def counts_program(dtype: str, each: int, alone: bool) -> str:
    """Returns the text of the kernel that counts digits; ``alone``: of values without positions."""
    names = ("sort_sweep_keys", "sort_sweep_counts")
    return keyed_program(dtype, *names, values_only=alone, GROUP=_GROUP, EACH=each)


def sweep_program(dtype: str, each: int, warp: str, first: bool, final: bool, alone: bool) -> str:
    """Returns the text of the kernel of a pass."""
    names = ("sort_sweep_keys", "group_sums", WARP_TEMPLATES[warp], "sort_sweep")
    ends = {"FIRST": int(first), "FINAL": int(final)}
    return keyed_program(dtype, *names, values_only=alone, GROUP=_GROUP, EACH=each, **ends)
