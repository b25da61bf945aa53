"""The first k of long rows without sorting them, on OpenCL devices."""

from __future__ import annotations

from math import prod
from typing import Any

from netcl.core.backend.opencl.kernels.scans.scan import scan
from netcl.core.backend.opencl.kernels.sort_keys import keyed_program
from netcl.core.backend.opencl.templates import Traits, largest_group, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.expr import Load, reduce
from netcl.core.storage.data import TensorData

_UNITS = 64  # work-items of a CPU
_THREADS = 1 << 16  # work-items that keep another device busy, one for a chunk
_GROUP = 256  # work-items that count a chunk together there
_GROUPS = 1 << 10  # groups of them
_SHORTEST = 256  # elements that are worth a chunk
_DIGITS = 256  # and work-items that select from a row together elsewhere
_LARGE_GROUP, _FOR_LARGE_GROUP = 1024, 1 << 14  # work-items of a row with so many elements
_LEAST_ROW = 257  # elements of a row from which on they do
_LONGEST_ROW = 1 << 17  # elements of few rows up to which they do for one position
_WORTH_CHUNKS = 1 << 14  # elements of a row that is worth several groups, if rows are few
_CHUNK, _CHUNKS_EACH = 1 << 12, 2  # elements of a group at least then, and groups for each compute unit
_INDEXED = (1 << 32) - 1 - _DIGITS  # elements of any row
_WORTH = 1 << 11  # the length of rows from which on this is faster than sorting them
_FEW = 16  # elements that a work-item of a CPU keeps in order while it goes along a row
_LONGEST = 1 << 11  # keys of a row that it keeps at once
_ALONE = {"ALONE": 1, "FEW": _FEW, "LONGEST": _LONGEST}


def worth(extent: int, wanted: int) -> bool:
    """True if selecting is faster than sorting."""
    return extent >= _WORTH and wanted * 4 <= extent


