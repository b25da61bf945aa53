"""Chooses the kernel of every contraction and convolution by one policy, and reports the choice by selectors.

Kernels call the functions of this module with a problem and the traits of their device; a ``KernelSelector`` answers
for sizes, by the same functions. Policy only: no kernel text, and nothing of a backend is imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile, profile_of
from netcl.core.device.discovery import DeviceHandle, get_active_device
from netcl.core.device.profile import ExtendedDeviceProfile, extended_device_profile, family_of
from netcl.core.dtypes import DTypeLike, canonical, itemsize
from netcl.core.tuning import matrix_units, small_channels, tiles, winograd
from netcl.core.tuning.conv_plans import blocks_of, conv_plan, dense, restricted
from netcl.core.tuning.matmul_precision import get_float32_matmul_precision
from netcl.core.tuning.original_api import SMALL_OUTPUT, KernelConfig, KernelVariant, config_by_sizes
from netcl.core.tuning.problems import Contraction, Geometry, dense_steps, has_short_offsets
from netcl.core.tuning.traits import Traits, traits_of
from netcl.core.tuning.unit_table import UNITS

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

CONV_WORKSPACE = 16 * 2**20  # bytes of padded images at a time; a single image may take more
GPU_CONV_WORKSPACE = 64 * 2**20  # the same for devices that need many work-groups at a time
_DTYPES = ("float32", "float64", "float16", "bfloat16")  # of contractions
_SMALL = 1 << 20  # products below which one work-item per result may win on a CPU
_LONG = 512  # products from which on sums of few tiles are computed by split-K on a GPU
_DEPTHWISE_ROWS, _DEPTHWISE_MOST = 4, 64  # rows, and terms or columns, of the kernels for depthwise convolutions
_GEMV_ROWS = 4  # rows or columns up to which a CPU reads the other operand once, in place
GEMV_VARIANTS = ("dot", "stream")  # of CPUs, by the layout of B: contiguous along k, or along its columns
_SKINNY_MOST_ROWS = 7  # of a matrix; from 8 on tiles are full enough
_SKINNY_LEAST_K = 64  # below, one work-item for each output is as good
_TILED_ROWS = 8  # below, tiles are mostly empty
_SPAN_GROUP, _SPAN_MEMORY = 256, 36 * 1024  # requirements of tiles of 128 x 128


# ------------------------------------------------------------------------------------------------------- contractions


def has_skinny(device: Traits, c: Contraction) -> bool:
    """True if the skinny kernel (split-K GEMV) can run a contraction and is expected to be faster."""
    few = c.m <= _SKINNY_MOST_ROWS and prod(c.k) >= _SKINNY_LEAST_K and not c.accumulate
    return few and device.group >= tiles.LEAST_GROUP and dense_steps(c) is not None


def has_implicit_gemm(device: Traits, c: Contraction) -> bool:
    """True if the implicit GEMM kernel can run a contraction and is expected to be faster."""
    room = device.group >= _SPAN_GROUP and device.local_memory >= _SPAN_MEMORY
    return not device.is_cpu and room and c.m >= _TILED_ROWS and has_short_offsets(c)


def has_wide(device: Traits, c: Contraction) -> bool:
    """True if the kernel for large matrices can run a contraction and is expected to be faster."""
    enough = min(c.m, prod(c.n)) >= tiles.SPAN // 2
    return enough and device.group >= _SPAN_GROUP and device.local_memory >= _SPAN_MEMORY and dense_steps(c) is not None


def has_broadcast(device: Traits, c: Contraction) -> bool:
    """True if the kernel for sub-groups can run a contraction; never with NETCL_KERNEL_STRATEGY=portable."""
    able = device.sub_groups and device.group >= tiles.SUB_GROUPS_TILE[2] and not c.accumulate
    return able and dense_steps(c) is not None and config.get("KERNEL_STRATEGY") != "portable"


def contraction_kernel(device: Traits, c: Contraction) -> str:
    """Returns ``rows`` on CPU devices; elsewhere ``slices`` (split-K GEMV) for a few rows, ``windows`` (implicit GEMM)
    for few tiles with long sums, ``wide`` (register-tiled GEMM) for large matrices, but ``windows`` if half of its tile
    would be empty, ``tiled``, and ``direct`` for problems too small for these.
    """
    return "rows" if device.is_cpu else _gpu_kernel(device, c)


@lru_cache(maxsize=1024)
def _gpu_kernel(device: Traits, c: Contraction) -> str:
    if has_skinny(device, c):
        return "slices"
    if has_implicit_gemm(device, c) and not c.partial and prod(c.k) >= _LONG and tiles.implicit_gemm_tile(c)[1] > 1:
        return "windows"
    if has_wide(device, c):
        half_empty = c.m <= tiles.SPAN // 2 and has_implicit_gemm(device, c) and not c.partial
        return "windows" if half_empty else "wide"
    return "tiled" if c.m >= _TILED_ROWS and device.group >= tiles.LEAST_GROUP else "direct"


def contraction_kernels(device: Traits, c: Contraction) -> tuple[str, ...]:
    """Returns the kernels to measure for a contraction on this device, the default choice first."""
    first = contraction_kernel(device, c)
    if device.is_cpu:
        small = c.m * prod(c.n) * prod(c.k) <= _SMALL
        return tuple(dict.fromkeys((first, "rows", "packed", *(("direct",) if small else ()))))
    able = {
        "windows": has_implicit_gemm(device, c), "wide": has_wide(device, c), "broadcast": has_broadcast(device, c),
        "slices": has_skinny(device, c), "tiled": device.group >= tiles.LEAST_GROUP, "direct": True,
    }  # fmt: skip
    return tuple(dict.fromkeys((first, *(name for name, can in able.items() if can))))


def possible(device: Traits, c: Contraction, kernel: str) -> str:
    """Returns ``kernel``, or ``tiled`` if ``kernel`` was requested by name and cannot run the contraction."""
    if kernel == "broadcast":
        return kernel if has_broadcast(device, c) else "tiled"
    if kernel in UNITS:
        return kernel if matrix_units.fits(kernel, c) else contraction_kernel(device, c)
    if kernel in ("wide", "slices"):
        return "tiled" if dense_steps(c) is None or c.accumulate else kernel
    return kernel


def swaps(is_cpu: bool, m: int, n: int) -> bool:
    """True if out^T = B^T A^T is computed, so that the few columns of a product are rows."""
    return min(m, n) <= (_GEMV_ROWS if is_cpu else _SKINNY_MOST_ROWS) and m > n


def gemv_kernel(is_cpu: bool, c: Contraction) -> str | None:
    """Returns ``stream`` or ``dot``, the GEMV kernels of CPUs; None if there are too many rows or the layout does not
    fit.
    """
    if not is_cpu or min(c.m, c.n[3]) > _GEMV_ROWS:
        return None
    if c.b_n[3] == 1 and c.n[3] > 1:
        return "stream"
    return "dot" if c.a_k[3] == 1 and c.b_k[3] == 1 else None


def product_kernel(device: Traits, c: Contraction, measured: str | None = None, unit: str | None = None) -> str:
    """Returns the kernel of a matrix product: the ``measured`` one if it can run this product, else the matrix ``unit``
    that ``product_unit`` gives, else the rule's.
    """
    gemv = gemv_kernel(device.is_cpu, c)
    if measured is not None and (measured == gemv or measured in product_kernels(device, c, unit)):
        return measured
    return gemv or product_kernels(device, c, unit)[0]


def product_unit(profile: DeviceProfile, c: Contraction, dtype: str) -> str | None:
    """Returns the matrix unit for a product, if the device has one and it pays; else None."""
    return matrix_units.unit_of(profile, dtype, get_float32_matmul_precision(), c)


def product_kernels(device: Traits, c: Contraction, unit: str | None = None) -> tuple[str, ...]:
    """Returns the kernels to measure for a product by contractions, the default choice first."""
    others = contraction_kernels(device, c)
    return (unit, *others) if unit is not None else others


# ------------------------------------------------------------------------------------------------------- convolutions


class Chosen(NamedTuple):
    """The algorithm of a convolution: direct for few channels, Winograd, or contractions, each
    with the kernel that ``part_kernel`` gives for ``wanted``.
    """

    small_channels: small_channels.Problem | None
    winograd: winograd.Problem | None
    wanted: str | None


def convolution_unit(profile: DeviceProfile, kind: str, g: Geometry, dtype: str) -> str | None:
    """Returns the matrix unit for a direction of a convolution, if the device has one and it pays; else None."""
    return matrix_units.convolution_unit_of(profile, dtype, kind, g)


def choose_convolution(
    device: Traits, kind: str, g: Geometry, dtype: str, wanted: str | None, few_channels: bool = True
) -> Chosen:
    """Returns the algorithm of a direction (forward, grad_input, grad_weight); ``wanted`` is a requested or measured
    kernel. Without ``few_channels`` the kernels for few channels are excluded.
    """
    small = small_channels.chosen(device, kind, g, dtype, wanted) if few_channels else None
    filtering = None if small is not None else winograd.chosen(device, kind, g, dtype, wanted)
    return Chosen(small, filtering, wanted)


def part_kernel(device: Traits, c: Contraction, wanted: str | None) -> str:
    """Returns the kernel of one contraction of a convolution."""
    if wanted is None and has_implicit_gemm(device, c):
        return "windows"
    return wanted or depthwise_kernel(device, c) or contraction_kernel(device, c)


def depthwise_kernel(device: Traits, c: Contraction) -> str | None:
    """Returns ``planes`` or ``taps`` for batches of small contractions on CPU devices, as in depthwise convolutions;
    else None.
    """
    if not device.is_cpu or c.m > _DEPTHWISE_ROWS or prod(c.batch) < 2:
        return None
    if prod(c.k) <= _DEPTHWISE_MOST and not c.partial:
        return "planes"
    return "taps" if prod(c.n) <= _DEPTHWISE_MOST else None


def wished_kernel(device: Traits, g: Geometry, algo: str | None) -> str | None:
    """Returns the kernel named by the ``algo`` of a convolution, or by NETCL_CONV_TILED_LOCAL=1 for small outputs of a
    GPU; None for the device's choice.
    """
    if algo == "naive":
        return "direct"
    tiled = algo == "tiled_local" or (algo is None and not device.is_cpu and _is_tiled_local(g))
    if tiled and device.group >= tiles.LEAST_GROUP:
        return "tiled"
    return "rows" if algo == "implicit_gemm" and device.is_cpu else None


def _is_tiled_local(g: Geometry) -> bool:
    few = prod(g.out) < SMALL_OUTPUT and prod(g.kernel) > 1
    return few and bool(config.get("CONV_TILED_LOCAL"))


def allowed(measured: str | None) -> str | None:
    """Returns the kernel that was measured for a convolution, unless NETCL_CONV_WINOGRAD=0 excludes it."""
    if measured is not None and measured.startswith("winograd") and not config.get("CONV_WINOGRAD"):
        return None
    return measured


def convolution_candidates(device: Traits, g: Geometry) -> tuple[str, ...]:
    """Returns the kernels to measure for a forward convolution."""
    c = conv_plan("forward", g).parts[0].contraction
    direct = ("windows",) if has_implicit_gemm(device, c) else small_channels.kernels(device, g)
    return (*direct, *contraction_kernels(device, c), *winograd.kernels(device, g))


def convolution_kernels(
    device: Traits, kind: str, g: Geometry, dtype: str, wanted: str | None = None
) -> tuple[str, ...]:
    """Returns the kernels that are launched for a direction, of each contraction of the first block of images."""
    if g.sparse:
        return convolution_kernels(device, kind, dense(g), dtype, wanted)
    chosen = choose_convolution(device, kind, g, dtype, wanted)
    if chosen.small_channels is not None:
        return ("channels",)
    if chosen.winograd is not None:
        return (winograd.name_of(chosen.winograd),)
    plan = conv_plan(kind, g)
    whole = [part.contraction for part in plan.parts]
    if kind == "grad_weight":
        first = [replace(whole[0], partial=True)]
    elif all(part_kernel(device, c, wanted) == "windows" for c in whole):
        return ("windows",)
    else:
        workspace = CONV_WORKSPACE if device.is_cpu else GPU_CONV_WORKSPACE
        _, blocks = blocks_of(plan, itemsize(dtype), workspace)
        first = [restricted(part, *blocks[0]) for part in plan.parts]
    kernels = (possible(device, c, part_kernel(device, c, wanted)) for c in first if not c.empty)
    # A requested kernel that cannot run this convolution is replaced by the contraction by rows.
    return tuple(
        dict.fromkeys("rows" if name == "channels" or name.startswith("winograd") else name for name in kernels)
    )


# ---------------------------------------------------------------------------------------------------------- selectors


Measurements: TypeAlias = Callable[[ExtendedDeviceProfile, str, tuple[Any, ...], str], "KernelConfig | None"]


_on_disk: Measurements | None = None  # of netcl.core.tuning.measurements, which registers itself
_measurements: Measurements | None = None  # of the caller, asked in its place


def keep_on_disk(lookup: Measurements) -> None:
    """Makes ``lookup`` the default table of selectors, unless ``register_measurements`` sets another."""
    global _on_disk
    _on_disk = lookup


def register_measurements(lookup: Measurements | None) -> None:
    """Makes selectors call ``lookup(profile, op, shape, dtype)`` for a measured config before they apply their rules,
    in place of the autotuner's table on disk.

    ``op`` is matmul, conv2d, elementwise, reduction or batchnorm; ``shape`` the positional sizes of its ``select_``
    method. With NETCL_AUTOTUNE=off or NETCL_DETERMINISTIC=1 it is not called. Selectors forget earlier choices; None
    goes back to the table on disk.
    """
    global _measurements
    _measurements = lookup
    forget_choices()


def forget_choices() -> None:
    """Makes all selectors choose again."""
    with _selectors_lock:
        for selector in (*_selectors.values(), *_of_queues.values()):
            selector.clear_cache()


class KernelSelector:
    """Chooses a KernelConfig per (operation, shape, dtype, flags), once each; thread-safe.

    ``device``: a pyopencl device, a handle or a queue (None: the active device); ``profile`` instead of it, for
    decisions about a device that is not at hand.

    ``extra["kernel"]`` of matmul and conv2d names the kernel that is launched for contiguous operands (``numpy`` on the
    NumPy engine), and ``extra["tile"]`` its (rows, columns, depth). Without a measurement ``variant`` and the other
    fields follow the original API's rule for the sizes. A measured config has the fields of its kernel.
    """

    def __init__(self, device: Any = None, profile: ExtendedDeviceProfile | DeviceProfile | None = None) -> None:
        if isinstance(profile, DeviceProfile):
            profile = ExtendedDeviceProfile(profile, family_of(profile))
        self.profile: ExtendedDeviceProfile = profile or _seen_profile(device)
        self._chosen: dict[tuple[Any, ...], KernelConfig] = {}
        self._measured: dict[tuple[Any, ...], KernelConfig | None] = {}
        self._plain: frozenset[str] = frozenset()
        self._traits: Traits | None = None

    def clear_cache(self) -> None:
        """Forgets the choices, so that rules and measurements decide again."""
        self._chosen.clear()
        self._measured.clear()

    @property
    def traits(self) -> Traits:
        """The limits of the device that decide."""
        if self._traits is None:
            base = self.profile.base
            self._traits = traits_of(base, base._device, self.profile.vector_width)
        return self._traits

    def with_plain(self, dtype: str) -> KernelSelector:
        """Returns a selector of the same profile for a queue on which contractions of ``dtype`` are run by the plain
        kernel, because the driver did not build the others there.
        """
        selector = KernelSelector(profile=self.profile)
        selector._traits, selector._plain = self._traits, self._plain | {dtype}
        return selector

    def measured(self, op: str, shape: tuple[Any, ...], dtype: str) -> KernelConfig | None:
        """Returns the measured config for a shape; None if there is none, or if NETCL_AUTOTUNE=off or
        NETCL_DETERMINISTIC=1.
        """
        if config.get("AUTOTUNE") == "off" or config.get("DETERMINISTIC"):
            return None  # another measurement could choose another order of summing
        key = (op, shape, dtype)
        try:
            return self._measured[key]
        except KeyError:
            lookup = _measurements or _on_disk
            return self._measured.setdefault(key, lookup and lookup(self.profile, op, shape, dtype))

    def select_matmul_kernel(
        self, M: int, N: int, K: int, dtype: DTypeLike = "float32", allow_vectorized: bool = True
    ) -> KernelConfig:
        """Returns the config for (M, K) @ (K, N): naive if MN < 256 or 2MNK < 1e5, tiled below 1e7, else
        register-tiled.

        Large problems are vectorized on OpenCL CPUs and on GPUs that prefer vectors of four floats.
        """
        return self._choose("matmul", (M, N, K), dtype, allow_vectorized)

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
        """Returns the config for a convolution of (batch, in_channels, height, width) by (out_channels, in_channels,
        kernel_h, kernel_w).

        CPUs im2col; 1x1 implicit GEMM; 3x3 with stride 1 Winograd unless NETCL_CONV_WINOGRAD=0; fewer than 256 output
        positions tiled local memory with NETCL_CONV_TILED_LOCAL=1; else implicit GEMM.
        """
        sizes = (batch, in_channels, out_channels, height, width, kernel_h, kernel_w, _pair(stride), _pair(padding))
        return self._choose("conv2d", sizes, dtype, config.get("CONV_WINOGRAD"), config.get("CONV_TILED_LOCAL"))

    def select_elementwise_kernel(
        self, n: int, dtype: DTypeLike = "float32", allow_vectorized: bool = True
    ) -> KernelConfig:
        """Returns the original API's rule for n elements: vectorized from 1024 on, 8 wide for dtypes of one or two
        bytes, else 4.

        Generated kernels of expressions do not use it.
        """
        return self._choose("elementwise", (n,), dtype, allow_vectorized)

    def select_reduction_kernel(self, n: int, kind: str = "sum") -> KernelConfig:
        """Returns the original API's rule for n elements per result: sequential below 256, parallel below 65536, else
        in stages over work-groups. Generated kernels do not use it.
        """
        return self._choose("reduction", (n,), "float32", kind)

    def select_batchnorm_kernel(
        self, batch: int, channels: int, spatial: int, training: bool = True, fuse_relu: bool = False
    ) -> KernelConfig:
        """Returns the original API's rule: fused with the ReLU exactly when ``fuse_relu`` and not ``training``.
        Generated kernels do not use it.
        """
        return self._choose("batchnorm", (batch, channels, spatial), "float32", training, fuse_relu)

    def _choose(self, op: str, sizes: tuple[Any, ...], dtype: DTypeLike, *flags: Any) -> KernelConfig:
        name = canonical(dtype)
        measured = config.get("AUTOTUNE") != "off" and not config.get("DETERMINISTIC")
        key = (op, sizes, name, flags, measured, config.get("KERNEL_STRATEGY"), get_float32_matmul_precision())
        chosen = self._chosen.get(key)
        if chosen is None:
            # setdefault: two threads that choose at once get one object
            chosen = self._chosen.setdefault(key, self._config(op, sizes, name, flags))
        return chosen

    def _config(self, op: str, sizes: tuple[Any, ...], dtype: str, flags: tuple[Any, ...]) -> KernelConfig:
        if op == "matmul":
            measured, kernel = self._product(sizes, dtype)
        elif op == "conv2d":
            (measured, kernel), g = self._convolution(sizes, dtype)
            sizes = (sizes[5:7], sizes[7], prod(g.out))
        else:
            measured, kernel = self.measured(op, sizes, dtype), None
        if measured is not None and measured.extra.get("kernel", kernel) == kernel:
            return measured
        ruled = config_by_sizes(self.profile, op, sizes, dtype, *flags)
        if kernel is not None:
            ruled.extra["kernel"] = kernel
        if kernel not in (None, "numpy"):
            runs = tiles.config_of(self.traits, op, kernel, dtype)
            ruled.extra["tile"] = (runs.tile_m, runs.tile_n, runs.tile_k)
        return ruled

    def _product(self, shape: tuple[int, ...], dtype: str) -> tuple[KernelConfig | None, str | None]:
        """Returns the measured config of a product, and the launched kernel; None if there is nothing to launch."""
        measured, c = self.measured("matmul", shape, dtype), _product_of(self.profile.is_cpu, *shape)
        if c.empty:
            return measured, None
        unit = product_unit(self.profile.base, c, dtype)
        return measured, self._launched(dtype, measured, lambda name: product_kernel(self.traits, c, name, unit))

    def _convolution(
        self, shape: tuple[Any, ...], dtype: str
    ) -> tuple[tuple[KernelConfig | None, str | None], Geometry]:
        """Returns the same for a forward convolution, and its geometry."""
        batch, channels, filters, *size, kernel_h, kernel_w, stride, padding = shape
        out = [(x + 2 * pad - k) // s + 1 for x, pad, k, s in zip(size, padding, (kernel_h, kernel_w), stride)]
        g = Geometry(
            batch, channels, filters, 1, (1, *size), (1, kernel_h, kernel_w), (1, max(0, out[0]), max(0, out[1])),
            (1, *stride), (1, 1, 1), ((0, 0), (padding[0], padding[0]), (padding[1], padding[1])),
        )  # fmt: skip
        if g.sparse:
            # It runs, and is measured, as the dense convolution of the elements that it reads.
            g, shape = dense(g), (*shape[:3], *out, 1, 1, (1, 1), padding)
        measured = self.measured("conv2d", shape, dtype)

        def choose(name: str | None) -> str | None:
            requested = allowed(name) or wished_kernel(self.traits, g, None)
            unit = convolution_unit(self.profile.base, "forward", g, dtype) if requested is None else None
            return unit or next(iter(convolution_kernels(self.traits, "forward", g, dtype, requested)), None)

        empty = 0 in (batch, channels, filters, *g.out, kernel_h, kernel_w)
        return (measured, None if empty else self._launched(dtype, measured, choose)), g

    def _launched(
        self, dtype: str, measured: KernelConfig | None, choose: Callable[[str | None], str | None]
    ) -> str | None:
        if dtype not in _DTYPES:
            return None
        if not self.profile.base.opencl_c_version:
            return "numpy"
        return "plain" if dtype in self._plain else choose(None if measured is None else measured.extra.get("kernel"))


def _product_of(is_cpu: bool, m: int, n: int, k: int) -> Contraction:
    """Returns the contraction of (m, k) @ (k, n), both contiguous."""
    a_row, a_k, b_k, b_n, out_row, out_n = k, 1, n, 1, n, 1
    if swaps(is_cpu, m, n):
        m, n, a_row, a_k, b_k, b_n, out_row, out_n = n, m, b_n, b_k, a_k, a_row, out_n, out_row
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=a_row, a_k=(0, 0, 0, a_k), b_k=(0, 0, 0, b_k), b_n=(0, 0, 0, b_n),
        out_row=out_row, out_n=(0, 0, 0, out_n),
    )  # fmt: skip


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _opencl_device(device: Any) -> Any:
    """Returns the pyopencl device behind a device, handle or queue; None for NumPy."""
    is_queue = hasattr(device, "finish")
    return device.device if is_queue or isinstance(device, DeviceHandle) else device


def _seen_profile(device: Any) -> ExtendedDeviceProfile:
    """Returns the extended profile of a device, handle or queue (None: the active device), with the limits of the
    queue's capability mask applied.
    """
    if device is None:
        device = get_active_device()
    opencl_device = _opencl_device(device)
    real = extended_device_profile(opencl_device)
    if opencl_device is device:
        return real
    seen = profile_of(device)
    if seen == real.base:
        return real
    family = real.family if seen.is_cpu == real.is_cpu else family_of(seen)
    return replace(real, base=seen, family=family, unified_memory=seen.unified_memory)


_selectors: dict[Any, KernelSelector] = {}  # by profile
_of_queues: dict[Any, KernelSelector] = {}  # of queues on which kernels failed to build
_selectors_lock = threading.RLock()


def get_kernel_selector(device: Any = None) -> KernelSelector:
    """Returns the selector of a device (a pyopencl device, handle or queue; None: the active device).

    Devices of one profile share a selector, except for a queue on which kernels failed to build: it has its own, which
    names the plain kernel for them. A pyopencl device is treated like a queue without failures.
    """
    if device is None:
        device = get_active_device()
    of_queue = _of_queues.get(device.queue if isinstance(device, DeviceHandle) else device)
    if of_queue is not None:
        return of_queue
    profile = _seen_profile(device)
    selector = _selectors.get(profile)
    if selector is None:
        with _selectors_lock:
            selector = _selectors.setdefault(profile, KernelSelector(profile=profile))
    return selector


def only_plain(queue: Any, dtype: str) -> None:
    """Makes the plain kernel run all later contractions of ``dtype`` on ``queue``: its driver did not build the
    others.
    """
    selector = get_kernel_selector(queue).with_plain(dtype)
    with _selectors_lock:
        _of_queues[queue] = selector


def select_matmul_config(M: int, N: int, K: int, device: Any = None) -> KernelConfig:
    """Returns ``get_kernel_selector(device).select_matmul_kernel(M, N, K)``."""
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
    """Returns ``get_kernel_selector(device).select_conv2d_kernel(batch, in_c, ..., stride, pad)``."""
    return get_kernel_selector(device).select_conv2d_kernel(batch, in_c, out_c, h, w, kh, kw, stride, pad)
