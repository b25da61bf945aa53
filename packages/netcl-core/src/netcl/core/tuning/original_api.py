"""The variants that selectors report, and the thresholds by which the original API names one for given sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from netcl.core.device.profile import ExtendedDeviceProfile
from netcl.core.dtypes import is_floating, itemsize


class KernelVariant(Enum):
    """The classes of kernels that selectors report; ``KernelConfig.extra["kernel"]`` names the kernel."""

    MATMUL_NAIVE, MATMUL_TILED, MATMUL_REGISTER_TILED, MATMUL_VECTORIZED = 1, 2, 3, 4
    CONV2D_NAIVE, CONV2D_IM2COL, CONV2D_IMPLICIT_GEMM, CONV2D_TILED_LOCAL, CONV2D_WINOGRAD = 5, 6, 7, 8, 9
    ELEMENTWISE_SCALAR, ELEMENTWISE_VECTORIZED, REDUCTION_SEQUENTIAL, REDUCTION_PARALLEL = 10, 11, 12, 13
    REDUCTION_WORKGROUP, BATCHNORM_NAIVE, BATCHNORM_FUSED = 14, 15, 16


# Tile (m, n, k), outputs of a work-item along m and n, lanes (0: by device and dtype), True if it uses local memory.
_VARIANTS: dict[str, tuple[tuple[int, int, int] | None, int, int, bool]] = {
    "MATMUL_TILED": ((16, 16, 16), 1, 1, True), "MATMUL_REGISTER_TILED": ((64, 64, 16), 0, 1, True),
    "MATMUL_VECTORIZED": ((64, 64, 16), 0, 0, True), "CONV2D_IM2COL": ((64, 64, 16), 4, 1, True),
    "CONV2D_IMPLICIT_GEMM": ((64, 64, 16), 4, 1, True), "CONV2D_TILED_LOCAL": ((16, 16, 8), 1, 1, True),
    "CONV2D_WINOGRAD": ((32, 32, 8), 4, 1, True), "ELEMENTWISE_VECTORIZED": (None, 0, 0, False),
    **dict.fromkeys(("MATMUL_NAIVE", "ELEMENTWISE_SCALAR", "REDUCTION_SEQUENTIAL"), (None, 1, 1, False))}  # fmt: skip
SMALL_OUTPUT = 256  # positions of a convolution's output below which NETCL_CONV_TILED_LOCAL applies


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


def _variant(profile: ExtendedDeviceProfile, op: str, sizes: tuple[Any, ...], dtype: str, flags: Any) -> str:
    if op == "batchnorm":
        return "BATCHNORM_FUSED" if flags[1] and not flags[0] else "BATCHNORM_NAIVE"
    if op == "elementwise":
        return "ELEMENTWISE_VECTORIZED" if sizes[0] >= 1024 and flags[0] else "ELEMENTWISE_SCALAR"
    if op == "reduction":
        return f"REDUCTION_{'SEQUENTIAL' if sizes[0] < 256 else 'PARALLEL' if sizes[0] < 65536 else 'WORKGROUP'}"
    if op == "matmul":
        outputs, flops = sizes[0] * sizes[1], 2 * sizes[0] * sizes[1] * sizes[2]
        large = "VECTORIZED" if flags[0] and profile.prefers_vectors else "REGISTER_TILED"
        return f"MATMUL_{'NAIVE' if outputs < 256 or flops < 1e5 else 'TILED' if flops < 1e7 else large}"
    winograd = sizes[:2] == ((3, 3), (1, 1)) and flags[0] and is_floating(dtype)  # kernel, stride, positions
    tiled_local = sizes[0] != (1, 1) and flags[1] and sizes[2] < SMALL_OUTPUT
    on_gpu = "WINOGRAD" if winograd else "TILED_LOCAL" if tiled_local else "IMPLICIT_GEMM"
    return f"CONV2D_{'IM2COL' if profile.is_cpu else on_gpu}"


def config_by_sizes(profile: ExtendedDeviceProfile, op: str, sizes: Any, dtype: str, *flags: Any) -> KernelConfig:
    """Returns the KernelConfig of an op by its thresholds, within the device's limits."""
    name, most = _variant(profile, op, sizes, dtype, flags), max(1, profile.base.max_work_group_size)
    tile, work, lanes, local = _VARIANTS.get(name, (None, 4, 4, True))
    lanes = lanes or (max(4, min(profile.vector_width, 16)) if tile else 8 if itemsize(dtype) <= 2 else 4)
    work = work or (lanes if not tile else 8 if profile.has_many_registers else 4)
    (columns, rows), k = (tile[1] // work, tile[0] // work) if tile else (16, 16), tile[2] if tile else 1
    memory = profile.base.local_mem_size // max(4, itemsize(dtype)) if profile.base.opencl_c_version else 1 << 62
    while columns * rows > most or (tile and (columns + rows) * work * k > memory and columns * rows * k > 1):
        halved = (columns, rows // 2, k) if rows >= columns else (columns // 2, rows, k)
        columns, rows, k = (columns, rows, k // 2) if columns * rows <= most and k > 1 else halved
    m, n, k = (rows * work, columns * work, k) if tile else (32, 32, 8)
    extra = {"kind": flags[0], "stages": 1 + (name == "REDUCTION_WORKGROUP")} if op == "reduction" else {}
    local, group = bool(flags[0]) if op == "batchnorm" else local, 1 << min(256, most).bit_length() - 1
    return KernelConfig(KernelVariant[name], m, n, k, work, group, (columns, rows), local, lanes > 1, lanes, extra)
