"""Radix sort of long rows, digit by digit, on devices with work-groups: in chunks with a scan of their counts, or in
one pass over the data for each digit where the device has operations of a warp.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from netcl.core.backend.opencl.kernels.sort_keys import keyed_program
from netcl.core.backend.opencl.kernels.warps.cleared import cleared
from netcl.core.backend.opencl.kernels.warps.look_back import WARP_TEMPLATES
from netcl.core.backend.opencl.templates import Traits, struct
from netcl.core.dtypes import itemsize
from netcl.core.storage.data import TensorData

_LEAST = 1 << 14  # elements of a long row
_SWEEP_GROUP = 256  # work-items of a group that looks back, one for each digit
_EACH, _EACH_WIDE, _EACH_ALONE = 16, 12, 32  # elements of a work-item; with keys of 64 bits; without positions
_SWEEP_CHUNKS_OF_UNIT = 8  # chunks per compute unit in the counting of digits
_MOST_SWEPT = 1 << 30  # a published sum has thirty bits
_GROUP, _WIDE_GROUP = 256, 128  # work-items of a group that sorts a chunk; for keys of 64 bits with positions
_EIGHT = 8  # elements that a work-item ranks in registers
_CHUNKS_OF_UNIT = 40  # chunks for each compute unit
_MOST = 1 << 31


class RadixSort(NamedTuple):
    """The sort of rows in tiles of ``group * each`` elements; ``warp`` is a row of the table of warps, with which a
    tile looks back, or empty.
    """

    warp: str
    group: int
    each: int  # elements of a work-item
    rows: int
    extent: int
    tiles: int  # of a row
    chunks: int  # of a row; with ``warp`` for the counting of digits alone
    length: int  # of a chunk


@lru_cache(maxsize=256)
def radix_sort(rows: int, extent: int, size: int, device: Traits, warp: str, alone: bool) -> RadixSort | None:
    """Returns the sort of rows of elements of ``size`` bytes, ``alone``: without positions; None if rows are short or
    too long, or the device has no room.
    """
    if device.is_cpu and not warp:
        return None
    key, place = max(size, 4), 0 if alone else 4
    if warp:
        group, each = _SWEEP_GROUP, _EACH_WIDE if size == 8 else _EACH_ALONE if alone else _EACH
        # Of an element the key and the place, of a warp counters of digits, a base and a digit for each work-item.
        local = group * (each * (key + place) + group // 32 * 4 + 8) + 16
        most, chunks_of_unit = _MOST_SWEPT, _SWEEP_CHUNKS_OF_UNIT
    else:
        group, each = _WIDE_GROUP if size == 8 and not alone else _GROUP, _EIGHT
        # Of a work-item nine keys, eight places and words, 16 counts and two sums; of 256 digits where they begin.
        local = group * (9 * (key + place) + 72) + 1024
        most, chunks_of_unit = _MOST, _CHUNKS_OF_UNIT
    if not _LEAST <= extent < most or device.group < group or local > device.local_memory:
        return None
    tile = group * each
    length = -(-extent // (max(1, device.units * chunks_of_unit // rows) * tile)) * tile
    return RadixSort(warp, group, each, rows, extent, -(-extent // tile), -(-extent // length), length)


def sort_long_rows(how: RadixSort, descending: bool, engine: Any, x: TensorData, *results: TensorData) -> None:
    """Writes the sorted values and, if ``results`` has two tensors, their positions."""
    alone, wide = len(results) == 1, itemsize(x.dtype) == 8
    passes, flip, local = 8 if wide else 4, -1 if descending else 0, (how.group,)
    keys = [engine.empty((x.size * (2 if wide else 1),), "int32") for _ in range(2)]
    places = [] if alone else [engine.empty((x.size,), "int32") for _ in range(2)]
    all_chunks, all_tiles = (how.rows * number * how.group for number in (how.chunks, how.tiles))
    if how.warp:
        carried = [
            cleared(engine, passes + how.rows * passes * 256),
            engine.empty((passes * how.rows * how.tiles * 256,), "int32"),
        ]
    else:
        carried = [engine.empty((how.rows, 256 * how.chunks), "int32")]
    for done in range(passes):
        first, final = done == 0, done == passes - 1
        argument = struct(how.rows, how.extent, how.tiles, how.chunks, how.length, done, flip)
        if first or not how.warp:
            text = counts_program(x.dtype, how.group, how.each, how.warp, first, alone)
            counted = x if first else keys[done % 2 == 0]
            engine.launch(text, "digit_counts", (all_chunks,), local, [counted, *carried, argument])
        sums = [] if how.warp else [engine.scan("sum", carried[0], axis=1)]
        text = tiles_program(x.dtype, how.group, how.each, how.warp, first, final, alone)
        buffers = [x, *carried, *sums, *keys, *places, *(results if final else ()), argument]
        engine.launch(text, "sort_tiles", (all_tiles if how.warp else all_chunks,), local, buffers)


def counts_program(dtype: str, group: int, each: int, warp: str, first: bool, alone: bool) -> str:
    """Returns the text of the kernel that counts digits; ``alone``: of values without positions."""
    numbers = {"GROUP": group, "EACH": each, "FIRST": int(first), "SWEPT": int(bool(warp))}
    return keyed_program(dtype, "sort_words", "sort_counts", values_only=alone, **numbers)


def tiles_program(dtype: str, group: int, each: int, warp: str, first: bool, final: bool, alone: bool) -> str:
    """Returns the text of the kernel of a pass."""
    names = ("sort_words", "group_sums", WARP_TEMPLATES[warp] if warp else "sort_sums", "sort_tiles")
    numbers = {"GROUP": group, "EACH": each, "FIRST": int(first), "FINAL": int(final), "SWEPT": int(bool(warp))}
    return keyed_program(dtype, *names, values_only=alone, **numbers)
