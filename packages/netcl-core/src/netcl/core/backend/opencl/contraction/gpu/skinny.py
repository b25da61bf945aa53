"""Skinny matrix products (GEMV and a few rows) on GPUs: the work-items of a group split k, and long sums are split over
groups (split-K) and then reduced.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, trailing_args
from netcl.core.backend.opencl.contraction.gpu.gpu_tiles import LONG, epilogue_source, wide_argument
from netcl.core.backend.opencl.templates import Traits, traits
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.tiles import SKINNY_ROWS, skinny_group

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_ALONG_COLUMNS = 8  # of a work-group with neighbouring work-items along k
_GROUPS = 1056  # work-groups that keep a large GPU's memory busy
_LEAST_SPLIT = 256  # least products of a partial sum


class SkinnyTile(NamedTuple):
    """A work-group's size, rows and columns, ``along`` if B is contiguous along k, and the number of splits of k."""

    group: int
    rows: int
    columns: int
    along: bool
    splits: int


@lru_cache(maxsize=1024)
def tile_of(device: Traits, c: Contraction) -> SkinnyTile:
    """Returns the tile and split-K of a contraction."""
    group = skinny_group(device)
    along = c.b_k[3] == 1 and c.k[3] > 1
    rows, columns = min(c.m, SKINNY_ROWS), _ALONG_COLUMNS if along else group // 4
    count = -(-c.m // rows) * -(-prod(c.n) // columns) * prod(c.batch)
    splits = max(1, min(_GROUPS // count, prod(c.k) // _LEAST_SPLIT))
    return SkinnyTile(group, rows, columns, along, splits)


@lru_cache(maxsize=256)
def program(device: Traits, dtype: str, tile: SkinnyTile, epilogue: str = "", operands: int = 0) -> str:
    """Returns the text for a dtype and a work-group."""
    defines = (
        ("GROUP", tile.group), ("ROWS", tile.rows), ("COLUMNS", tile.columns), ("ALONG", int(tile.along)), LONG,
    )  # fmt: skip
    return epilogue_source(device, dtype, ("contract_product", "contract_skinny"), defines, epilogue, operands)


def contract(
    engine: Any,
    c: Contraction,
    tile: SkinnyTile,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    out_part: int,
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs a contraction into ``out``: partial sum s goes to ``out`` + s * ``out_part``; without split-K, the
    result.
    """
    epilogue, operands, more = trailing_args(fused, b)
    text = program(traits(engine), a.dtype, tile._replace(splits=1), epilogue, operands)
    size = (
        -(-prod(c.n) // tile.columns) * tile.group,
        -(-c.m // tile.rows),
        prod(c.batch) * tile.splits,
    )
    split = -(-prod(c.k) // tile.splits)
    numbers = [np.int32(tile.splits), np.int32(split), np.int64(out_part)]
    arguments = [a, b, out, wide_argument(c), *numbers, *more]
    engine.launch(text, "slices", size, (tile.group, 1, 1), arguments)


__all__ = ["SkinnyTile", "contract", "program", "tile_of"]
