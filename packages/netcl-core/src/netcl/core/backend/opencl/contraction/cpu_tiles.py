"""Contractions on OpenCL devices: the kernels of CPUs, and their launch; products and convolutions share them.

If a driver does not build a template, the engine's fallback asks for the plain one (``variant="plain"``: a loop per
output).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction import gpu_tiles as gpu
from netcl.core.backend.opencl.contraction import implicit_gemm, skinny
from netcl.core.backend.opencl.contraction.fused_epilogue import Finish, Place, definitions, members
from netcl.core.backend.opencl.contraction.partial_sums import add_parts
from netcl.core.backend.opencl.contraction.problem import compute_dtype, places_argument
from netcl.core.backend.opencl.templates import Traits, source, struct, traits
from netcl.core.tuning.problems import Contraction, Levels
from netcl.core.tuning.selector import contraction_kernel, possible
from netcl.core.tuning.tiles import cpu_tile

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_IN_PLACE = 1 << 16  # elements of a matrix A that is read as it lies
_ENOUGH_UNITS = 16  # work-items that keep the cores of a CPU busy
_SMALL_UNITS, _LARGE_UNITS = (1 << 22, 4), (1 << 26, 64)  # below and above so many products, so many work-items
_LEAST_SPLIT = 1024  # products summed by one part at least
_FEW = 4  # rows up to which the CPU kernel has a smaller tile
_PLANES_MOST = 64  # terms or columns of the kernels for depthwise convolutions


class Program(NamedTuple):
    """One instance of the CPU template."""

    text: str
    rows: int
    columns: int
    depth: int
    chunk: int


@lru_cache(maxsize=1024)
def _has_few(c: Contraction) -> bool:
    return c.m <= _FEW and c.m * prod(c.k) * prod(c.n) >= _SMALL_UNITS[0]


@lru_cache(maxsize=64)
def cpu_program(device: Traits, dtype: str, epilogue: str = "", operands: int = 1, few: bool = False) -> Program:
    """The CPU template for a dtype: 6 x 16 sums fit 16 registers of 8 lanes, 8 x 32 fit 32 registers of 16; with
    ``few`` rows, such as the channels of pictures, 4 are taken.

    ``epilogue``: the text of the function of that name, which has ``operands`` beside the sum.
    """
    tile = cpu_tile(device, dtype, few)
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", tile.vector), ("ROWS", tile.rows), ("VECTORS", 2),
        ("DEPTH", tile.depth), ("CHUNK", tile.chunk), *definitions(epilogue, operands),
    )  # fmt: skip
    return Program(source(("storage", "contract_operands", "contract_cpu"), defines) + epilogue, *tile[1:])


def _merged(extents: Levels, strides: Levels, enough: bool) -> tuple[Levels, Levels]:
    # Levels become one where they follow each other without a gap. The outermost is where work is shared out, so it is
    # kept free when there is work enough without it.
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
def _packing(c: Contraction, program: Program) -> _Packing:
    tiles = -(-c.m // program.rows)
    k = prod(c.k)
    panel = tiles * program.rows * k
    batch = tuple(count if stride else 1 for count, stride in zip(c.batch, c.a_batch))
    extents, strides = _merged(c.k, c.a_k, tiles * prod(batch) >= _ENOUGH_UNITS)
    argument = struct(c.m, c.a_row, tiles, k, batch[1], c.a_offset, c.a_batch, extents, strides)
    a_batch = (batch[1] * panel if c.a_batch[0] else 0, panel if c.a_batch[1] else 0)
    return _Packing((extents[0], tiles, prod(batch)), panel * prod(batch), argument, a_batch)


def _units(products: int) -> int:
    """Work-items for so many products: a few cost less to start, many even out what the cores take."""
    (few, least), (many, most) = _SMALL_UNITS, _LARGE_UNITS
    return least if products < few else most if products > many else _ENOUGH_UNITS


class Rows(NamedTuple):
    """How the CPU kernel walks A: from a row, a step of k and a tile of rows to the next, and where it begins."""

    row: int
    k: int
    tile: int
    batch: tuple[int, int]
    offset: int


@lru_cache(maxsize=1024)
def rows_in_place(c: Contraction, program: Program, dtype: str) -> Rows | None:
    """The walk along A as it lies; None where k has gaps in it, A's elements are not what is computed with, or A would
    be read from beyond the second-level cache time and again.
    """
    levels = [(extent, step) for extent, step in zip(c.k, c.a_k) if extent != 1] or [(1, 0)]
    evenly = all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(levels))
    if dtype != compute_dtype(dtype) or not evenly or c.m * prod(c.k) > _IN_PLACE:
        return None
    return Rows(c.a_row, levels[-1][1], program.rows * c.a_row, c.a_batch, c.a_offset)


def _packed_rows(c: Contraction, program: Program) -> Rows:
    batch = _packing(c, program).a_batch
    return Rows(1, program.rows, program.rows * prod(c.k), batch, 0)


@lru_cache(maxsize=1024)
def _plan(
    c: Contraction, program: Program, a: Rows, splits: int, out_part: int, operands: tuple[Place, ...] | None
) -> tuple[int, Any]:
    tiles = -(-c.m // program.rows)
    k, n = prod(c.k), prod(c.n)
    strips = -(-n // program.columns)
    others = strips * splits * prod(c.batch)
    # Sums of one stretch of k need not wait for another, so a chunk may then hold all rows.
    most = tiles if -(-k // splits) <= program.depth else program.chunk
    chunk = max(1, min(most, tiles * others // _units(c.m * n * k * prod(c.batch))))
    chunks = -(-tiles // chunk)
    split = -(-k // splits) if k else 1
    argument = struct(
        c.m, k, n, chunk, chunks, strips, splits, split, c.batch[1], int(c.accumulate), int(c.parts),
        a.row, a.k, a.tile, a.batch, c.b_batch, c.out_batch, a.offset, c.b_offset, c.out_offset, c.out_row, out_part,
        c.k, c.b_k, c.n, c.b_n, c.out_n, int(operands is not None), members(operands),
    )  # fmt: skip
    return others * chunks, argument


def rows_for(engine: Any, c: Contraction, a: TensorData, variant: str | None = None) -> tuple[TensorData, Rows]:
    """What the CPU kernel reads as A, and its walk: A itself where that is possible and ``variant`` is not "packed"."""
    program = cpu_program(traits(engine), a.dtype, few=_has_few(c))
    walk = None if variant == "packed" else rows_in_place(c, program, a.dtype)
    return (a, walk) if walk is not None else (_pack(engine, c, program, a), _packed_rows(c, program))


def _pack(engine: Any, c: Contraction, program: Program, a: TensorData) -> TensorData:
    """A in panels of rows for the CPU kernel, in the computing type."""
    plan = _packing(c, program)
    panels: TensorData = engine.empty((plan.size,), compute_dtype(a.dtype))
    if plan.size:
        engine.launch(program.text, "pack_rows", plan.global_size, (1, 1, 1), [a, panels, plan.argument])
    return panels


def contract_rows(
    engine: Any,
    c: Contraction,
    a: tuple[TensorData, Rows],
    b: TensorData,
    out: TensorData,
    *,
    splits: int = 1,
    out_part: int = 0,
    finish: Finish | None = None,
) -> None:
    """The CPU kernel on what ``rows_for`` gave; part s of ``splits`` of k goes to ``out`` + s * ``out_part``."""
    text, operands, places = finish or ("", (), None)
    program = cpu_program(traits(engine), b.dtype, text, max(1, len(operands)), _has_few(c))
    units, argument = _plan(c, program, a[1], splits, out_part, places)
    engine.launch(program.text, "contract", (units,), (1,), [a[0], b, out, argument, *(operands or (b,))])


def splits_for(engine: Any, c: Contraction, dtype: str) -> int:
    """Parts into which a long k is cut when the output has too few tiles for the cores."""
    program = cpu_program(traits(engine), dtype)
    units = -(-prod(c.n) // program.columns) * -(-c.m // program.rows) * prod(c.batch)
    return max(1, min(_ENOUGH_UNITS // max(units, 1), prod(c.k) // _LEAST_SPLIT))


@lru_cache(maxsize=64)
def _planes_program(device: Traits, dtype: str) -> str:
    vector = device.vector // 2 if dtype == "float64" else device.vector
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("VECTOR", vector), ("MOST", _PLANES_MOST))
    return source(("storage", "contract_places", "contract_planes"), defines)


def _contract_planes(engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, variant: str) -> None:
    text = _planes_program(traits(engine), a.dtype)
    rows = c.m * prod(c.batch)
    if variant == "taps":
        engine.launch(text, "taps", (rows,), (1,), [a, b, out, places_argument(c)])
        return
    runs = rows * prod(c.n[:3])
    each = -(-runs // _LARGE_UNITS[1])
    arguments = [a, b, out, places_argument(c), np.int64(runs), np.int64(each)]
    engine.launch(text, "planes", (-(-runs // each),), (1,), arguments)


def finishes(engine: Any, c: Contraction, out: TensorData, variant: str | None) -> int:
    """The lanes of the ``finish`` that ``contract`` takes, 0 where it takes none: sums are cut in parts, or the kernel,
    such as ``plain``, which is left where a driver builds no other, has no epilogue.
    """
    device = traits(engine)
    variant = possible(device, c, variant or contraction_kernel(device, c))
    if _splits(engine, c, out, variant) > 1:
        return 0
    if variant in ("rows", "packed"):
        return device.vector
    return int(variant in gpu.FINISHING and not c.parts and not c.accumulate)


def _splits(engine: Any, c: Contraction, out: TensorData, variant: str) -> int:
    """Parts into which ``contract`` cuts the sums; one where ``out`` holds more than this contraction."""
    if c.parts or c.m * prod(c.n) * prod(c.batch) != out.size:
        return 1
    if variant in _CUTTING:
        return int(_CUTTING[variant][0](traits(engine), c).splits)
    return splits_for(engine, c, out.dtype) if variant in ("rows", "packed") else 1


# By variant: how it cuts a contraction up, and the kernel that runs what was cut.
_CUTTING: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "windows": (lambda device, c: implicit_gemm.tiles_of(c), implicit_gemm.contract),
    "slices": (skinny.slices_of, skinny.contract),
}


def contract(
    engine: Any,
    c: Contraction,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    *,
    variant: str | None = None,
    finish: Finish | None = None,
) -> None:
    """Runs a contraction into ``out``."""
    if c.empty:
        return
    device = traits(engine)
    variant = possible(device, c, variant or contraction_kernel(device, c))
    if variant == "wide":
        gpu.contract_wide(engine, c, a, b, out, finish)
    elif variant == "broadcast":
        gpu.contract_broadcast(engine, c, a, b, out, finish)
    elif variant == "tiled":
        gpu.contract_tiled(engine, c, a, b, out, finish)
    elif variant == "direct":
        gpu.contract_direct(engine, c, a, b, out, finish)
    elif variant in ("planes", "taps"):
        _contract_planes(engine, c, a, b, out, variant)
    elif variant == "plain":
        gpu.contract_plain(engine, c, a, b, out)
    else:
        splits = _splits(engine, c, out, variant)
        target = out if splits == 1 else engine.empty((splits, out.size), compute_dtype(out.dtype))
        if variant in _CUTTING:
            cut, run = _CUTTING[variant]
            run(engine, c, cut(traits(engine), c)._replace(splits=splits), a, b, target, out.size, finish)
        else:
            form = c if splits == 1 else replace(c, parts=True)
            rows = rows_for(engine, c, a, variant)
            contract_rows(engine, form, rows, b, target, splits=splits, out_part=out.size, finish=finish)
        if splits > 1:
            add_parts(engine, target, out, splits)
