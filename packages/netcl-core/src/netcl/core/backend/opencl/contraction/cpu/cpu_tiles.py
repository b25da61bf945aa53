"""Runs contractions on OpenCL devices: by blocked kernels for CPUs (packed or in-place GEMM, depthwise), or by the
variant that is chosen. Matrix products and convolutions share them.

If a driver does not build a template, the engine's fallback uses the plain one (``variant="plain"``: a loop per
output).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.cpu.transposes import transposes_text
from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, OperandLayout, members, operand_parts
from netcl.core.backend.opencl.contraction.gpu import gpu_tiles as gpu
from netcl.core.backend.opencl.contraction.gpu import implicit_gemm, skinny
from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import matrices_of_result, reduce_partials
from netcl.core.backend.opencl.contraction.problem import ProductLaunch, compute_dtype, strides_argument
from netcl.core.backend.opencl.storage import value_dtype
from netcl.core.backend.opencl.templates import Traits, filled, source, struct, traits
from netcl.core.tuning.matrix_units import tile_of as tile_of_unit
from netcl.core.tuning.problems import Contraction, Levels
from netcl.core.tuning.selector import GEMV_VARIANTS, contraction_kernel, possible
from netcl.core.tuning.tiles import cpu_tile
from netcl.core.tuning.unit_table import UNITS

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

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
_DEPTHWISE_MOST = 64  # terms or columns of the kernels for depthwise convolutions


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
    names = ("storage", "roles", "contract_operands", "contract_registers", "contract_cpu")
    text = filled(source(names, defines), parts) + epilogue
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
    panels: TensorData = engine.empty((plan.size,), compute_dtype(a.dtype))
    if plan.size:
        engine.launch(program.text, "pack_rows", plan.global_size, (1, 1, 1), [a, panels, plan.argument])
    return panels


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
    tensors, splitting = (a[0], b, out), (splits, out_part)
    # The dtype of the numbers; a widened B and partial sums have another.
    dtype = value_dtype(a[1].stored or (b.dtype if c.partial else out.dtype))
    roles = tuple((f"{role}_IN_FLOAT32", 1) for role, x in (("B", b), ("OUT", out)) if x.dtype != value_dtype(x.dtype))
    if b.dtype == compute_dtype(dtype) != dtype:
        roles = (("B_WIDENED", 1), *roles)
    engine.launch(*rows_launch(engine, c, tensors, dtype, a[1], fused, splitting, roles))


def rows_launch(
    engine: Any,
    c: Contraction,
    tensors: Sequence[Any],
    dtype: str,
    strides: RowStrides,
    fused: FusedEpilogue | None,
    splitting: tuple[int, int] = (1, 0),
    roles: tuple[tuple[str, int], ...] = (),
) -> ProductLaunch:
    """Returns the launch of the CPU kernel on ``tensors`` (A with ``strides``, B of ``dtype`` and the result) or their
    placeholders; ``splitting``: the number of partial sums, and the elements from one to the next; ``roles``: the
    definitions for a B and a result that are stored in float32.
    """
    text, operands, layouts = fused or ("", (), None)
    if strides.stored:
        in_float32 = (("A_IN_FLOAT32", 1),) if strides.stored != value_dtype(strides.stored) else ()
        roles = (("A_STORED", 1), *in_float32, *roles)
    program = cpu_program(traits(engine), dtype, text, max(1, len(operands)), _has_few_rows(c), roles)
    units, argument = _launch_of(c, program, strides, *splitting, layouts)
    return ProductLaunch(program.text, "contract", (units,), (1,), [*tensors, argument, *(operands or tensors[1:2])])


def row_strides(engine: Any, c: Contraction, dtype: str) -> RowStrides | None:
    """Returns the strides of A if the CPU kernel reads it in place, else None."""
    return rows_in_place(c, cpu_program(traits(engine), dtype, few=_has_few_rows(c)), dtype)


def splits_for(engine: Any, c: Contraction, dtype: str) -> int:
    """Returns the number of partial sums (split-K) of a long k, if the output has too few tiles for the cores."""
    program = cpu_program(traits(engine), value_dtype(dtype))
    units = -(-prod(c.n) // program.columns) * -(-c.m // program.rows) * prod(c.batch)
    return max(1, min(_ENOUGH_UNITS // max(units, 1), prod(c.k) // _LEAST_SPLIT))


@lru_cache(maxsize=64)
def _depthwise_program(device: Traits, dtype: str) -> str:
    vector = device.vector // 2 if dtype == "float64" else device.vector
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("VECTOR", vector), ("MOST", _DEPTHWISE_MOST))
    return source(("storage", "contract_strides", "contract_depthwise"), defines)


def _contract_depthwise(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, variant: str
) -> None:
    text = _depthwise_program(traits(engine), a.dtype)
    rows = c.m * prod(c.batch)
    if variant == "taps":
        engine.launch(text, "taps", (rows,), (1,), [a, b, out, strides_argument(c)])
        return
    runs = rows * prod(c.n[:3])
    each = -(-runs // _LARGE_UNITS[1])
    arguments = [a, b, out, strides_argument(c), np.int64(runs), np.int64(each)]
    engine.launch(text, "planes", (-(-runs // each),), (1,), arguments)


def epilogue_lanes(engine: Any, c: Contraction, out: TensorData, variant: str | None) -> int:
    """Returns the vector width of an epilogue that ``contract`` can fuse; 0 if it cannot: the kernel has no epilogue
    (such as ``plain``), or with split-K the results are not adjacent matrices.
    """
    if variant in GEMV_VARIANTS:
        return 1
    device = traits(engine)
    variant = possible(device, c, variant or contraction_kernel(device, c))
    if _splits(engine, c, out, variant) > 1:
        return int(matrices_of_result(c) is not None)
    if variant in ("rows", "packed"):
        return device.vector
    return int(variant in gpu.EPILOGUE_VARIANTS and not c.partial and not c.accumulate)


def reads_float32(device: Traits, c: Contraction, variant: str | None) -> bool:
    """True if the kernel of ``contract`` takes operands and a result of a half type that are stored in float32."""
    return possible(device, c, variant or contraction_kernel(device, c)) in ("rows", "packed")


def _splits(engine: Any, c: Contraction, out: TensorData, variant: str) -> int:
    """Returns the number of partial sums (split-K) of ``contract``; one if ``out`` holds more than this contraction."""
    if c.partial or c.m * prod(c.n) * prod(c.batch) != out.size:
        return 1
    if variant in _SPLITTING:
        return int(_SPLITTING[variant][0](traits(engine), c).splits)
    return splits_for(engine, c, out.dtype) if variant in ("rows", "packed") else 1


# By variant with split-K: its tiles, and its launch.
_SPLITTING: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "windows": (lambda device, c: implicit_gemm.tiles_of(c), implicit_gemm.contract),
    "slices": (skinny.tile_of, skinny.contract),
    **{unit: (partial(tile_of_unit, unit), matrix_units.contract) for unit in UNITS},
}


def contract(
    engine: Any,
    c: Contraction,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    *,
    variant: str | None = None,
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs a contraction into ``out``."""
    if c.empty:
        return
    device = traits(engine)
    variant = possible(device, c, variant or contraction_kernel(device, c))
    if variant == "wide":
        gpu.contract_wide(engine, c, a, b, out, fused)
    elif variant == "broadcast":
        gpu.contract_broadcast(engine, c, a, b, out, fused)
    elif variant == "tiled":
        gpu.contract_tiled(engine, c, a, b, out, fused)
    elif variant == "direct":
        gpu.contract_direct(engine, c, a, b, out, fused)
    elif variant in ("planes", "taps"):
        _contract_depthwise(engine, c, a, b, out, variant)
    elif variant == "plain":
        gpu.contract_plain(engine, c, a, b, out)
    else:
        splits = _splits(engine, c, out, variant)
        target = out if splits == 1 else engine.empty((splits, out.size), compute_dtype(out.dtype))
        within = fused if splits == 1 else None
        if variant in _SPLITTING:
            cut, run = _SPLITTING[variant]
            tile = cut(device, c)
            tile = tile if tile.splits == splits else tile._replace(splits=splits)
            run(engine, c, tile, a, b, target, out.size, within)
        else:
            form = c if splits == 1 else replace(c, partial=True)
            rows = rows_for(engine, c, a, variant)
            contract_rows(engine, form, rows, b, target, splits=splits, out_part=out.size, fused=within)
        if splits > 1:
            reduce_partials(engine, target, out, splits, fused, matrices_of_result(c))
