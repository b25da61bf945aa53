"""Chooses the kernel variant and its tiles for a problem and a device: policy only, no kernel text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, TypeAlias

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile, profile_of
from netcl.core.device.discovery import DeviceHandle, get_active_device
from netcl.core.device.profile import ExtendedDeviceProfile, GPUFamily, extended_device_profile, family_of
from netcl.core.dtypes import DTypeLike, canonical, is_floating, itemsize

__all__ = [
    "KernelConfig",
    "KernelSelector",
    "KernelVariant",
    "forget_choices",
    "get_kernel_selector",
    "register_measurements",
    "select_conv2d_config",
    "select_matmul_config",
]


class KernelVariant(Enum):
    """The implementations a selector chooses from; finer ones are named in ``KernelConfig.extra``."""

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
# work-item, RDNA runs better with more waves of 4 x 4, which is also the careful choice elsewhere.
_REGISTER_WORK = {
    GPUFamily.NVIDIA_TURING: 8,
    GPUFamily.NVIDIA_AMPERE: 8,
    GPUFamily.NVIDIA_ADA: 8,
    GPUFamily.NVIDIA_HOPPER: 8,
    GPUFamily.NVIDIA_BLACKWELL: 8,
    GPUFamily.AMD_RDNA2: 4,
    GPUFamily.AMD_RDNA3: 4,
}

Measurements: TypeAlias = Callable[[ExtendedDeviceProfile, str, tuple[Any, ...], str], "KernelConfig | None"]


def _kept(profile: ExtendedDeviceProfile, op: str, shape: tuple[Any, ...], dtype: str) -> KernelConfig | None:
    """What ``measurements`` knows, which imports this file."""
    from netcl.core.tuning.measurements import lookup

    return lookup(profile, op, shape, dtype)


_measurements: Measurements = _kept


def register_measurements(lookup: Measurements | None) -> None:
    """Let selectors ask ``lookup(profile, op, shape, dtype)`` for a measured config before they apply their rules,
    instead of what the autotuner has kept on disk.

    ``op`` is matmul, conv2d, elementwise, reduction or batchnorm; ``shape`` the positional sizes of its ``select_``
    method. With NETCL_AUTOTUNE=off or NETCL_DETERMINISTIC=1 nobody asks. Selectors forget what they chose before; None
    goes back to what is on disk.
    """
    global _measurements
    _measurements = lookup or _kept
    forget_choices()


def forget_choices() -> None:
    """Let all selectors choose again."""
    with _selectors_lock:
        for selector in _selectors.values():
            selector.clear_cache()


class KernelSelector:
    """Chooses a KernelConfig per (operation, shape, dtype, flags), once each; thread-safe.

    ``device``: a pyopencl device, a handle or a queue (None: the active device); ``profile`` instead of it, for
    decisions about a device that is not at hand.
    """

    def __init__(self, device: Any = None, profile: ExtendedDeviceProfile | DeviceProfile | None = None) -> None:
        if isinstance(profile, DeviceProfile):
            profile = ExtendedDeviceProfile(profile, family_of(profile))
        self.profile: ExtendedDeviceProfile = profile or _seen_profile(device)
        self._chosen: dict[tuple[Any, ...], KernelConfig] = {}

    def clear_cache(self) -> None:
        """Forget what was chosen, so that rules and measurements are asked again."""
        self._chosen.clear()

    def select_matmul_kernel(
        self, M: int, N: int, K: int, dtype: DTypeLike = "float32", allow_vectorized: bool = True
    ) -> KernelConfig:
        """For (M, K) @ (K, N): naive if MN < 256 or 2MNK < 1e5, tiled below 1e7, else register-tiled.

        Large problems take the vectorized kernel on OpenCL CPUs and on GPUs that prefer vectors of four floats.
        """
        return self._choose("matmul", (M, N, K), dtype, (allow_vectorized,), self._matmul_rule)

    def select_conv2d_kernel(
        self,
        batch: int,
        in_channels: int,
        out_channels: int,
        height: int,
        width: int,
        kernel_h: int,
        kernel_w: int,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dtype: DTypeLike = "float32",
    ) -> KernelConfig:
        """For a convolution of (batch, in_channels, height, width) by (out_channels, in_channels, kernel_h, kernel_w).

        CPUs im2col; 1x1 implicit GEMM; 3x3 with stride 1 Winograd unless NETCL_CONV_WINOGRAD=0; fewer than 256 output
        positions tiled local memory with NETCL_CONV_TILED_LOCAL=1; else implicit GEMM.
        """
        sizes = (batch, in_channels, out_channels, height, width, kernel_h, kernel_w)
        flags = (config.get("CONV_WINOGRAD"), config.get("CONV_TILED_LOCAL"))
        return self._choose("conv2d", (*sizes, _pair(stride), _pair(padding)), dtype, flags, self._conv2d_rule)

    def select_elementwise_kernel(
        self, n: int, dtype: DTypeLike = "float32", allow_vectorized: bool = True
    ) -> KernelConfig:
        """For n elements: vectorized from 1024 on, 8 wide for dtypes of one or two bytes, else 4; tails are handled."""
        return self._choose("elementwise", (n,), dtype, (allow_vectorized,), self._elementwise_rule)

    def select_reduction_kernel(self, n: int, kind: str = "sum") -> KernelConfig:
        """For n elements per result: sequential below 256, parallel below 65536, else in stages over work-groups."""
        return self._choose("reduction", (n,), "float32", (kind,), self._reduction_rule)

    def select_batchnorm_kernel(
        self, batch: int, channels: int, spatial: int, training: bool = True, fuse_relu: bool = False
    ) -> KernelConfig:
        """Fused with the ReLU exactly when ``fuse_relu`` and not ``training``."""
        sizes = (batch, channels, spatial)
        return self._choose("batchnorm", sizes, "float32", (training, fuse_relu), self._batchnorm_rule)

    def _choose(
        self,
        op: str,
        shape: tuple[Any, ...],
        dtype: DTypeLike,
        flags: tuple[Any, ...],
        rule: Callable[[tuple[Any, ...], str, tuple[Any, ...]], KernelConfig],
    ) -> KernelConfig:
        name = canonical(dtype)
        # Another measurement could choose another order of summing.
        measured = config.get("AUTOTUNE") != "off" and not config.get("DETERMINISTIC")
        key = (op, shape, name, flags, measured)
        chosen = self._chosen.get(key)
        if chosen is None:
            found = _measurements(self.profile, op, shape, name) if measured else None
            # setdefault: two threads that choose at once get one object
            chosen = self._chosen.setdefault(key, found or rule(shape, name, flags))
        return chosen

    def _matmul_rule(self, shape: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        m, n, k = shape
        (allow_vectorized,) = flags
        flops = 2 * m * n * k
        if m * n < _MATMUL_TINY_OUTPUTS or flops < _MATMUL_TINY_FLOPS:
            return self._scalar(KernelVariant.MATMUL_NAIVE)
        if flops < _MATMUL_LARGE_FLOPS:
            return self._tiles(KernelVariant.MATMUL_TILED, 16, 16, 16, 1, dtype)
        work = _REGISTER_WORK.get(self.profile.family, 4)
        if allow_vectorized and self.profile.prefers_vectors:
            width = max(4, min(self.profile.vector_width, 16))
            return self._tiles(KernelVariant.MATMUL_VECTORIZED, 64, 64, 16, work, dtype, width)
        return self._tiles(KernelVariant.MATMUL_REGISTER_TILED, 64, 64, 16, work, dtype)

    def _conv2d_rule(self, shape: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        _, _, _, height, width, kernel_h, kernel_w, stride, padding = shape
        winograd, tiled_local = flags
        if self.profile.is_cpu:
            return self._tiles(KernelVariant.CONV2D_IM2COL, 64, 64, 16, 4, dtype)
        if (kernel_h, kernel_w) == (1, 1):
            return self._tiles(KernelVariant.CONV2D_IMPLICIT_GEMM, 64, 64, 16, 4, dtype)
        if (kernel_h, kernel_w, stride) == (3, 3, (1, 1)) and winograd and is_floating(dtype):
            return self._tiles(KernelVariant.CONV2D_WINOGRAD, 32, 32, 8, 4, dtype)
        out_h = (height + 2 * padding[0] - kernel_h) // stride[0] + 1
        out_w = (width + 2 * padding[1] - kernel_w) // stride[1] + 1
        if tiled_local and out_h * out_w < _CONV_SMALL_OUTPUT:
            return self._tiles(KernelVariant.CONV2D_TILED_LOCAL, 16, 16, 8, 1, dtype)
        return self._tiles(KernelVariant.CONV2D_IMPLICIT_GEMM, 64, 64, 16, 4, dtype)

    def _elementwise_rule(self, shape: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        (n,), (allow_vectorized,) = shape, flags
        if n < _ELEMENTWISE_VECTOR_FROM or not allow_vectorized:
            return self._scalar(KernelVariant.ELEMENTWISE_SCALAR)
        width = 8 if itemsize(dtype) <= 2 else 4
        return KernelConfig(
            KernelVariant.ELEMENTWISE_VECTORIZED,
            work_per_thread=width,
            local_size_1d=self._group_limit(256),
            local_size_2d=self._fit_group(16, 16),
            use_local_memory=False,
            vector_width=width,
        )

    def _reduction_rule(self, shape: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        (n,), (kind,) = shape, flags
        if n < _REDUCTION_PARALLEL_FROM:
            return self._scalar(KernelVariant.REDUCTION_SEQUENTIAL, extra={"kind": kind, "stages": 1})
        staged = n >= _REDUCTION_WORKGROUP_FROM
        return KernelConfig(
            KernelVariant.REDUCTION_WORKGROUP if staged else KernelVariant.REDUCTION_PARALLEL,
            local_size_1d=self._group_limit(256),
            local_size_2d=self._fit_group(16, 16),
            extra={"kind": kind, "stages": 2 if staged else 1},
        )

    def _batchnorm_rule(self, shape: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        training, fuse_relu = flags
        fused = fuse_relu and not training
        variant = KernelVariant.BATCHNORM_FUSED if fused else KernelVariant.BATCHNORM_NAIVE
        return KernelConfig(
            variant,
            local_size_1d=self._group_limit(256),
            local_size_2d=self._fit_group(16, 16),
            use_local_memory=bool(training),
        )

    def _group_limit(self, wanted: int) -> int:
        """The largest power of two not above ``wanted`` and the device's work-group limit."""
        limit = max(1, min(wanted, self.profile.base.max_work_group_size))
        return 1 << (limit.bit_length() - 1)

    def _fit_group(self, columns: int, rows: int) -> tuple[int, int]:
        limit = max(1, self.profile.base.max_work_group_size)
        while columns * rows > limit:
            columns, rows = (columns, rows // 2) if rows >= columns else (columns // 2, rows)
        return columns, rows

    def _scalar(self, variant: KernelVariant, extra: dict[str, Any] | None = None) -> KernelConfig:
        return KernelConfig(
            variant,
            work_per_thread=1,
            local_size_1d=self._group_limit(256),
            local_size_2d=self._fit_group(16, 16),
            use_local_memory=False,
            use_vectorization=False,
            vector_width=1,
            extra=extra or {},
        )

    def _tiles(
        self, variant: KernelVariant, m: int, n: int, k: int, work: int, dtype: str, vector_width: int = 0
    ) -> KernelConfig:
        """A tiled config whose A and B tiles fit local memory and whose work-group fits the device's limit."""
        columns, rows = self._fit_group(n // work, m // work)
        m, n = rows * work, columns * work
        element = max(4, itemsize(dtype))  # 16-bit tiles are kept as floats
        local_memory = self.profile.base.local_mem_size
        if self.profile.base.opencl_c_version:  # NumPy has no local memory to fit
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
            local_size_1d=self._group_limit(256),
            local_size_2d=(columns, rows),
            use_vectorization=vector_width > 1,
            vector_width=max(1, vector_width),
        )


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _opencl_device(device: Any) -> Any:
    """The pyopencl device behind a device, handle or queue; None for NumPy."""
    is_queue = hasattr(device, "finish")
    return device.device if is_queue or isinstance(device, DeviceHandle) else device


def _seen_profile(device: Any) -> ExtendedDeviceProfile:
    """The extended profile of a device, handle or queue (None: the active device), as it is to be seen there."""
    if device is None:
        device = get_active_device()
    found = _opencl_device(device)
    real = extended_device_profile(found)
    if found is device:
        return real
    seen = profile_of(device)
    if seen == real.base:
        return real
    family = real.family if seen.is_cpu == real.is_cpu else family_of(seen)
    return replace(real, base=seen, family=family, unified_memory=seen.unified_memory)


_selectors: dict[Any, KernelSelector] = {}
_selectors_lock = threading.Lock()


def get_kernel_selector(device: Any = None) -> KernelSelector:
    """The one selector of a device (a pyopencl device, handle or queue; None: the active device)."""
    profile = _seen_profile(device)
    selector = _selectors.get(profile)
    if selector is None:
        with _selectors_lock:
            selector = _selectors.setdefault(profile, KernelSelector(profile=profile))
    return selector


def select_matmul_config(M: int, N: int, K: int, device: Any = None) -> KernelConfig:
    """``get_kernel_selector(device).select_matmul_kernel(M, N, K)``."""
    return get_kernel_selector(device).select_matmul_kernel(M, N, K)


def select_conv2d_config(
    batch: int,
    in_c: int,
    out_c: int,
    h: int,
    w: int,
    kh: int,
    kw: int,
    stride: int | tuple[int, int] = 1,
    pad: int | tuple[int, int] = 0,
    device: Any = None,
) -> KernelConfig:
    """``get_kernel_selector(device).select_conv2d_kernel(batch, in_c, ..., stride, pad)``."""
    return get_kernel_selector(device).select_conv2d_kernel(batch, in_c, out_c, h, w, kh, kw, stride, pad)
