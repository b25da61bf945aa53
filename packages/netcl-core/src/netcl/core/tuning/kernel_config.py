"""Configs of kernels, as selectors report and measurements keep them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class KernelVariant(Enum):
    """The classes of kernels that selectors report; ``KernelConfig.extra["kernel"]`` names the kernel."""

    MATMUL_NAIVE, MATMUL_TILED, MATMUL_REGISTER_TILED, MATMUL_VECTORIZED = 1, 2, 3, 4
    CONV2D_NAIVE, CONV2D_IM2COL, CONV2D_IMPLICIT_GEMM, CONV2D_TILED_LOCAL, CONV2D_WINOGRAD = 5, 6, 7, 8, 9
    ELEMENTWISE_SCALAR, ELEMENTWISE_VECTORIZED, REDUCTION_SEQUENTIAL, REDUCTION_PARALLEL = 10, 11, 12, 13
    REDUCTION_WORKGROUP, BATCHNORM_NAIVE, BATCHNORM_FUSED = 14, 15, 16


@dataclass
class KernelConfig:
    """A variant, its tile, outputs of a work-item, and group. Selectors share their objects, so do not change them."""

    variant: KernelVariant
    tile_m: int = 32
    tile_n: int = 32
    tile_k: int = 8
    work_per_thread: int = 4
    local_size_1d: int = 256
    local_size_2d: tuple[int, int] = (16, 16)
    use_local_memory: bool = True
    use_vectorization: bool = True
    vector_width: int = 4
    extra: dict[str, Any] = field(default_factory=dict)
