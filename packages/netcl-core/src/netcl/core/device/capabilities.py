"""Capabilities of a device, read from its driver once, and the kernel strategy derived from them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from netcl.core import config

# OpenCL's own constants, so that this module does not need pyopencl
_TYPE_BITS = ((4, "gpu"), (2, "cpu"), (8, "accel"))
_TINY_LOCAL_MEMORY = 24 * 1024


@dataclass(frozen=True)
class DeviceProfile:
    """Capabilities of a device; memory in bytes, ``extensions`` are the names that the driver reports.
    ``unified_memory``: host and device share memory, as on CPUs and on GPUs that report it.
    """

    name: str
    vendor: str
    device_type: str
    compute_units: int
    max_work_group_size: int
    global_mem_size: int
    local_mem_size: int
    extensions: frozenset[str]
    opencl_c_version: str
    has_fp16: bool
    has_subgroups: bool
    fast_atomics: bool
    has_fp64: bool
    has_svm: bool
    has_command_buffer: bool
    is_cpu: bool
    unified_memory: bool = False
    _device: Any = field(default=None, repr=False, compare=False)

    def __hash__(self) -> int:
        # Hash of a few fields that differ between devices: each call of a product looks up a cache by its device.
        return hash((self.name, self.device_type, self.compute_units, self.extensions))

    @property
    def supports_fp16(self) -> bool:
        """The same as ``has_fp16``: an extension names fp16. Storage in half precision needs neither."""
        return self.has_fp16

    @property
    def tiny_local_mem(self) -> bool:
        """True if the local memory is below 24 KB."""
        return self.local_mem_size < _TINY_LOCAL_MEMORY

    @property
    def half_arithmetic(self) -> bool:
        """True if half arithmetic works: tested by a small kernel in a child process, once per driver version."""
        if self._device is None:
            return self.has_fp16
        return self.has_fp16 and bool(_opencl().quirks.half_works(self._device))


def type_of(dev: Any) -> str:
    """Returns the type bitfield of a pyopencl device as "gpu", "cpu", "accel" or "other"."""
    return next((name for bit, name in _TYPE_BITS if int(dev.type) & bit), "other")


@cache
def _opencl() -> Any:
    return import_module("netcl.core.device.opencl_modules")


def _host_profile() -> DeviceProfile:
    """Returns the profile of NumPy on this machine: half and double work, OpenCL's other features do not apply."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 0
    return DeviceProfile(
        name=f"NumPy {np.__version__}",
        vendor=platform.machine(),
        device_type="cpu",
        compute_units=os.cpu_count() or 1,
        max_work_group_size=1,
        global_mem_size=memory,
        local_mem_size=0,
        extensions=frozenset(),
        opencl_c_version="",
        has_fp16=True,
        has_subgroups=False,
        fast_atomics=False,
        has_fp64=True,
        has_svm=False,
        has_command_buffer=False,
        is_cpu=True,
        unified_memory=True,
    )


@lru_cache(maxsize=64)
def device_profile(cl_device: Any = None) -> DeviceProfile:
    """Returns the profile of a pyopencl device; None is the NumPy host. Cached per device."""
    if cl_device is None:
        return _host_profile()
    extensions = frozenset(cl_device.extensions.split())
    device_type = type_of(cl_device)
    return DeviceProfile(
        name=cl_device.name.strip(),
        vendor=cl_device.vendor.strip(),
        device_type=device_type,
        compute_units=int(cl_device.max_compute_units),
        max_work_group_size=int(cl_device.max_work_group_size),
        global_mem_size=int(cl_device.global_mem_size),
        local_mem_size=int(cl_device.local_mem_size),
        extensions=extensions,
        opencl_c_version=cl_device.opencl_c_version.strip(),
        has_fp16=any("fp16" in name for name in extensions),
        has_subgroups=any("subgroup" in name for name in extensions),
        fast_atomics=bool(extensions & {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"}),
        has_fp64="cl_khr_fp64" in extensions,
        has_svm=_opencl().has_svm(cl_device),
        has_command_buffer="cl_khr_command_buffer" in extensions,
        is_cpu=device_type == "cpu",
        unified_memory=device_type == "cpu" or (device_type == "gpu" and bool(cl_device.host_unified_memory)),
        _device=cl_device,
    )


# Profiles that override the driver's, by context: ``testing.masked`` makes a context for each emulated device.
_overrides: dict[int, DeviceProfile] = {}


def profile_of(place: Any = None) -> DeviceProfile:
    """Returns the profile of the device of a queue or DeviceHandle, or its override; None is the NumPy host."""
    context = None if place is None else place.context
    profile = getattr(getattr(place, "queue", place), "profile", None)
    if isinstance(profile, DeviceProfile):  # of another distribution's backend
        return profile
    if context is None:
        return device_profile(None)
    return _overrides.get(context.int_ptr) or device_profile(getattr(place, "queue", place).device)


def override_profile(context: Any, profile: DeviceProfile) -> None:
    """Overrides the profile of the device in this context; the caller must never release the context."""
    _overrides[context.int_ptr] = profile


_CAPABILITIES = {
    "fp16": "has_fp16",
    "fp64": "has_fp64",
    "subgroups": "has_subgroups",
    "svm": "has_svm",
    "int64_atomics": "fast_atomics",
    "command_buffer": "has_command_buffer",
}


def requirements(requires: str | Iterable[str]) -> tuple[str, ...]:
    """Returns names of capabilities (see ``_CAPABILITIES``) or extensions as a tuple; ValueError for an unknown one."""
    needs = (requires,) if isinstance(requires, str) else tuple(requires)
    for need in needs:
        if need not in _CAPABILITIES and not need.startswith("cl_"):
            raise ValueError(
                f"unknown capability {need!r}; expected one of {' '.join(_CAPABILITIES)}, or an extension cl_..."
            )
    return needs


def has_capabilities(profile: DeviceProfile, needs: Iterable[str]) -> bool:
    """True if the device has all the capabilities and extensions."""
    return all(
        bool(getattr(profile, _CAPABILITIES[need])) if need in _CAPABILITIES else need in profile.extensions
        for need in needs
    )


def kernel_strategy(profile: DeviceProfile) -> str:
    """Returns ``"portable"`` or ``"optimized"``, the kernels that suit the device; NETCL_KERNEL_STRATEGY overrides it.
    "portable" for CPUs and for local memory below 24 KB; "optimized" with sub-groups or fp16, and for NVIDIA and AMD.
    """
    forced: str = config.get("KERNEL_STRATEGY")
    if forced != "auto":
        return forced
    if profile.is_cpu or profile.tiny_local_mem:
        return "portable"
    vendor = profile.vendor.lower()
    known_vendor = any(part in vendor for part in ("nvidia", "amd", "advanced micro devices"))
    return "optimized" if profile.has_subgroups or profile.has_fp16 or known_vendor else "portable"
