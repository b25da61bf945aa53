"""Runs contractions by the blocked kernels for CPUs: GEMM with A packed or in place."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.cpu.transposes import transposes_text
from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, OperandLayout, members, operand_parts
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.storage import value_dtype
from netcl.core.backend.opencl.templates import Traits, filled_program, struct, traits
from netcl.core.engine.lasting import lasting_or_new
from netcl.core.tuning.candidates import CONTRACTIONS
from netcl.core.tuning.problems import Contraction, Levels
from netcl.core.tuning.tiles import cpu_tile

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

_IN_PLACE = 1 << 18  # elements of a matrix A that is read without packing
_ENOUGH_UNITS = 16  # work-items that keep the cores of a CPU busy
_SMALL_UNITS, _LARGE_UNITS = (1 << 22, 4), (1 << 26, 64)  # below and above so many products, so many work-items
_UNITS_OF_A_CORE = 16  # work-items for each compute unit above that number of products
# Each chunk of rows gathers the columns of B again if columns are gathered: all, or between two small images. So a
# chunk may be larger by this factor than the number of work-items requires, up to _ENOUGH_TILES tiles.
_GATHERED, _BETWEEN_IMAGES, _SMALL_IMAGE, _ENOUGH_TILES = 4, 2, 256, 64
_LEAST_SPLIT = 1024  # least products of a partial sum
_TOGETHER = 4  # tiles that a work-item packs at a time, see contract_cpu.cl
_CONVERTED_IN_PLACE = 1 << 17  # most products with A converted at each use
_FEW_ROWS = 4  # rows up to which the CPU kernel has a smaller tile
# The vector of values of an operand, for contract_cpu.cl.
_LAYOUT = "g.operands[{i}]"
_OPERAND = (
    f"operand_vector(e{{k}} + {_LAYOUT}.offset + row * {_LAYOUT}.row + outer * {_LAYOUT}.batch[0]"
    f" + inner * {_LAYOUT}.batch[1], {_LAYOUT}.along, strip_index * COLUMNS, to, to_runs, columns, v)"
)


class CpuKernel(NamedTuple):
    """One instance of the CPU template."""

    text: str
    rows: int
    columns: int
    depth: int
    chunk: int
    most_units: int  # work-items of large contractions


@lru_cache(maxsize=1024)
def _has_few_rows(c: Contraction) -> bool:
    return c.m <= _FEW_ROWS and c.m * prod(c.k) * prod(c.n) >= _SMALL_UNITS[0]


@lru_cache(maxsize=64)
def cpu_program(
    device: Traits,
    dtype: str,
    epilogue: str = "",
    operands: int = 1,
    few: bool = False,
    roles: tuple[tuple[str, int], ...] = (),
) -> CpuKernel:
    """Returns the CPU template for a dtype: 6 x 16 sums fit 16 registers of 8 lanes, 8 x 32 fit 32 registers of 16;
    with ``few`` rows, such as the channels of pictures, 4.

    ``epilogue``: the text of the function of that name, which takes the sum and ``operands`` values. ``roles``: the
    definitions for operands of another storage.
    """
    tile = cpu_tile(device, dtype, few)
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", tile.vector), ("ROWS", tile.rows), ("VECTORS", 2),
        ("DEPTH", tile.depth), ("CHUNK", tile.chunk), ("OPERANDS", operands), *roles,
    )  # fmt: skip
    parts = {**operand_parts(epilogue, operands, "REALV", _OPERAND), "transposes": transposes_text(tile.vector)}
    text = filled_program(("storage", *CONTRACTIONS["rows"].parts), defines, parts, epilogue)
    return CpuKernel(text, *tile[1:], _UNITS_OF_A_CORE * device.units)


def _merge_levels(extents: Levels, strides: Levels, enough: bool) -> tuple[Levels, Levels]:
    # Levels that follow each other without a gap are merged. Work is distributed over the outermost level, so it is
    # kept free if there is enough work without it.
    levels = [(e, s) for e, s in zip(extents, strides) if e != 1] or [(1, 0)]
    joined = [levels.pop()]
    while levels:
        e, s = levels.pop()
        if s == joined[0][0] * joined[0][1]:
            joined[0] = (e * joined[0][0], joined[0][1])
        else:
            joined.insert(0, (e, s))
    if len(joined) == 4 or (len(joined) > 1 and not enough):
        joined[1:1] = [(1, 0)] * (4 - len(joined))
    else:
        joined[0:0] = [(1, 0)] * (4 - len(joined))
    return tuple(e for e, _ in joined), tuple(s for _, s in joined)  # type: ignore[return-value]


class _Packing(NamedTuple):
    global_size: tuple[int, int, int]
    size: int
    argument: Any
    a_batch: tuple[int, int]


@lru_cache(maxsize=1024)
def _packing(c: Contraction, program: CpuKernel) -> _Packing:
    tiles = -(-c.m // program.rows)
    k = prod(c.k)
    panel = tiles * program.rows * k
    batch = tuple(count if stride else 1 for count, stride in zip(c.batch, c.a_batch))
    extents, strides = _merge_levels(c.k, c.a_k, tiles * prod(batch) >= _ENOUGH_UNITS)
    # Rows that are contiguous are read several tiles at a time, in whole cache lines.
    together = _TOGETHER if c.a_row == 1 and prod(extents[:3]) == 1 and strides[3] != 1 else 1
    argument = struct(c.m, c.a_row, tiles, together, k, batch[1], c.a_offset, c.a_batch, extents, strides)
    a_batch = (batch[1] * panel if c.a_batch[0] else 0, panel if c.a_batch[1] else 0)
    return _Packing((extents[0], -(-tiles // together), prod(batch)), panel * prod(batch), argument, a_batch)


def _units(products: int, most: int) -> int:
    """Returns the number of work-items for ``products``: few cost less to start and copy B less often, many balance the
    load of the cores.
    """
    (few, least), (many, _) = _SMALL_UNITS, _LARGE_UNITS
    return least if products < few else max(most, _ENOUGH_UNITS) if products > many else _ENOUGH_UNITS


class RowStrides(NamedTuple):
    """The strides of A in the CPU kernel, from a row, a step of k and a tile of rows to the next, and its offset;
    ``stored`` is its dtype if that is not the computing type.
    """

    row: int
    k: int
    tile: int
    batch: tuple[int, int]
    offset: int
    stored: str = ""


@lru_cache(maxsize=1024)
def rows_in_place(c: Contraction, program: CpuKernel, dtype: str) -> RowStrides | None:
    """Returns the strides of A without packing; None if k has gaps, if A exceeds the caches, or if it must be converted
    and is used too often for that.
    """
    levels = [(extent, step) for extent, step in zip(c.k, c.a_k) if extent != 1] or [(1, 0)]
    evenly = all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(levels))
    if not evenly or c.m * prod(c.k) > _IN_PLACE:
        return None
    stored = "" if dtype == compute_dtype(dtype) else dtype
    if stored and c.m * prod(c.k) * prod(c.n) * prod(c.batch) > _CONVERTED_IN_PLACE:
        return None
    return RowStrides(c.a_row, levels[-1][1], program.rows * c.a_row, c.a_batch, c.a_offset, stored)


def _packed_rows(c: Contraction, program: CpuKernel) -> RowStrides:
    batch = _packing(c, program).a_batch
    return RowStrides(1, program.rows, program.rows * prod(c.k), batch, 0)


def _gathering(c: Contraction) -> int:
    """Returns the factor of a chunk's rows for gathering columns of B."""
    step = next((step for extent, step in zip(reversed(c.n), reversed(c.b_n)) if extent > 1), 1)
    if step != 1:
        return _GATHERED
    return _BETWEEN_IMAGES if c.n[0] > 1 and prod(c.n[1:]) < _SMALL_IMAGE else 1


