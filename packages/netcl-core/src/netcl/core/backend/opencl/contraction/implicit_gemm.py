"""Convolutions, and products with long sums, on GPUs: tiles whose places are found once, sums in parts."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.fused_epilogue import Finish, behind
from netcl.core.backend.opencl.contraction.gpu_tiles import SHORT, SPAN, finishing_source
from netcl.core.backend.opencl.contraction.problem import Contraction
from netcl.core.backend.opencl.templates import Traits, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor_data import TensorData

_LEAST_ROWS = 8  # below, tiles are mostly empty
_GROUPS = 264  # work-groups that keep a large GPU busy
_LEAST_SPLIT = 128  # products summed by one part at least
_FAR = 2**31


class Tiles(NamedTuple):
    """The tiles of a contraction: their rows, which of A and B is contiguous along k, and the parts of the sums."""

    rows: int
    a_along: bool
    b_along: bool
    splits: int


def _reach(c: Contraction) -> int:
    """More than the largest offset within a matrix."""
    rows = c.m * max(c.a_row, c.out_row)
    levels = ((c.k, c.a_k), (c.k, c.b_k), (c.n, c.b_n), (c.n, c.out_n))
    return rows + sum(extent * abs(step) for extents, steps in levels for extent, step in zip(extents, steps))


def _run(extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Elements in a row along an index, up or down."""
    inner = [(extent, step) for extent, step in zip(extents, steps) if extent != 1]
    return inner[-1][0] if inner and abs(inner[-1][1]) == 1 else 1


@lru_cache(maxsize=1024)
def fits(device: Traits, c: Contraction) -> bool:
    """Whether the kernel can run a contraction, and pays."""
    room = device.group >= 256 and device.local_memory >= 36 * 1024
    return not device.is_cpu and room and c.m >= _LEAST_ROWS and _reach(c) < _FAR


@lru_cache(maxsize=1024)
def tiles_of(c: Contraction) -> Tiles:
    """How a contraction is cut up."""
    rows = SPAN if c.m > SPAN // 2 else SPAN // 2
    count = -(-c.m // rows) * -(-prod(c.n) // SPAN) * prod(c.batch)
    if rows == SPAN and count < _GROUPS // 2:
        rows, count = SPAN // 2, -(-c.m // (SPAN // 2)) * -(-prod(c.n) // SPAN) * prod(c.batch)
    splits = max(1, min(_GROUPS // max(count, 1), prod(c.k) // _LEAST_SPLIT))
    a_along = _run(c.k, c.a_k) > (c.m if c.a_row == 1 else 1)
    return Tiles(rows, a_along, _run(c.k, c.b_k) > _run(c.n, c.b_n), splits)


@lru_cache(maxsize=256)
def program(device: Traits, dtype: str, tiles: Tiles, epilogue: str = "", operands: int = 0) -> str:
    """The text for a dtype and tiles."""
    defines = (
        ("SPAN_ROWS", tiles.rows), ("SPAN", SPAN), ("A_ALONG", int(tiles.a_along)), ("B_ALONG", int(tiles.b_along)),
        SHORT,
    )  # fmt: skip
    return finishing_source(device, dtype, ("contract_tile", "contract_windows"), defines, epilogue, operands)


@lru_cache(maxsize=1024)
def _launch(c: Contraction, tiles: Tiles, out_part: int) -> tuple[tuple[int, int, int], Any]:
    k, n = prod(c.k), prod(c.n)
    argument = struct(
        c.m, k, n, c.batch[1], tiles.splits, -(-k // tiles.splits), int(c.accumulate), int(c.parts or tiles.splits > 1),
        c.a_row, c.out_row, c.a_offset, c.b_offset, c.out_offset, out_part, c.a_batch, c.b_batch, c.out_batch,
        c.k, c.a_k, c.b_k, c.n, c.b_n, c.out_n,
    )  # fmt: skip
    return (-(-n // SPAN) * 16, -(-c.m // tiles.rows) * 16, prod(c.batch) * tiles.splits), argument


def contract(
    engine: Any,
    c: Contraction,
    tiles: Tiles,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    out_part: int,
    finish: Finish | None = None,
) -> None:
    """Runs a contraction into ``out``; part s of the sums goes to ``out`` + s * ``out_part``, one part to its end."""
    size, argument = _launch(c, tiles, out_part)
    epilogue, operands, more = behind(finish, b)
    text = program(traits(engine), a.dtype, tiles._replace(splits=1), epilogue, operands)
    engine.launch(text, "windows", size, (16, 16, 1), [a, b, out, argument, *more])


__all__ = ["Tiles", "contract", "fits", "program", "tiles_of"]
