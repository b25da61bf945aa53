"""The limits of a device that decide its kernels and their tiles."""

from __future__ import annotations

from typing import Any, NamedTuple

from netcl.core.device.capabilities import DeviceProfile
from netcl.core.device.drivers.llvm_processor import processor_name
from netcl.core.device.drivers.quirks import sixteen_lanes_work

_SUB_GROUPS = {"cl_khr_subgroups", "cl_intel_subgroups"}
# Processors with AVX-512 known to PoCL 3.0's LLVM 14 (Zen 4's is not), and the level for others.
_KNOWN_AVX512 = (
    "skylake-avx512", "cascadelake", "cooperlake", "icelake", "rocketlake", "tigerlake", "sapphirerapids", "x86-64-v4",
)  # fmt: skip


class Traits(NamedTuple):
    """The traits of a device that the choice of a kernel and the templates depend on."""

    is_cpu: bool
    vector: int  # float lanes of one explicit vector
    local_memory: int
    group: int = 256  # work-items that a group may have
    sub_groups: bool = False
    units: int = 1  # compute units


def traits_of(profile: DeviceProfile, device: Any = None, vector_width: int = 1) -> Traits:
    """Returns the traits of a profile; without a ``device``, ``vector_width`` gives the lanes."""
    lanes = 4
    if profile.is_cpu:
        lanes = max(4, min(16, vector_width)) if device is None else _lanes(device)
    return Traits(
        is_cpu=profile.is_cpu,
        vector=lanes,
        local_memory=profile.local_mem_size,
        group=profile.max_work_group_size,
        sub_groups=bool(_SUB_GROUPS & profile.extensions),
        units=profile.compute_units,
    )


def _lanes(device: Any) -> int:
    """Returns the float lanes of a CPU's vectors: at most 8 if multiply-adds of 16 do not compile."""
    lanes = max(4, min(16, int(device.native_vector_width_float)))
    if lanes == 16 and not device.platform.name.startswith("Intel") and not _sixteen_lanes(device):
        return 8
    return lanes


def _sixteen_lanes(device: Any) -> bool:
    # Without AVX-512 its LLVM aborts over them: known, so its users do not wait for the probe.
    processor = processor_name(device) or device.version
    has_avx512 = any(name in processor for name in _KNOWN_AVX512)
    return ("PoCL 3.0" not in device.platform.version or has_avx512) and sixteen_lanes_work(device)
