"""Implicit GEMM with split-K on GPUs: convolutions, and products with long sums. Offsets of a tile are
computed once.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, trailing_args
from netcl.core.backend.opencl.contraction.gpu.gpu_tiles import SHORT, epilogue_source
from netcl.core.backend.opencl.templates import Traits, struct, traits
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.tiles import SPAN, implicit_gemm_tile

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData


class Tiles(NamedTuple):
    """The tiles of a contraction: their rows, which of A and B is contiguous along k, and the number of partial sums
    (split-K).
    """

    rows: int
    a_along: bool
    b_along: bool
    splits: int


def _run(extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Returns the adjacent elements along an index, up or down."""
    inner = [(extent, step) for extent, step in zip(extents, steps) if extent != 1]
    return inner[-1][0] if inner and abs(inner[-1][1]) == 1 else 1


@lru_cache(maxsize=1024)
def tiles_of(c: Contraction) -> Tiles:
    """Returns the tiles of a contraction."""
    rows, splits = implicit_gemm_tile(c)
    a_along = _run(c.k, c.a_k) > (c.m if c.a_row == 1 else 1)
    return Tiles(rows, a_along, _run(c.k, c.b_k) > _run(c.n, c.b_n), splits)


@lru_cache(maxsize=256)
def program(device: Traits, dtype: str, tiles: Tiles, epilogue: str = "", operands: int = 0) -> str:
    """Returns the text for a dtype and tiles."""
    defines = (
        ("SPAN_ROWS", tiles.rows), ("SPAN", SPAN), ("A_ALONG", int(tiles.a_along)), ("B_ALONG", int(tiles.b_along)),
        SHORT,
    )  # fmt: skip
    return epilogue_source(device, dtype, ("contract_tile", "contract_implicit_gemm"), defines, epilogue, operands)


@lru_cache(maxsize=1024)
def _launch(c: Contraction, tiles: Tiles, out_part: int) -> tuple[tuple[int, int, int], Any]:
    k, n = prod(c.k), prod(c.n)
    # The kernel divides by the extents even if there is nothing to sum.
    k_extents = tuple(max(extent, 1) for extent in c.k)
    argument = struct(
        c.m, k, n, c.batch[1], tiles.splits, -(-k // tiles.splits), int(c.accumulate),
        int(c.partial or tiles.splits > 1),
        c.a_row, c.out_row, c.a_offset, c.b_offset, c.out_offset, out_part, c.a_batch, c.b_batch, c.out_batch,
        k_extents, c.a_k, c.b_k, c.n, c.b_n, c.out_n,
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
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs a contraction into ``out``: partial sum s goes to ``out`` + s * ``out_part``; without split-K, the
    result.
    """
    size, argument = _launch(c, tiles, out_part)
    epilogue, operands, more = trailing_args(fused, b)
    text = program(traits(engine), a.dtype, tiles._replace(splits=1), epilogue, operands)
    engine.launch(text, "windows", size, (16, 16, 1), [a, b, out, argument, *more])


__all__ = ["Tiles", "contract", "program", "tiles_of"]
