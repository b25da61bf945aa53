"""The tiles and work-groups of each kernel of contractions and convolutions, and its split-K."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.traits import Traits

SPAN = 128  # edge of a tile of the GPU kernel for large matrices
EDGE = 16  # edge of a work-group of the tiled GPU kernel (a quarter of its tile's); 8 for small groups
LEAST_GROUP = (EDGE // 2) ** 2  # work-items of the smallest group that the tiled kernel takes
SUB_GROUPS_TILE = (8, 2, 64)  # of the kernel for sub-groups: rows, columns of a work-item, work-items of a group
SKINNY_GROUP = 256
SKINNY_ROWS = 4  # of a work-group
_DEPTH = 384  # rows of B that a work-item holds
_CHUNK = 64  # row tiles with sums that wait for the next rows of B
_FEW = 4  # rows of the smaller tile of the CPU kernel
_GROUPS = 264  # work-groups that keep a large GPU busy
_LEAST_SPLIT = 128  # least products of a partial sum


class CpuTile(NamedTuple):
    """Rows and columns of the sums in registers, rows of B that are held, and row tiles of a chunk."""

    vector: int
    rows: int
    columns: int
    depth: int
    chunk: int


@lru_cache(maxsize=64)
def cpu_tile(device: Traits, dtype: str, few: bool = False) -> CpuTile:
    """Returns the tile: 6 x 16 sums fit 16 registers of 8 lanes, 8 x 32 fit 32 registers of 16; 4 rows for contractions
    of ``few``.
    """
    vector = device.vector // 2 if dtype == "float64" else device.vector
    rows = _FEW if few else 8 if device.vector == 16 else 6
    depth, chunk = (64, 4) if device.local_memory < 128 * 1024 else (_DEPTH, _CHUNK)
    return CpuTile(vector, rows, 2 * vector, depth, chunk)


def tiled_edge(device: Traits) -> int:
    """Returns the edge of a work-group of the tiled GPU kernel."""
    return EDGE if device.group >= EDGE * EDGE else EDGE // 2


def skinny_group(device: Traits) -> int:
    """Returns the work-items of a group of the skinny kernel."""
    return SKINNY_GROUP if device.group >= SKINNY_GROUP else LEAST_GROUP


def implicit_gemm_tile(c: Contraction) -> tuple[int, int]:
    """Returns the rows of a tile of the implicit GEMM kernel, and its number of partial sums (split-K)."""
    rows = SPAN if c.m > SPAN // 2 else SPAN // 2
    count = -(-c.m // rows) * -(-prod(c.n) // SPAN) * prod(c.batch)
    if rows == SPAN and count < _GROUPS // 2:
        rows, count = SPAN // 2, -(-c.m // (SPAN // 2)) * -(-prod(c.n) // SPAN) * prod(c.batch)
    return rows, max(1, min(_GROUPS // max(count, 1), prod(c.k) // _LEAST_SPLIT))
