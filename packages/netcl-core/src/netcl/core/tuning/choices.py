"""The kernels that a device launches for sizes: the measured ones, or the choice of ``candidates``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias, TypeVar

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile, profile_of
from netcl.core.device.discovery import DeviceHandle, get_active_device
from netcl.core.device.profile import ExtendedDeviceProfile, extended_device_profile, family_of
from netcl.core.dtypes import DTypeLike, canonical
from netcl.core.tuning.candidates import (
    Convolution,
    config_by_sizes,
    config_of,
    launched,
    product_kernel,
    product_unit,
    requested,
    swaps,
)
from netcl.core.tuning.conv_plans import dense
from netcl.core.tuning.kernel_config import KernelConfig
from netcl.core.tuning.matmul_precision import get_float32_matmul_precision
from netcl.core.tuning.problems import Contraction, Geometry
from netcl.core.tuning.traits import Traits, traits_of
from netcl.core.tuning.unit_table import UNITS

_DTYPES = ("float32", "float64", "float16", "bfloat16")  # of contractions

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
    with _lock:
        for choices in _choices.values():
            choices.clear_cache()


Choices = TypeVar("Choices", bound="KernelChoices")


class KernelChoices:
    """The kernels of a device: a pyopencl device, a handle or a queue (None: the active device); ``profile`` instead of
    it, for decisions about a device that is not at hand. Thread-safe.
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

    def with_plain(self: Choices, *dtypes: str) -> Choices:
        """Returns the choices of the same profile for a queue on which contractions of ``dtypes`` are run by the plain
        kernel, because the driver did not build the others there.
        """
        choices = type(self)(profile=self.profile)
        choices._traits, choices._plain = self._traits, self._plain.union(dtypes)
        return choices

    def measured(self, op: str, shape: tuple[Any, ...], dtype: str) -> KernelConfig | None:
        """Returns the measured config for a shape; None without, or if NETCL_AUTOTUNE=off or NETCL_DETERMINISTIC=1."""
        if config.get("AUTOTUNE") == "off" or config.get("DETERMINISTIC"):
            return None  # another measurement could choose another order of summing
        key = (op, shape, dtype)
        try:
            return self._measured[key]
        except KeyError:
            lookup = _measurements or _on_disk
            return self._measured.setdefault(key, lookup and lookup(self.profile, op, shape, dtype))

    def config(self, op: str, sizes: tuple[Any, ...], dtype: DTypeLike, *flags: Any) -> KernelConfig:
        """Returns the measured config of the launched kernel, or the original API's for the sizes with the launched
        kernel in ``extra``; the same object for the same arguments and settings.
        """
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
            runs = config_of(self.traits, op, kernel, dtype)
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
            p = Convolution("forward", g, dtype)
            wanted = requested(self.traits, self.profile.base, p, name)
            return wanted if wanted in UNITS else next(iter(launched(self.traits, p, wanted)), None)

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


def _opencl_device(device: Any) -> Any:
    """Returns the pyopencl device behind a device, handle or queue; None for NumPy."""
    is_queue = hasattr(device, "finish")
    return device.device if is_queue or isinstance(device, DeviceHandle) else device


def _seen_profile(device: Any) -> ExtendedDeviceProfile:
    """Returns the extended profile of a device, handle or queue (None: the active one), within the queue's mask."""
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


_choices: dict[tuple[Any, ...], Any] = {}  # by class, profile and dtypes of plain kernels
_plain: dict[Any, frozenset[str]] = {}  # by queue, the dtypes of kernels that failed to build
_lock = threading.RLock()


def choices_of(device: Any, kind: Any = KernelChoices) -> Any:
    """Returns the choices of a device (a pyopencl device, handle or queue; None: the active device).

    Devices of one profile share them, except for a queue on which kernels failed to build: its choices name the plain
    kernel for them. A pyopencl device is treated like a queue without failures.
    """
    if device is None:
        device = get_active_device()
    plain = _plain.get(device.queue if isinstance(device, DeviceHandle) else device, frozenset())
    profile = _seen_profile(device)
    choices = _choices.get((kind, profile, plain))
    if choices is None:
        with _lock:
            made = kind(profile=profile).with_plain(*plain)
            choices = _choices.setdefault((kind, profile, plain), made)
    return choices


def only_plain(queue: Any, dtype: str) -> None:
    """Makes the plain kernel run all later contractions of ``dtype`` on ``queue``: others did not build there."""
    with _lock:
        _plain[queue] = _plain.get(queue, frozenset()) | {dtype}
