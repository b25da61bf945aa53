"""The variants that a selector reports and their configs, and the original API's rules by sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from netcl.core.device.profile import ExtendedDeviceProfile, GPUFamily
from netcl.core.dtypes import is_floating, itemsize

__all__ = [
    "KernelConfig",
    "KernelVariant",
    "batchnorm",
    "conv2d",
    "elementwise",
    "is_small_output",
    "matmul",
    "reduction",
]


class KernelVariant(Enum):
    """The classes of implementations that selectors report; ``KernelConfig.extra["kernel"]`` names the kernel."""

    MATMUL_NAIVE = auto()
    MATMUL_TILED = auto()
    MATMUL_REGISTER_TILED = auto()
    MATMUL_VECTORIZED = auto()
    CONV2D_NAIVE = auto()
    CONV2D_IM2COL = auto()
    CONV2D_IMPLICIT_GEMM = auto()
    CONV2D_TILED_LOCAL = auto()
    CONV2D_WINOGRAD = auto()
    ELEMENTWISE_SCALAR = auto()
    ELEMENTWISE_VECTORIZED = auto()
    REDUCTION_SEQUENTIAL = auto()
    REDUCTION_PARALLEL = auto()
    REDUCTION_WORKGROUP = auto()
    BATCHNORM_NAIVE = auto()
    BATCHNORM_FUSED = auto()


@dataclass
class KernelConfig:
    """A variant with its tile and launch parameters; selectors share the objects they return, so do not change them.

    ``tile_m``, ``tile_n``, ``tile_k``: outputs per work-group and the depth of a step; ``work_per_thread``: outputs per
    work-item along each tiled axis; ``local_size_2d``: (columns, rows) of the work-group.
    """

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


# Multiplications and additions below which a matmul is tiny, or not yet large.
_MATMUL_TINY_OUTPUTS = 256
_MATMUL_TINY_FLOPS = 1e5
_MATMUL_LARGE_FLOPS = 1e7
_CONV_SMALL_OUTPUT = 256
_ELEMENTWISE_VECTOR_FROM = 1024
_REDUCTION_PARALLEL_FROM = 256
_REDUCTION_WORKGROUP_FROM = 65536

# work_per_thread of the 64 x 64 x 16 register tile: NVIDIA from Turing on has the registers for 8 x 8 outputs per
# work-item; elsewhere 4 x 4.
_REGISTER_WORK = {
    GPUFamily.NVIDIA_TURING: 8,
    GPUFamily.NVIDIA_AMPERE: 8,
    GPUFamily.NVIDIA_ADA: 8,
    GPUFamily.NVIDIA_HOPPER: 8,
    GPUFamily.NVIDIA_BLACKWELL: 8,
}


def is_small_output(positions: int) -> bool:
    """True if a convolution's output has so few positions that NETCL_CONV_TILED_LOCAL applies."""
    return positions < _CONV_SMALL_OUTPUT


def matmul(profile: ExtendedDeviceProfile, shape: tuple[int, int, int], dtype: str, vectorized: bool) -> KernelConfig:
    """Returns the config: naive if MN < 256 or 2MNK < 1e5, tiled below 1e7, else vectorized if the device prefers it or
    register-tiled.
    """
    m, n, k = shape
    flops = 2 * m * n * k
    if m * n < _MATMUL_TINY_OUTPUTS or flops < _MATMUL_TINY_FLOPS:
        return _scalar(profile, KernelVariant.MATMUL_NAIVE)
    if flops < _MATMUL_LARGE_FLOPS:
        return _tiles(profile, KernelVariant.MATMUL_TILED, 16, 16, 16, 1, dtype)
    work = _REGISTER_WORK.get(profile.family, 4)
    if vectorized and profile.prefers_vectors:
        width = max(4, min(profile.vector_width, 16))
        return _tiles(profile, KernelVariant.MATMUL_VECTORIZED, 64, 64, 16, work, dtype, width)
    return _tiles(profile, KernelVariant.MATMUL_REGISTER_TILED, 64, 64, 16, work, dtype)


def conv2d(
    profile: ExtendedDeviceProfile,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    positions: int,
    dtype: str,
    winograd: bool,
    tiled_local: bool,
) -> KernelConfig:
    """Returns the config: im2col on CPUs; 1x1 implicit GEMM; 3x3 at stride 1 Winograd if allowed; few positions tiled
    local memory if requested; else implicit GEMM.
    """
    if profile.is_cpu:
        return _tiles(profile, KernelVariant.CONV2D_IM2COL, 64, 64, 16, 4, dtype)
    if kernel == (1, 1):
        return _tiles(profile, KernelVariant.CONV2D_IMPLICIT_GEMM, 64, 64, 16, 4, dtype)
    if (kernel, stride) == ((3, 3), (1, 1)) and winograd and is_floating(dtype):
        return _tiles(profile, KernelVariant.CONV2D_WINOGRAD, 32, 32, 8, 4, dtype)
    if tiled_local and is_small_output(positions):
        return _tiles(profile, KernelVariant.CONV2D_TILED_LOCAL, 16, 16, 8, 1, dtype)
    return _tiles(profile, KernelVariant.CONV2D_IMPLICIT_GEMM, 64, 64, 16, 4, dtype)


