"""Device properties for the kernel selector beyond the capabilities: vendor generation, group width, vector width."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from netcl.core.device.capabilities import DeviceProfile, device_profile, kernel_strategy

__all__ = [
    "DeviceProfile",
    "ExtendedDeviceProfile",
    "GPUFamily",
    "device_profile",
    "extended_device_profile",
    "family_of",
    "get_device_family",
    "kernel_strategy",
]


class GPUFamily(Enum):
    """Vendor generations with different kernels."""

    NVIDIA_KEPLER = "nvidia-kepler"
    NVIDIA_MAXWELL = "nvidia-maxwell"
    NVIDIA_PASCAL = "nvidia-pascal"
    NVIDIA_VOLTA = "nvidia-volta"
    NVIDIA_TURING = "nvidia-turing"
    NVIDIA_AMPERE = "nvidia-ampere"
    NVIDIA_ADA = "nvidia-ada"
    NVIDIA_HOPPER = "nvidia-hopper"
    NVIDIA_BLACKWELL = "nvidia-blackwell"
    NVIDIA_OTHER = "nvidia"
    AMD_GCN = "amd-gcn"
    AMD_RDNA1 = "amd-rdna1"
    AMD_RDNA2 = "amd-rdna2"
    AMD_RDNA3 = "amd-rdna3"
    AMD_RDNA4 = "amd-rdna4"
    AMD_CDNA = "amd-cdna"
    AMD_OTHER = "amd"
    INTEL_GEN = "intel-gen"
    INTEL_XE_LP = "intel-xe-lp"
    INTEL_XE_HPG = "intel-xe-hpg"
    INTEL_XE_HPC = "intel-xe-hpc"
    INTEL_XE2 = "intel-xe2"
    INTEL_OTHER = "intel"
    ARM_MIDGARD = "arm-midgard"
    ARM_BIFROST = "arm-bifrost"
    ARM_VALHALL = "arm-valhall"
    QUALCOMM_ADRENO = "qualcomm-adreno"
    IMAGINATION_POWERVR = "imagination-powervr"
    APPLE = "apple"
    FPGA = "fpga"
    CPU = "cpu"
    UNKNOWN = "unknown"


_F = GPUFamily
# NVIDIA reports its compute capability, which is reliable; the names are used if the query is missing.
_COMPUTE_CAPABILITY = (
    ((10, 0), _F.NVIDIA_BLACKWELL),
    ((9, 0), _F.NVIDIA_HOPPER),
    ((8, 9), _F.NVIDIA_ADA),
    ((8, 0), _F.NVIDIA_AMPERE),
    ((7, 5), _F.NVIDIA_TURING),
    ((7, 0), _F.NVIDIA_VOLTA),
    ((6, 0), _F.NVIDIA_PASCAL),
    ((5, 0), _F.NVIDIA_MAXWELL),
    ((3, 0), _F.NVIDIA_KEPLER),
)
# (vendor, pattern in the device's name, family), the first match counts; the last row of a vendor matches all others.
_PATTERNS = tuple(
    (re.compile(vendor, re.IGNORECASE), re.compile(name, re.IGNORECASE), family)
    for vendor, name, family in (
        ("nvidia", r"\b(rtx 50\d\d|b[12]00|gb\d+|rtx pro)", _F.NVIDIA_BLACKWELL),
        ("nvidia", r"\b(h[12]00|h800|h20|gh200)", _F.NVIDIA_HOPPER),
        ("nvidia", r"\b(rtx 40\d\d|rtx \d+ ada|l40s?|l4)\b|\bada\b", _F.NVIDIA_ADA),
        ("nvidia", r"\b(rtx 30\d\d|rtx a\d+|a100|a800|a[123456]0g?|a2|a16|orin)\b", _F.NVIDIA_AMPERE),
        ("nvidia", r"\b(rtx 20\d\d|gtx 16\d\d|t4|t\d{3,4}|quadro rtx|titan rtx)\b", _F.NVIDIA_TURING),
        ("nvidia", r"\b(v100|titan v|gv100|xavier)\b", _F.NVIDIA_VOLTA),
        ("nvidia", r"\b(gtx 10\d\d|gt 10\d\d|p100|p40|p4|titan xp?|quadro g?p\d+)\b", _F.NVIDIA_PASCAL),
        ("nvidia", r"\b(gtx 9\d\d|gtx 75\d|m40|m60|quadro m\d+)\b", _F.NVIDIA_MAXWELL),
        ("nvidia", r"\b(gtx [67]\d\d|k[248]0|tesla k\d+|quadro k\d+)", _F.NVIDIA_KEPLER),
        ("nvidia", "", _F.NVIDIA_OTHER),
        ("amd|advanced micro", r"gfx12|radeon rx 90\d\d", _F.AMD_RDNA4),
        ("amd|advanced micro", r"gfx11|radeon rx 7\d\d\d|radeon pro w7|radeon (7[4-9]0m|8[0-9]0m)", _F.AMD_RDNA3),
        ("amd|advanced micro", r"gfx103|navi 2|radeon rx 6\d\d\d|radeon pro w6|radeon 6[68]0m", _F.AMD_RDNA2),
        ("amd|advanced micro", r"gfx101|navi 1|radeon rx 5[3-7]\d\d", _F.AMD_RDNA1),
        ("amd|advanced micro", r"gfx908|gfx90a|gfx94|gfx95|instinct mi([1-3]\d\d)", _F.AMD_CDNA),
        (
            "amd|advanced micro",
            r"gfx[6-9]|vega|radeon vii|fiji|polaris|ellesmere|hawaii|radeon rx [45]\d\d",
            _F.AMD_GCN,
        ),
        ("amd|advanced micro", "", _F.AMD_OTHER),
        ("intel", r"arc.*\b(b\d{3}|1[34]0[vt])|battlemage|lunar lake|xe2", _F.INTEL_XE2),
        ("intel", r"data center gpu max|ponte vecchio", _F.INTEL_XE_HPC),
        ("intel", r"\barc\b|data center gpu flex|alchemist", _F.INTEL_XE_HPG),
        ("intel", r"iris.* xe|\bxe\b|uhd graphics 7[3-7]0|dg1", _F.INTEL_XE_LP),
        ("intel", r"hd graphics|iris|gen\d", _F.INTEL_GEN),
        ("intel", "", _F.INTEL_OTHER),
        ("arm", r"mali-t\d", _F.ARM_MIDGARD),
        ("arm", r"mali-g(31|51|52|71|72|76)\b", _F.ARM_BIFROST),
        ("arm", r"mali-g\d|immortalis", _F.ARM_VALHALL),
        ("qualcomm", "", _F.QUALCOMM_ADRENO),
        ("imagination", "", _F.IMAGINATION_POWERVR),
        ("apple", "", _F.APPLE),
    )
)
_FPGA = re.compile(r"fpga|xilinx|altera", re.IGNORECASE)
_WAVE = {
    _F.AMD_GCN: 64,
    _F.AMD_CDNA: 64,
    _F.AMD_RDNA1: 32,
    _F.AMD_RDNA2: 32,
    _F.AMD_RDNA3: 32,
    _F.AMD_RDNA4: 32,
    _F.AMD_OTHER: 64,
    _F.ARM_MIDGARD: 4,
    _F.ARM_BIFROST: 8,
    _F.ARM_VALHALL: 16,
    _F.QUALCOMM_ADRENO: 64,
    _F.CPU: 1,
    _F.FPGA: 1,
}


@dataclass(frozen=True)
class ExtendedDeviceProfile:
    """A DeviceProfile with the properties that tile sizes and vector widths depend on.

    ``vector_width``: floats per vector that the driver prefers; ``unified_memory``: True if host and device share
    memory.
    """

    base: DeviceProfile
    family: GPUFamily
    vector_width: int = 1
    unified_memory: bool = False

    @property
    def wave_size(self) -> int:
        """The number of work-items that run in lockstep."""
        return _WAVE.get(self.family, 32)

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


def family_of(profile: DeviceProfile, compute_capability: tuple[int, int] | None = None, board: str = "") -> GPUFamily:
    """Returns the vendor generation by names, or by NVIDIA's compute capability; ``board`` is a second name of the
    device.
    """
    names = f"{profile.name} {board}"
    if profile.is_cpu:
        return GPUFamily.CPU
    if _FPGA.search(f"{names} {profile.vendor}"):
        return GPUFamily.FPGA
    if profile.device_type != "gpu":
        return GPUFamily.UNKNOWN
    if compute_capability is not None:
        for least, family in _COMPUTE_CAPABILITY:
            if compute_capability >= least:
                return family
    for vendor_pattern, name_pattern, family in _PATTERNS:
        if vendor_pattern.search(profile.vendor) and name_pattern.search(names):
            return family
    return GPUFamily.UNKNOWN


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