def are_few(rows: int, extent: int, wanted: int, device: Traits) -> bool:
    """True if ``few`` is faster than the alternatives: on a CPU with a row for each of its work-items."""
    return device.is_cpu and 0 < wanted <= min(_FEW, extent // 4) and rows >= _UNITS


def few(engine: Any, x: TensorData, wanted: int, descending: bool) -> tuple[TensorData, TensorData]:
    """Returns the first ``wanted`` values of each sorted row (last axis), in order, and their positions, int64."""
    shape = (*x.shape[:-1], wanted)
    values, indices = engine.empty(shape, x.dtype), engine.empty(shape, "int64")
    _row_by_row(engine, "few", x, wanted, descending, values, indices)
    return values, indices


def are_short(rows: int, extent: int, device: Traits) -> bool:
    """True if ``kth_of_row`` can be used: on a CPU, a row for each work-item, short enough to keep all keys."""
    return device.is_cpu and extent <= _LONGEST and rows >= _UNITS


def selects_rows(extent: int, wanted: int, device: Traits) -> bool:
    """True if work-groups for rows, or for chunks of them, are faster than the alternatives."""
    if device.is_cpu or device.group < _DIGITS or wanted > min(_DIGITS, extent // 4):
        return False
    return _LEAST_ROW <= extent <= _INDEXED


def selects_whole_rows(rows: int, extent: int, device: Traits) -> bool:
    """True if a work-group for each row is faster than the alternatives for one position."""
    return selects_rows(extent, 1, device) and (extent <= _LONGEST_ROW or rows >= device.units)


def first_of_rows(engine: Any, x: TensorData, wanted: int, descending: bool) -> tuple[TensorData, TensorData]:
    """Returns the first ``wanted`` values of each sorted row and their positions, by a work-group for each row. Few
    long rows are cut in chunks: the first elements of a row are selected among the first elements of its chunks.
    """
    rows, extent = prod(x.shape[:-1]), x.shape[-1]
    groups = -(-_CHUNKS_EACH * traits(engine).units // rows)
    chunks = 1 if extent < _WORTH_CHUNKS else max(1, min(groups, extent // max(_CHUNK, 32 * wanted)))
    values, indices = _first_of_chunks(engine, x, (), chunks, wanted, descending)
    return _first_of_chunks(engine, values, (indices,), 1, wanted, descending) if chunks > 1 else (values, indices)


def _first_of_chunks(
    engine: Any, x: TensorData, names: tuple[TensorData, ...], chunks: int, wanted: int, descending: bool
) -> tuple[TensorData, TensorData]:
    """Returns the first ``wanted`` values of each of the chunks of a row, and their positions in it, or ``names``."""
    shape = (*x.shape[:-1], chunks * wanted)
    values, indices = engine.empty(shape, x.dtype), engine.empty(shape, "int64")
    _group_by_row(engine, "first_of_rows", x, chunks, wanted, descending, *names, values, indices)
    return values, indices


def kth_of_rows(engine: Any, x: TensorData, positions: TensorData) -> TensorData:
    """Returns the index that ``kth`` returns, by a work-group for each row."""
    indices: TensorData = engine.empty(positions.shape, "int64")
    _group_by_row(engine, "kth_of_rows", x, 1, 1, False, positions, indices)
    return indices


def _group_by_row(
    engine: Any, kernel: str, x: TensorData, chunks: int, wanted: int, descending: bool, *buffers: TensorData
) -> None:
    groups, extent = prod(x.shape[:-1]) * chunks, -(-x.shape[-1] // chunks)
    group = _LARGE_GROUP if extent >= _FOR_LARGE_GROUP and traits(engine).group >= _LARGE_GROUP else _DIGITS
    argument = struct(x.shape[-1], chunks, wanted, -1 if descending else 0)
    each = 8 if extent >= 8 * group else 1
    named = {"NAMED": 1} if len(buffers) == 3 else {}
    text = keyed_program(x.dtype, "select_counts", "group_sums", "select_rows", GROUP=group, EACH=each, **named)
    engine.launch(text, kernel, (groups * group,), (group,), [x, *buffers, argument])


def kth_of_row(engine: Any, x: TensorData, positions: TensorData) -> TensorData:
    """Returns the index that ``kth`` returns, for many short rows."""
    indices: TensorData = engine.empty(positions.shape, "int64")
    _row_by_row(engine, "kth_of_row", x, 1, False, positions, indices)
    return indices


def _row_by_row(engine: Any, kernel: str, x: TensorData, wanted: int, descending: bool, *buffers: TensorData) -> None:
    *lead, extent = x.shape
    rows = prod(lead)
    share = -(-rows // _UNITS)
    argument = struct(rows, extent, extent, 1, share, 0, wanted, -1 if descending else 0)
    text = _program(x.dtype, traits(engine))
    engine.launch(text, kernel, (-(-rows // share),), (1,), [x, *buffers, argument])


def _program(dtype: str, device: Traits) -> str:
    """Returns the text of the kernels that select from chunks of rows, or on a CPU from whole rows."""
    numbers = _ALONE if device.is_cpu else {"GROUP": largest_group(_GROUP, device), "EACH": 1}
    return keyed_program(dtype, "select_counts", "select", **numbers)


def _chunks(rows: int, extent: int, units: int) -> tuple[int, int]:
    """Returns the number and length of the chunks of a row, so that there are about ``units`` in all."""
    length = max(min(_SHORTEST, extent), -(-extent * rows // units))
    return -(-extent // min(length, extent)), min(length, extent)


def first(engine: Any, x: TensorData, wanted: int, descending: bool) -> tuple[TensorData, TensorData]:
    """Returns the first ``wanted`` values of each sorted row and their positions, int64, in the row's order."""
    positions = engine.empty((*x.shape[:-1], 1), "int64")
    engine.fill(positions, wanted - 1)
    values, indices = engine.empty((*x.shape[:-1], wanted), x.dtype), engine.empty((*x.shape[:-1], wanted), "int64")
    _select(engine, x, positions, wanted, descending, "collect", values, indices)
    return values, indices


def kth(engine: Any, x: TensorData, positions: TensorData) -> TensorData:
    """Returns the index (..., 1) of the element that ``sort`` moves to position (..., 1) of each row, both int64."""
    indices: TensorData = engine.empty(positions.shape, "int64")
    _select(engine, x, positions, 1, False, "kth", indices)
    return indices


def _select(
    engine: Any, x: TensorData, positions: TensorData, wanted: int, descending: bool, name: str, *results: TensorData
) -> None:
    *lead, extent = x.shape
    rows, device = prod(lead), traits(engine)
    text = _program(x.dtype, device)
    fewer = _chunks(rows, extent, _UNITS if device.is_cpu else _GROUPS)
    many = fewer if device.is_cpu else _chunks(rows, extent, _THREADS)

    def launch(kernel: str, chunks: tuple[int, int], shift: int, *buffers: Any) -> None:
        units, group, share = rows if kernel in ("begin", "choose") else rows * chunks[0], 1, 1
        if device.is_cpu and kernel not in ("begin", "choose"):
            share = -(-units // _UNITS)
        elif kernel == "digits":
            group = largest_group(_GROUP, device)
        size = -(-units // share) * group
        local = (group,) if device.is_cpu or group > 1 else None
        argument = struct(rows, extent, chunks[1], chunks[0], share, shift, wanted, -1 if descending else 0)
        engine.launch(text, kernel, (size,), local, [*buffers, argument])

    selected = engine.empty((rows, 2), "int64")
    launch("begin", fewer, 0, positions, selected)
    counts = engine.empty((rows, fewer[0], _DIGITS), "int32")
    # The keys of 16-bit floats are float32's, and the keys of bytes as long.
    for shift in range(56 if itemsize(x.dtype) == 8 else 24, -8, -8):
        launch("digits", fewer, shift, x, selected, counts)
        (totals,) = engine.run((reduce("sum", Load(0, "int32"), (1,)),), (counts,), shapes=((rows, 1, _DIGITS),))
        launch("choose", fewer, shift, totals, selected)
    ranks = engine.empty((rows, many[0], 2), "int64")
    launch("ranks", many, 0, x, selected, ranks)
    sums = scan(engine, "sum", ranks, axis=1)
    launch(name, many, 0, x, selected, sums, *results)