def elementwise(profile: ExtendedDeviceProfile, n: int, dtype: str, vectorized: bool) -> KernelConfig:
    """Returns the config: vectorized from 1024 elements on, 8 wide for dtypes of one or two bytes, else 4."""
    if n < _ELEMENTWISE_VECTOR_FROM or not vectorized:
        return _scalar(profile, KernelVariant.ELEMENTWISE_SCALAR)
    width = 8 if itemsize(dtype) <= 2 else 4
    return KernelConfig(
        KernelVariant.ELEMENTWISE_VECTORIZED,
        work_per_thread=width,
        local_size_1d=_group_limit(profile),
        local_size_2d=_fit_group(profile, 16, 16),
        use_local_memory=False,
        vector_width=width,
    )


def reduction(profile: ExtendedDeviceProfile, n: int, kind: str) -> KernelConfig:
    """Returns the config: sequential below 256 elements, parallel below 65536, else in stages over work-groups."""
    if n < _REDUCTION_PARALLEL_FROM:
        return _scalar(profile, KernelVariant.REDUCTION_SEQUENTIAL, extra={"kind": kind, "stages": 1})
    staged = n >= _REDUCTION_WORKGROUP_FROM
    return KernelConfig(
        KernelVariant.REDUCTION_WORKGROUP if staged else KernelVariant.REDUCTION_PARALLEL,
        local_size_1d=_group_limit(profile),
        local_size_2d=_fit_group(profile, 16, 16),
        extra={"kind": kind, "stages": 2 if staged else 1},
    )


def batchnorm(profile: ExtendedDeviceProfile, training: bool, fuse_relu: bool) -> KernelConfig:
    """Returns the config: fused with the ReLU exactly when ``fuse_relu`` and not ``training``."""
    fused = fuse_relu and not training
    variant = KernelVariant.BATCHNORM_FUSED if fused else KernelVariant.BATCHNORM_NAIVE
    return KernelConfig(
        variant,
        local_size_1d=_group_limit(profile),
        local_size_2d=_fit_group(profile, 16, 16),
        use_local_memory=bool(training),
    )


def _group_limit(profile: ExtendedDeviceProfile) -> int:
    """Returns the largest power of two not above 256 and the device's work-group limit."""
    limit = max(1, min(256, profile.base.max_work_group_size))
    return 1 << (limit.bit_length() - 1)


def _fit_group(profile: ExtendedDeviceProfile, columns: int, rows: int) -> tuple[int, int]:
    limit = max(1, profile.base.max_work_group_size)
    while columns * rows > limit:
        columns, rows = (columns, rows // 2) if rows >= columns else (columns // 2, rows)
    return columns, rows


def _scalar(
    profile: ExtendedDeviceProfile, variant: KernelVariant, extra: dict[str, Any] | None = None
) -> KernelConfig:
    return KernelConfig(
        variant,
        work_per_thread=1,
        local_size_1d=_group_limit(profile),
        local_size_2d=_fit_group(profile, 16, 16),
        use_local_memory=False,
        use_vectorization=False,
        vector_width=1,
        extra=extra or {},
    )


def _tiles(
    profile: ExtendedDeviceProfile,
    variant: KernelVariant,
    m: int,
    n: int,
    k: int,
    work: int,
    dtype: str,
    vector_width: int = 0,
) -> KernelConfig:
    """Returns a tiled config with A and B tiles that fit local memory and a work-group within the device's limit."""
    columns, rows = _fit_group(profile, n // work, m // work)
    m, n = rows * work, columns * work
    element = max(4, itemsize(dtype))  # 16-bit tiles are kept as floats
    local_memory = profile.base.local_mem_size
    if profile.base.opencl_c_version:  # NumPy has no local memory to fit
        while k > 1 and (m + n) * k * element > local_memory:
            k //= 2
        while (m + n) * k * element > local_memory and rows * columns > 1:
            columns, rows = (columns, rows // 2) if rows >= columns else (columns // 2, rows)
            m, n = rows * work, columns * work
    return KernelConfig(
        variant,
        tile_m=m,
        tile_n=n,
        tile_k=k,
        work_per_thread=work,
        local_size_1d=_group_limit(profile),
        local_size_2d=(columns, rows),
        use_vectorization=vector_width > 1,
        vector_width=max(1, vector_width),
    )
