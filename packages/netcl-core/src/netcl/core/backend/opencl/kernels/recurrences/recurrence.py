"""Recurrent nets on OpenCL devices: all steps in one launch, unless a GPU has to read a large weight at each step."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from netcl.core.backend.opencl.kernels.recurrences.recurrence_cells import CELLS, Cell, cell_parts
from netcl.core.backend.opencl.templates import Traits, filled_program, struct, traits
from netcl.core.device.capabilities import profile_of
from netcl.core.dtypes import itemsize
from netcl.core.engine.lasting import lasting_or_new
from netcl.core.layout import contiguous_strides
from netcl.core.storage.data import TensorData

GATES = {kind: cell.gates for kind, cell in CELLS.items()}
# Rows of a tile of so many vectors, by the registers of the processor.
_ROWS_OF_16 = {4: 3, 3: 4, 2: 6, 1: 8}
_ROWS_OF_32 = {4: 4, 3: 8, 2: 8, 1: 8}
# Of groups that run all steps: bytes of a weight, rows of the batch, and work-items that share a unit.
_LARGEST_WEIGHT = 4 << 20
_MOST_ROWS = 4
_MOST_PARTS = 8


class _Tile(NamedTuple):
    """The register tile of a kernel: ``rows`` of the batch times ``wide`` vectors of ``lanes`` units."""

    lanes: int
    rows: int
    wide: int


def _lanes(device: Traits, dtype: str, hidden: int) -> int:
    widest = device.vector // (2 if dtype == "float64" else 1)
    return 1 << (min(widest, hidden).bit_length() - 1)


def _tiles(device: Traits, dtype: str, kind: str, n: int, hidden: int) -> tuple[_Tile, _Tile]:
    """Returns the tiles of the forward and of the backward pass."""
    if not device.is_cpu:
        return _Tile(1, 1, GATES[kind]), _Tile(1, 1, 1)
    lanes = _lanes(device, dtype, hidden)
    wide_registers = device.vector == 16
    most = 4 if wide_registers else 2
    pairs = next(count for count in (4, 2, 1) if count <= most and (count == 1 or hidden >= count * lanes))
    wide = GATES[kind] if GATES[kind] > 1 else pairs
    # Twelve sums leave four of sixteen registers to the weights and to the row. With 32 registers 16 sums are faster
    # than 24: with 24, the last rows of a batch of a power of two are computed twice.
    rows = _ROWS_OF_32 if wide_registers else _ROWS_OF_16
    few = n <= 2
    return _Tile(lanes, 1 if few else rows[wide], wide), _Tile(lanes, 1 if few else rows[pairs], pairs)


@lru_cache(maxsize=256)
def _program(dtype: str, kind: str, forth: _Tile, back: _Tile) -> str:
    cell, lanes = CELLS[kind], forth.lanes
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1), ("GATES", cell.gates), ("VECTOR", lanes)]
    if lanes == 1:
        defines += [("REALV", "REAL"), ("GLOAD(p)", "(*(p))"), ("GSTORE(x, p)", "(*(p) = (x))")]
    defines += _tile_sizes(cell, forth.rows, forth.wide, back.rows, back.wide)
    defines.append(("TILE_UNITS", f"({forth.wide} * {lanes})" if cell.gates == 1 else lanes))
    defines.append(("BACK_UNITS", f"({back.wide} * {lanes})"))
    names = ("storage", "contract_recurrence_walk", "contract_recurrence")
    return filled_program(names, tuple(defines), cell_parts(cell))


def _tile_sizes(cell: Cell, rows: int, wide: int, back_rows: int, back_wide: int) -> list[tuple[str, object]]:
    """Returns the definitions of tiles of accumulators: their rows and vectors, and the places of vectors."""
    place, weight = ("VECTOR", "VECTOR") if cell.gates == 1 else ("g.hidden", "g.weight_gate")
    places = [("PLACE(j)", f"((j) * {place})"), ("WEIGHT(j)", f"((j) * {weight})")]
    return [("ROWS", rows), ("WIDE", wide), ("BACK_ROWS", back_rows), ("BACK_WIDE", back_wide), *places]


class _Group(NamedTuple):
    """The rows of the batch of a group, and the work-items that share a unit."""

    rows: int
    split: int


def _group(device: Traits, dtype: str, kind: str, n: int, hidden: int) -> _Group | None:
    """Returns the groups that run all steps on a GPU; None on a CPU, and for a weight too large to read at a step."""
    size = itemsize(dtype)
    if device.is_cpu or hidden > device.group or GATES[kind] * hidden * hidden * size > _LARGEST_WEIGHT:
        return None
    rows = max(1, min(_MOST_ROWS, ceil(n / device.units)))
    shared = rows * GATES[kind] * hidden * size
    return _Group(rows, max(1, min(_MOST_PARTS, device.group // hidden, 1 + device.local_memory // shared)))


@lru_cache(maxsize=256)
def _group_program(dtype: str, kind: str, hidden: int, group: _Group) -> str:
    cell, rows, split = CELLS[kind], group.rows, group.split
    defines: list[tuple[str, object]] = [
        (f"DTYPE_{dtype.upper()}", 1), ("GATES", cell.gates), ("VECTOR", 1), ("REALV", "REAL"),
        ("GLOAD(p)", "(*(p))"), ("GSTORE(x, p)", "(*(p) = (x))"), *_tile_sizes(cell, rows, cell.gates, rows, 1),
        ("HIDDEN", hidden), ("SPLIT", split), ("OTHERS", split - 1), ("MORE", split - 2),
        ("CHUNK", ceil(hidden / split)),
    ]  # fmt: skip
    names = ("storage", "contract_recurrence_walk", "contract_recurrence_groups")
    return filled_program(names, tuple(defines), cell_parts(cell))


def _split(engine: Any, tile: _Tile, n: int, hidden: int) -> tuple[tuple[int, int], int, int]:
    """Returns the global size, and the rows and units of a work-item."""
    if not traits(engine).is_cpu:
        return (hidden, ceil(n / tile.rows)), tile.rows, 1
    items = min(profile_of(engine.queue).compute_units, ceil(n / tile.rows))
    rows = ceil(n / items)
    return (1, ceil(n / rows)), rows, hidden


class _Weight(NamedTuple):
    """The weight as a kernel reads it, and its strides from a unit, a step of the sum and a gate to the next."""

    data: TensorData
    strides: tuple[int, int, int]


def _forth(engine: Any, weight: TensorData, tile: _Tile) -> _Weight:
    """Returns the weight (gates * hidden, hidden) as (hidden, gates * hidden), a matrix per tile if all are whole."""
    (rows, hidden), gates = weight.shape, weight.shape[0] // weight.shape[1]
    units = tile.lanes * (tile.wide if gates == 1 else 1)
    if tile.lanes == 1 or hidden % units:
        turned = _copied(engine, weight, (hidden, rows), (1, hidden))
        return _Weight(turned, (1, rows, hidden))
    shape, strides = (hidden // units, hidden, gates, units), (units * hidden, 1, hidden * hidden, hidden)
    return _Weight(_copied(engine, weight, shape, strides), (rows, gates * units, units))


def _back(engine: Any, weight: TensorData, tile: _Tile, steps: int) -> _Weight:
    """Returns the weight (gates * hidden, hidden), a matrix per tile if all are whole and several steps share it."""
    (rows, hidden), units = weight.shape, tile.lanes * tile.wide
    if tile.lanes == 1 or hidden % units or steps == 1:
        return _Weight(weight, (1, hidden, 0))
    return _Weight(_copied(engine, weight, (hidden // units, rows, units), (units, hidden, 1)), (rows, units, 0))


def _copied(engine: Any, weight: TensorData, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorData:
    def fill(result: TensorData) -> None:
        engine.copy(
            weight, result, shape=shape, source_strides=strides, source_offset=0,
            out_strides=contiguous_strides(shape), out_offset=0,
        )  # fmt: skip

    return lasting_or_new(engine, weight, ("turned", shape, strides), shape, weight.dtype, fill)


def recurrence(
    engine: Any,
    kind: str,
    x: TensorData,
    weight: TensorData,
    state: TensorData,
    bias: TensorData | None,
    cell: TensorData | None,
    reverse: bool,
    keeps: bool = True,
) -> tuple[TensorData, TensorData, TensorData]:
    """Computes all steps of a net of ``kind`` (see ``DeviceBackend.recurrence``)."""
    steps, n, _ = x.shape
    hidden = state.shape[-1]
    device, dtype = traits(engine), x.dtype
    out = engine.empty((steps, n, hidden), dtype)
    cells = engine.empty((steps, n, hidden) if kind == "lstm" else (0,), dtype)
    keeps = keeps and kind in ("lstm", "gru")
    kept = engine.empty((steps, n, 4 * hidden) if keeps else (0,), dtype)
    if out.size == 0:
        return out, cells, kept
    forth, back = _tiles(device, dtype, kind, n, hidden)
    turned = _forth(engine, weight, forth)
    buffers = [x, turned.data, x if bias is None else bias, state, state if cell is None else cell]
    has_bias = (int(bias is not None), int(keeps), 0, 0)
    group = _group(device, dtype, kind, n, hidden)
    if group is not None:
        argument = struct(steps, n, hidden, int(reverse), 0, 0, 0, 0, has_bias, turned.strides)
        text = _group_program(dtype, kind, hidden, group)
        engine.launch(text, "forward", *_groups(group, n, hidden), [*buffers, out, cells, kept, argument])
        return out, cells, kept
    text = _program(dtype, kind, forth, back)
    size, rows, units = _split(engine, forth, n, hidden)
    for first, last in [(0, steps - 1)] if device.is_cpu else [(step, step) for step in range(steps)]:
        argument = struct(steps, n, hidden, int(reverse), first, last, rows, units, has_bias, turned.strides)
        engine.launch(text, "forward", size, (1, 1) if device.is_cpu else None, [*buffers, out, cells, kept, argument])
    return out, cells, kept


def _groups(group: _Group, n: int, hidden: int) -> tuple[tuple[int], tuple[int]]:
    """Returns the global and the local size."""
    items = hidden * group.split
    return (items * ceil(n / group.rows),), (items,)


def recurrence_back(
    engine: Any,
    kind: str,
    weight: TensorData,
    state: TensorData,
    cell: TensorData | None,
    out: TensorData,
    cells: TensorData,
    kept: TensorData,
    by_out: TensorData | None,
    by_cells: TensorData | None,
    reverse: bool,
) -> tuple[TensorData, TensorData, TensorData, TensorData]:
    """Computes the gradients of ``recurrence`` (see ``DeviceBackend.recurrence_back``)."""
    steps, n, hidden = out.shape
    device, dtype = traits(engine), out.dtype
    by_sum = engine.empty((steps, n, GATES[kind] * hidden), dtype)
    by_x = engine.empty(by_sum.shape, dtype) if kind == "gru" else by_sum
    by_state = engine.empty((n, hidden), dtype)
    by_cell = engine.empty((n, hidden) if kind == "lstm" else (0,), dtype)
    if out.size == 0:
        return by_x, by_sum, by_state, by_cell
    forth, back = _tiles(device, dtype, kind, n, hidden)
    carry = engine.empty((2, n, hidden), dtype)
    tiled = _back(engine, weight, back, steps)
    buffers = [tiled.data, state, state if cell is None else cell, out, cells, kept]
    buffers += [out if grad is None else grad for grad in (by_out, by_cells)]
    buffers += [by_x, by_sum, by_state, by_cell, carry]
    has_gradients = [int(grad is not None) for grad in (by_out, by_cells)]
    group = _group(device, dtype, kind, n, hidden)
    if group is not None:
        argument = struct(steps, n, hidden, int(reverse), 0, 0, 0, 0, 0, 0, has_gradients, tiled.strides)
        text = _group_program(dtype, kind, hidden, group)
        engine.launch(text, "backward", *_groups(group, n, hidden), [*buffers, argument])
        return by_x, by_sum, by_state, by_cell
    text = _program(dtype, kind, forth, back)
    size, rows, units = _split(engine, back, n, hidden)
    for first, last in [(steps - 1, -1)] if device.is_cpu else [(step, step) for step in range(steps - 1, -2, -1)]:
        argument = struct(steps, n, hidden, int(reverse), first, last, rows, units, 0, 0, has_gradients, tiled.strides)
        engine.launch(text, "backward", size, (1, 1) if device.is_cpu else None, [*buffers, argument])
    return by_x, by_sum, by_state, by_cell
