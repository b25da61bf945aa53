"""What each variant of products and convolutions runs with, as a KernelConfig."""

from __future__ import annotations

from typing import Any

from netcl.core.backend.opencl.contraction import gpu_tiles as gpu
from netcl.core.backend.opencl.contraction import skinny, small_channels
from netcl.core.backend.opencl.contraction.cpu_tiles import cpu_program
from netcl.core.backend.opencl.templates import traits
from netcl.core.tuning.selector import KernelConfig, KernelVariant


def config_of(engine: Any, op: str, kernel: str, dtype: str) -> KernelConfig:
    """What a variant runs with, for ``op`` matmul or conv2d."""
    device = traits(engine)
    matmul = op == "matmul"
    naive = KernelVariant.MATMUL_NAIVE if matmul else KernelVariant.CONV2D_NAIVE
    if kernel in ("direct", "plain"):
        return KernelConfig(
            naive, tile_m=1, tile_n=1, tile_k=1, work_per_thread=1, local_size_1d=1, local_size_2d=(1, 1),
            use_local_memory=False, use_vectorization=False, vector_width=1,
        )  # fmt: skip
    tiled = KernelVariant.MATMUL_REGISTER_TILED if matmul else KernelVariant.CONV2D_IMPLICIT_GEMM
    if kernel in ("wide", "windows"):
        return KernelConfig(tiled, gpu.SPAN, gpu.SPAN, 16, 8, 256, (16, 16))
    if kernel == "broadcast":
        rows, columns, group = gpu.SUB_GROUPS_TILE
        return KernelConfig(
            tiled, rows, columns * group, 1, rows * columns, group, (group, 1), use_local_memory=False,
            use_vectorization=False, vector_width=1,
        )  # fmt: skip
    if kernel == "slices":
        return skinny.config(device, naive)
    if kernel == "tiled":
        _, edge = gpu.gpu_program(device, dtype)
        return KernelConfig(tiled, 4 * edge, 4 * edge, edge, 4, edge * edge, (edge, edge))
    if kernel.startswith("winograd"):
        return KernelConfig(
            KernelVariant.CONV2D_WINOGRAD, int(kernel[-1]), int(kernel[-1]), 1, device.vector, 1, (1, 1),
            use_local_memory=False, vector_width=device.vector,
        )  # fmt: skip
    if kernel == "channels":
        return small_channels.config(device, dtype)
    program = cpu_program(device, dtype)
    vectors = KernelVariant.MATMUL_VECTORIZED if matmul else KernelVariant.CONV2D_IMPLICIT_GEMM
    return KernelConfig(
        vectors, program.rows, program.columns, program.depth, program.rows * program.columns, 1, (1, 1),
        vector_width=device.vector,
    )  # fmt: skip
