"""The tiles and work-groups of each kernel of contractions and convolutions, and its split-K."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core.tuning import small_channels
from netcl.core.tuning.original_api import KernelConfig, KernelVariant
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.traits import Traits
from netcl.core.tuning.unit_table import UNITS

__all__ = [
    "EDGE", "LEAST_GROUP", "SKINNY_GROUP", "SKINNY_ROWS", "SPAN", "SUB_GROUPS_TILE", "CpuTile", "config_of", "cpu_tile",
    "entry_points", "skinny_group", "tiled_edge", "implicit_gemm_tile",
]  # fmt: skip

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

# The functions of a kernel that compute results, as the launch log names them.
_ENTRY_POINTS = {
    "rows": ("contract",),
    "packed": ("contract",),
    "plain": ("direct",),
    "dot": ("dot_rows",),
    "stream": ("stream_rows",),
    "channels": ("channels_forward", "channels_input", "channels_weights"),
    **dict.fromkeys(("winograd2", "winograd4"), ("filter_images", "filter_gradients", "output_tiles", "weight_sums")),
    **dict.fromkeys(("winograd2_gpu", "winograd4_gpu"), ("output_tiles", "weight_sums")),
    **dict.fromkeys(UNITS, ("matrix_unit",)),
}


def entry_points(kernel: str) -> tuple[str, ...]:
    """Returns the names in a launch log that show that ``kernel`` ran, one of ``KernelConfig.extra["kernel"]``."""
    return _ENTRY_POINTS.get(kernel, (kernel,))


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


def config_of(device: Traits, op: str, kernel: str, dtype: str) -> KernelConfig:
    """Returns the config that describes ``kernel``, for ``op`` matmul or conv2d."""
    product = op == "matmul"
    naive = KernelVariant.MATMUL_NAIVE if product else KernelVariant.CONV2D_NAIVE
    tiled = KernelVariant.MATMUL_REGISTER_TILED if product else KernelVariant.CONV2D_IMPLICIT_GEMM
    if kernel in ("direct", "plain"):
        return KernelConfig(
            naive, tile_m=1, tile_n=1, tile_k=1, work_per_thread=1, local_size_1d=1, local_size_2d=(1, 1),
            use_local_memory=False, use_vectorization=False, vector_width=1,
        )  # fmt: skip
    if kernel in ("wide", "windows"):
        return KernelConfig(tiled, SPAN, SPAN, 16, 8, 256, (16, 16))
    if kernel == "broadcast":
        rows, columns, group = SUB_GROUPS_TILE
        return KernelConfig(
            tiled, rows, columns * group, 1, rows * columns, group, (group, 1), use_local_memory=False,
            use_vectorization=False, vector_width=1,
        )  # fmt: skip
    if kernel == "slices":  # of B with contiguous columns
        group = skinny_group(device)
        return KernelConfig(
            naive, SKINNY_ROWS, group // 4, 1, SKINNY_ROWS, group, (group, 1), use_vectorization=False, vector_width=1
        )
    if kernel in UNITS:
        largest = UNITS[kernel].tiles[0].tile
        items = 32 * largest.warps_m * largest.warps_n
        return KernelConfig(
            tiled, largest.m, largest.n, largest.k, largest.m * largest.n // items, items, (items, 1),
            use_vectorization=False, vector_width=1,
        )  # fmt: skip
    if kernel == "tiled":
        edge = tiled_edge(device)
        return KernelConfig(tiled, 4 * edge, 4 * edge, edge, 4, edge * edge, (edge, edge))
    if kernel.startswith("winograd"):
        edge, lanes = int(kernel[len("winograd")]), 1 if kernel.endswith("_gpu") else device.vector
        return KernelConfig(
            KernelVariant.CONV2D_WINOGRAD, edge, edge, 1, lanes, 1, (1, 1), use_local_memory=False, vector_width=lanes
        )
    if kernel == "channels":
        registers = small_channels.tile_of(device, "forward", dtype)
        columns = registers.span * registers.vector
        return KernelConfig(
            KernelVariant.CONV2D_IMPLICIT_GEMM, registers.rows, columns, 1, registers.rows * columns, 1, (1, 1),
            use_local_memory=False, vector_width=registers.vector,
        )  # fmt: skip
    tile = cpu_tile(device, dtype)
    vectors = KernelVariant.MATMUL_VECTORIZED if product else KernelVariant.CONV2D_IMPLICIT_GEMM
    return KernelConfig(
        vectors, tile.rows, tile.columns, tile.depth, tile.rows * tile.columns, 1, (1, 1), vector_width=device.vector,
    )  # fmt: skip
