"""Device properties for the kernel selector beyond the capabilities: vendor generation, group width, vector width."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from netcl.core.device.capabilities import (
    DeviceProfile as DeviceProfile,
)
from netcl.core.device.capabilities import (
    device_profile as device_profile,
)
from netcl.core.device.capabilities import (
    kernel_strategy as kernel_strategy,
)


class GPUFamily(Enum):
    """Vendor generations: a pattern of the device's name, the work-items that run in lockstep, and the least compute
    capability, which NVIDIA reports. The value begins with the vendor; the first match counts.
    """

    def __new__(cls, value: str, pattern: str | None = None, wave: int = 32, capability: Any = None) -> GPUFamily:
        row = object.__new__(cls)
        row._value_, row.pattern, row.wave, row.capability = value, pattern, wave, capability
        return row

    pattern: str | None
    wave: int
    capability: tuple[int, int] | None

    def matches(self, vendor: str, name: str) -> bool:
        """True if a device's vendor and name are of this family."""
        of_vendor = self.value.partition("-")[0].replace("amd", "amd|advanced micro")
        patterns = () if self.pattern is None else ((of_vendor, vendor), (self.pattern, name))
        return bool(patterns) and all(re.search(pattern, text, re.IGNORECASE) for pattern, text in patterns)

    NVIDIA_BLACKWELL = "nvidia-blackwell", r"\b(rtx 50\d\d|b[12]00|gb\d+|rtx pro)", 32, (10, 0)
    NVIDIA_HOPPER = "nvidia-hopper", r"\b(h[12]00|h800|h20|gh200)", 32, (9, 0)
    NVIDIA_ADA = "nvidia-ada", r"\b(rtx 40\d\d|rtx \d+ ada|l40s?|l4)\b|\bada\b", 32, (8, 9)
    NVIDIA_AMPERE = "nvidia-ampere", r"\b(rtx 30\d\d|rtx a\d+|a100|a800|a[123456]0g?|a2|a16|orin)\b", 32, (8, 0)
    NVIDIA_TURING = "nvidia-turing", r"\b(rtx 20\d\d|gtx 16\d\d|t4|t\d{3,4}|quadro rtx|titan rtx)\b", 32, (7, 5)
    NVIDIA_VOLTA = "nvidia-volta", r"\b(v100|titan v|gv100|xavier)\b", 32, (7, 0)
    NVIDIA_PASCAL = "nvidia-pascal", r"\b(gtx 10\d\d|gt 10\d\d|p100|p40|p4|titan xp?|quadro g?p\d+)\b", 32, (6, 0)
    NVIDIA_MAXWELL = "nvidia-maxwell", r"\b(gtx 9\d\d|gtx 75\d|m40|m60|quadro m\d+)\b", 32, (5, 0)
    NVIDIA_KEPLER = "nvidia-kepler", r"\b(gtx [67]\d\d|k[248]0|tesla k\d+|quadro k\d+)", 32, (3, 0)
    NVIDIA_OTHER = "nvidia", ""
    AMD_RDNA4 = "amd-rdna4", r"gfx12|radeon rx 90\d\d"
    AMD_RDNA3 = "amd-rdna3", r"gfx11|radeon rx 7\d\d\d|radeon pro w7|radeon (7[4-9]0m|8[0-9]0m)"
    AMD_RDNA2 = "amd-rdna2", r"gfx103|navi 2|radeon rx 6\d\d\d|radeon pro w6|radeon 6[68]0m"
    AMD_RDNA1 = "amd-rdna1", r"gfx101|navi 1|radeon rx 5[3-7]\d\d"
    AMD_CDNA = "amd-cdna", r"gfx908|gfx90a|gfx94|gfx95|instinct mi([1-3]\d\d)", 64
    AMD_GCN = "amd-gcn", r"gfx[6-9]|vega|radeon vii|fiji|polaris|ellesmere|hawaii|radeon rx [45]\d\d", 64
    AMD_OTHER = "amd", "", 64
    INTEL_XE2 = "intel-xe2", r"arc.*\b(b\d{3}|1[34]0[vt])|battlemage|lunar lake|xe2"
    INTEL_XE_HPC = "intel-xe-hpc", r"data center gpu max|ponte vecchio"
    INTEL_XE_HPG = "intel-xe-hpg", r"\barc\b|data center gpu flex|alchemist"
    INTEL_XE_LP = "intel-xe-lp", r"iris.* xe|\bxe\b|uhd graphics 7[3-7]0|dg1"
    INTEL_GEN = "intel-gen", r"hd graphics|iris|gen\d"
    INTEL_OTHER = "intel", ""
    ARM_MIDGARD = "arm-midgard", r"mali-t\d", 4
    ARM_BIFROST = "arm-bifrost", r"mali-g(31|51|52|71|72|76)\b", 8
    ARM_VALHALL = "arm-valhall", r"mali-g\d|immortalis", 16
    QUALCOMM_ADRENO = "qualcomm-adreno", "", 64
    IMAGINATION_POWERVR = "imagination-powervr", ""
    APPLE = "apple", ""
    FPGA = "fpga", None, 1
    CPU = "cpu", None, 1
    UNKNOWN = "unknown"