@lru_cache(maxsize=1024)
def _launch_of(
    c: Contraction,
    program: CpuKernel,
    a: RowStrides,
    splits: int,
    out_part: int,
    operands: tuple[OperandLayout, ...] | None,
) -> tuple[int, Any]:
    tiles = -(-c.m // program.rows)
    k, n = prod(c.k), prod(c.n)
    strips = -(-n // program.columns)
    others = strips * splits * prod(c.batch)
    # Sums of one stretch of k need not wait for another, so a chunk may then hold all rows.
    most = tiles if -(-k // splits) <= program.depth else program.chunk
    chunk = max(1, min(most, tiles * others // _units(c.m * n * k * prod(c.batch), program.most_units)))
    chunk = max(chunk, min(most, _ENOUGH_TILES, _gathering(c) * chunk))
    chunks = -(-tiles // chunk)
    chunk = -(-tiles // chunks)  # of even size
    split = -(-k // splits) if k else 1
    k_levels, b_k = _merge_levels(c.k, c.b_k, True)
    argument = struct(
        c.m, k, n, chunk, chunks, strips, splits, split, c.batch[1], int(c.accumulate), int(c.partial),
        a.row, a.k, a.tile, a.batch, c.b_batch, c.out_batch, a.offset, c.b_offset, c.out_offset, c.out_row, out_part,
        k_levels, b_k, c.n, c.b_n, c.out_n, int(operands is not None), members(operands),
    )  # fmt: skip
    return others * chunks, argument


def rows_for(engine: Any, c: Contraction, a: TensorData, variant: str | None = None) -> tuple[TensorData, RowStrides]:
    """Returns the tensor that the CPU kernel reads as A, and its strides: A itself if possible and ``variant`` is not
    "packed".
    """
    strides = None if variant == "packed" else row_strides(engine, c, a.dtype)
    if strides is not None:
        return a, strides
    program = cpu_program(traits(engine), a.dtype, few=_has_few_rows(c))
    return _pack(engine, c, program, a), _packed_rows(c, program)


def _pack(engine: Any, c: Contraction, program: CpuKernel, a: TensorData) -> TensorData:
    """Returns a in panels of rows for the CPU kernel, in the computing type."""
    plan = _packing(c, program)

    def fill(panels: TensorData) -> None:
        if plan.size:
            engine.launch(program.text, "pack_rows", plan.global_size, (1, 1, 1), [a, panels, plan.argument])

    return lasting_or_new(engine, a, ("panels", c, program.rows), (plan.size,), compute_dtype(a.dtype), fill)


def contract_rows(
    engine: Any,
    c: Contraction,
    a: tuple[TensorData, RowStrides],
    b: TensorData,
    out: TensorData,
    *,
    splits: int = 1,
    out_part: int = 0,
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs the CPU kernel on the result of ``rows_for``; writes part s of the ``splits`` of k to ``out`` + s *
    ``out_part``.
    """
    x, strides = a
    # The dtype of the numbers; a widened B and partial sums have another.
    dtype = value_dtype(strides.stored or (b.dtype if c.partial else out.dtype))
    roles = tuple((f"{role}_IN_FLOAT32", 1) for role, y in (("B", b), ("OUT", out)) if y.dtype != value_dtype(y.dtype))
    if b.dtype == compute_dtype(dtype) != dtype:
        roles = (("B_WIDENED", 1), *roles)
    if strides.stored:
        in_float32 = (("A_IN_FLOAT32", 1),) if strides.stored != value_dtype(strides.stored) else ()
        roles = (("A_STORED", 1), *in_float32, *roles)
    text, operands, layouts = fused or ("", (), None)
    program = cpu_program(traits(engine), dtype, text, max(1, len(operands)), _has_few_rows(c), roles)
    units, argument = _launch_of(c, program, strides, splits, out_part, layouts)
    engine.launch(program.text, "contract", (units,), (1,), [x, b, out, argument, *(operands or (b,))])


def row_strides(engine: Any, c: Contraction, dtype: str) -> RowStrides | None:
    """Returns the strides of A if the CPU kernel reads it in place, else None."""
    return rows_in_place(c, cpu_program(traits(engine), dtype, few=_has_few_rows(c)), dtype)


def splits_for(engine: Any, c: Contraction, dtype: str) -> int:
    """Returns the number of partial sums (split-K) of a long k, if the output has too few tiles for the cores."""
    program = cpu_program(traits(engine), value_dtype(dtype))
    units = -(-prod(c.n) // program.columns) * -(-c.m // program.rows) * prod(c.batch)
    return max(1, min(_ENOUGH_UNITS // max(units, 1), prod(c.k) // _LEAST_SPLIT))
