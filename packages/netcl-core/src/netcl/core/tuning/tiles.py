"""The tiles and work-groups of each kernel of contractions and convolutions, and its split-K."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.traits import Traits

SPAN = 128  # edge of the largest tile of the GPU kernels for large matrices
DEEP = 16  # terms of a step of these kernels through local memory
EDGE = 16  # edge of a work-group of the tiled GPU kernel (a quarter of its tile's); 8 for small groups
LEAST_GROUP = (EDGE // 2) ** 2  # work-items of the smallest group that the tiled kernel takes
SUB_GROUPS_TILE = (8, 2, 64)  # of the kernel for sub-groups: rows, columns of a work-item, work-items of a group
SKINNY_GROUP = 256
SKINNY_ROWS = 4  # of a work-group
_DEPTH = 384  # rows of B that a work-item holds
_CHUNK = 64  # row tiles with sums that wait for the next rows of B
_FEW = 4  # rows of the smaller tile of the CPU kernel
_LEAST_SPLIT = 128  # least products of a partial sum
# Of a large GPU (H200), for estimates: products of a compute unit in a microsecond, the time of a launch, and the
# floats of partial sums that are read or written in a microsecond.
_WIDE_PER_US, LAUNCH_US, _PARTIALS_PER_US = 1.55e5, 5.0, 6e5


class CpuTile(NamedTuple):
    """Rows and columns of the sums in registers, rows of B that are held, and row tiles of a chunk."""

    vector: int
    rows: int
    columns: int
    depth: int
    chunk: int


@lru_cache(maxsize=64)
def cpu_tile(device: Traits, dtype: str, few: bool = False) -> CpuTile:
    """Returns the tile: 6 x 16 sums fit 16 registers of 8 lanes, 8 x 32 fit 32 registers of 16; 4 rows if ``few``."""
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


class WideTile(NamedTuple):
    """The tile of a work-group of the GPU kernel for large matrices, and its number of partial sums (split-K)."""

    rows: int
    columns: int
    splits: int = 1


# Tiles of that kernel with the shares of the rate of a compute unit that one has alone and that several have together.
WIDE_TILES = (
    (WideTile(128, 128), 0.75, 1.0), (WideTile(128, 64), 0.6, 0.95), (WideTile(64, 128), 0.6, 0.95),
    (WideTile(64, 64), 0.4, 0.85),
)  # fmt: skip


@lru_cache(maxsize=1024)
def wide_tile(device: Traits, c: Contraction) -> WideTile:
    """Returns the tile with the least estimated time, with split-K if sums are long and tiles are few."""
    times = wide_times(device, c)
    return min(times, key=times.__getitem__)


def wide_times(device: Traits, c: Contraction) -> dict[WideTile, float]:
    """Returns the estimated microseconds of each tile on a large GPU."""
    return _times(device, c, WIDE_TILES, ())


def _times(
    device: Traits, c: Contraction, tiles: Sequence[tuple[WideTile, float, float]], more: Sequence[int]
) -> dict[WideTile, float]:
    """Returns the estimated microseconds of each of ``tiles`` with their shares, also with partial sums for ``more``
    work-groups on each compute unit.
    """
    most, times = max(1, prod(c.k) // _LEAST_SPLIT), {}
    for tile, *shares in tiles:
        filled = (device.units * groups // max(1, tiles_of(c, tile[:2])) for groups in more)
        for splits in {min(max(1, splits), most) for splits in (*range(1, 9), 12, 16, 24, 32, 48, 64, *filled)}:
            time = tile_time(device, c, tile[:2], splits, shares, _WIDE_PER_US)
            times[tile._replace(splits=splits)] = time
    return times


def tiles_of(c: Contraction, tile: tuple[int, int]) -> int:
    """Returns the number of tiles, rows times columns, that cover a result."""
    return -(-c.m // tile[0]) * -(-prod(c.n) // tile[1]) * prod(c.batch)


def tile_time(
    device: Traits,
    c: Contraction,
    tile: tuple[int, int],
    splits: int,
    shares: Sequence[float],
    per_us: float,
    passes: int = 1,
) -> float:
    """Returns the estimated microseconds of a product by tiles of rows and columns with ``splits`` partial sums.

    ``shares`` are the parts that one tile alone and several together have of the rate of a compute unit, ``per_us``
    products in a microsecond; each product is computed ``passes`` times.
    """
    alone, together = shares
    slowness = max(1 / alone, -(-tiles_of(c, tile) * splits // device.units) / together)
    time = passes * tile[0] * tile[1] * -(-prod(c.k) // splits) * slowness / per_us
    if splits > 1:
        time += LAUNCH_US + 2 * splits * c.m * prod(c.n) * prod(c.batch) / _PARTIALS_PER_US
    return time


# Tiles of the implicit GEMM kernel with their shares, as those of the kernel for large matrices.
WINDOWS_TILES = (
    (WideTile(128, 128), 0.6, 0.8), (WideTile(128, 64), 0.5, 0.75), (WideTile(64, 128), 0.4, 0.7),
    (WideTile(64, 64), 0.3, 0.7), (WideTile(32, 128), 0.3, 0.57), (WideTile(32, 64), 0.2, 0.53),
)  # fmt: skip


@lru_cache(maxsize=1024)
def implicit_gemm_tile(device: Traits, c: Contraction) -> WideTile:
    """Returns the tile of the implicit GEMM kernel with the least estimated time, with split-K if sums are long and
    tiles are few.
    """
    times = _times(device, c, WINDOWS_TILES, (2, 4))
    return min(times, key=times.__getitem__)