_FPGA = re.compile(r"fpga|xilinx|altera", re.IGNORECASE)


@dataclass(frozen=True)
class ExtendedDeviceProfile:
    """A DeviceProfile with the properties that tile sizes and vector widths depend on. ``vector_width``: floats per
    vector that the driver prefers; ``unified_memory``: True if host and device share memory.
    """

    base: DeviceProfile
    family: GPUFamily
    vector_width: int = 1
    unified_memory: bool = False

    @property
    def wave_size(self) -> int:
        """The number of work-items that run in lockstep."""
        return self.family.wave

    @property
    def is_cpu(self) -> bool:
        """True for an OpenCL CPU and for NumPy."""
        return self.base.is_cpu

    @property
    def is_opencl_cpu(self) -> bool:
        """True for a CPU that runs OpenCL kernels."""
        return self.base.is_cpu and bool(self.base.opencl_c_version)

    @property
    def prefers_vectors(self) -> bool:
        """True if explicit vectors within one work-item are faster: OpenCL CPUs, and GPUs that prefer four floats."""
        return self.is_opencl_cpu or (not self.is_cpu and self.vector_width >= 4)

    @property
    def has_many_registers(self) -> bool:
        """True if a work-item can hold 8 x 8 outputs of a product: NVIDIA since Turing."""
        return self.family.name in ("NVIDIA_TURING", "NVIDIA_AMPERE", "NVIDIA_ADA", "NVIDIA_HOPPER", "NVIDIA_BLACKWELL")


def family_of(profile: DeviceProfile, compute_capability: tuple[int, int] | None = None, board: str = "") -> GPUFamily:
    """Returns the vendor generation by names, or NVIDIA's compute capability; ``board`` is a second name."""
    names = f"{profile.name} {board}"
    if profile.is_cpu:
        return GPUFamily.CPU
    if _FPGA.search(f"{names} {profile.vendor}"):
        return GPUFamily.FPGA
    if profile.device_type != "gpu":
        return GPUFamily.UNKNOWN
    if compute_capability is not None:
        for family in GPUFamily:
            if family.capability is not None and compute_capability >= family.capability:
                return family
    return next((family for family in GPUFamily if family.matches(profile.vendor, names)), GPUFamily.UNKNOWN)


def _compute_capability(cl_device: Any, profile: DeviceProfile) -> tuple[int, int] | None:
    if "cl_nv_device_attribute_query" not in profile.extensions:
        return None
    return int(cl_device.compute_capability_major_nv), int(cl_device.compute_capability_minor_nv)


def get_device_family(cl_device: Any) -> GPUFamily:
    """Returns the vendor generation of a pyopencl device; CPU for CPUs of any vendor and for None (NumPy)."""
    profile = device_profile(cl_device)
    capability = None if cl_device is None else _compute_capability(cl_device, profile)
    # AMD's drivers report the chip (gfx90a) as the name, and the card's name in a separate attribute.
    board = getattr(cl_device, "board_name_amd", "") if "cl_amd_device_attribute_query" in profile.extensions else ""
    return family_of(profile, capability, board)


@lru_cache(maxsize=64)
def extended_device_profile(cl_device: Any = None) -> ExtendedDeviceProfile:
    """Returns the extended profile of a pyopencl device; None is the NumPy host."""
    return ExtendedDeviceProfile(
        base=device_profile(cl_device),
        family=get_device_family(cl_device),
        vector_width=1 if cl_device is None else int(cl_device.preferred_vector_width_float),
        unified_memory=True if cl_device is None else bool(cl_device.host_unified_memory),
    )
