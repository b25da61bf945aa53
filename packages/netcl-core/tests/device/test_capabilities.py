"""Profiles of devices, kernel strategy, the probe of half arithmetic, and vendor generations."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from netcl.core import config
from netcl.core.device import manager
from netcl.core.device.capabilities import DeviceProfile, device_profile, kernel_strategy
from netcl.core.device.profile import (
    ExtendedDeviceProfile,
    GPUFamily,
    extended_device_profile,
    family_of,
    get_device_family,
)


class FakeDevice(SimpleNamespace):
    """A device as the driver would report it."""

    __hash__ = object.__hash__

    def __init__(self, **changes):
        fields = {
            "name": " Some GPU ",
            "vendor": "Some Vendor",
            "type": 4,
            "max_compute_units": 8,
            "max_work_group_size": 256,
            "global_mem_size": 1 << 30,
            "local_mem_size": 32768,
            "extensions": "",
            "opencl_c_version": "OpenCL C 1.2 ",
            "svm_capabilities": 0,
            "host_unified_memory": 0,
            "preferred_vector_width_float": 1,
        }
        super().__init__(**{**fields, **changes})


def profile(**changes):
    return device_profile(FakeDevice(**changes))


@pytest.mark.parametrize(
    ("extensions", "flags"),
    [
        ("", set()),
        ("cl_khr_fp16", {"has_fp16", "supports_fp16"}),
        ("cl_vendor_fp16_extra", {"has_fp16", "supports_fp16"}),
        ("cl_intel_subgroups", {"has_subgroups"}),
        ("cl_khr_subgroup_shuffle cl_khr_fp64", {"has_subgroups", "has_fp64"}),
        ("cl_khr_int64_base_atomics", {"fast_atomics"}),
        ("cl_khr_int64_extended_atomics", {"fast_atomics"}),
        ("cl_khr_global_int32_base_atomics", set()),
        ("cl_khr_command_buffer", {"has_command_buffer"}),
    ],
)
def test_extension_tests_of_the_core_page(extensions, flags):
    found = profile(extensions=extensions)
    names = {"has_fp16", "supports_fp16", "has_subgroups", "fast_atomics", "has_fp64", "has_command_buffer"}
    assert {name for name in names if getattr(found, name)} == flags


def test_profile_is_frozen_and_stripped():
    found = profile(type=5)
    assert (found.name, found.device_type, found.is_cpu) == ("Some GPU", "gpu", False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.name = "other"
    assert profile(type=2).is_cpu
    assert not profile(local_mem_size=24 * 1024).tiny_local_mem
    assert profile(local_mem_size=24 * 1024 - 1).tiny_local_mem


@pytest.mark.parametrize(
    ("changes", "strategy"),
    [
        ({}, "portable"),
        ({"extensions": "cl_khr_fp16"}, "optimized"),
        ({"extensions": "cl_khr_subgroups"}, "optimized"),
        ({"vendor": "NVIDIA Corporation"}, "optimized"),
        ({"vendor": "Advanced Micro Devices, Inc."}, "optimized"),
        ({"vendor": "amd"}, "optimized"),
        ({"vendor": "AuthenticAMD", "type": 2}, "portable"),
        ({"extensions": "cl_khr_fp16 cl_khr_subgroups", "type": 2}, "portable"),
        ({"vendor": "NVIDIA Corporation", "local_mem_size": 16384}, "portable"),
    ],
)
def test_kernel_strategy_of_the_core_page(changes, strategy):
    with config.override(KERNEL_STRATEGY="auto"):
        assert kernel_strategy(profile(**changes)) == strategy
    for forced in ("portable", "optimized"):
        with config.override(KERNEL_STRATEGY=forced):
            assert kernel_strategy(profile(**changes)) == forced


def test_numpy_host():
    host = device_profile(None)
    assert isinstance(host, DeviceProfile)
    assert host.is_cpu
    assert host.has_fp64
    assert host.half_arithmetic
    assert host.compute_units >= 1
    assert kernel_strategy(host) == "portable"
    assert get_device_family(None) is GPUFamily.CPU
    assert not extended_device_profile(None).is_opencl_cpu


OPENCL_DEVICES = manager.devices
needs_opencl = pytest.mark.skipif(not OPENCL_DEVICES, reason="needs an OpenCL device")


@needs_opencl
def test_sample_13_of_the_core_page():
    queue = manager.default("opencl").queue
    prof = device_profile(queue.device)
    assert prof.has_fp16 == ("fp16" in queue.device.extensions)


@needs_opencl
@pytest.mark.parametrize("dev", OPENCL_DEVICES, ids=lambda d: d.platform.name)
def test_real_devices(dev):
    found = device_profile(dev)
    assert found is device_profile(dev)
    assert found.max_work_group_size >= 1
    assert found.has_fp64 == ("cl_khr_fp64" in dev.extensions)
    # never believed without the extension, and asking does no harm where the driver has no half
    assert found.half_arithmetic in ((False, True) if found.has_fp16 else (False,))
    if "Intel" in dev.platform.name and found.is_cpu:
        assert found.half_arithmetic
    extended = extended_device_profile(dev)
    assert extended.base is found
    if found.is_cpu:
        assert extended.family is GPUFamily.CPU
        assert extended.prefers_vectors


def test_a_device_that_claims_half_but_cannot_is_not_believed():
    """The probe must say no, not raise, when the driver fails."""
    if not OPENCL_DEVICES:
        pytest.skip("needs an OpenCL device")
    without = [d for d in OPENCL_DEVICES if not device_profile(d).has_fp16]
    if not without:
        pytest.skip("needs a device without fp16, as PoCL 3.0 on x86")
    claimed = dataclasses.replace(device_profile(without[0]), has_fp16=True)
    assert claimed.half_arithmetic is False


@pytest.mark.parametrize(
    ("vendor", "name", "family"),
    [
        ("NVIDIA Corporation", "NVIDIA A100-SXM4-80GB", GPUFamily.NVIDIA_AMPERE),
        ("NVIDIA Corporation", "NVIDIA GeForce RTX 3060 Laptop GPU", GPUFamily.NVIDIA_AMPERE),
        ("NVIDIA Corporation", "NVIDIA RTX A4000", GPUFamily.NVIDIA_AMPERE),
        ("NVIDIA Corporation", "Tesla T4", GPUFamily.NVIDIA_TURING),
        ("NVIDIA Corporation", "GeForce RTX 2080 Ti", GPUFamily.NVIDIA_TURING),
        ("NVIDIA Corporation", "GeForce GTX 1660", GPUFamily.NVIDIA_TURING),
        ("NVIDIA Corporation", "GeForce GTX 1080", GPUFamily.NVIDIA_PASCAL),
        ("NVIDIA Corporation", "Tesla V100-SXM2", GPUFamily.NVIDIA_VOLTA),
        ("NVIDIA Corporation", "NVIDIA GeForce RTX 4090", GPUFamily.NVIDIA_ADA),
        ("NVIDIA Corporation", "NVIDIA H100 PCIe", GPUFamily.NVIDIA_HOPPER),
        ("NVIDIA Corporation", "NVIDIA H200", GPUFamily.NVIDIA_HOPPER),
        ("NVIDIA Corporation", "NVIDIA GeForce RTX 5080", GPUFamily.NVIDIA_BLACKWELL),
        ("NVIDIA Corporation", "Something new", GPUFamily.NVIDIA_OTHER),
        ("Advanced Micro Devices, Inc.", "gfx1030", GPUFamily.AMD_RDNA2),
        ("Advanced Micro Devices, Inc.", "gfx1100", GPUFamily.AMD_RDNA3),
        ("Advanced Micro Devices, Inc.", "gfx1201", GPUFamily.AMD_RDNA4),
        ("Advanced Micro Devices, Inc.", "gfx1010:xnack-", GPUFamily.AMD_RDNA1),
        ("Advanced Micro Devices, Inc.", "gfx90a:sramecc+:xnack-", GPUFamily.AMD_CDNA),
        ("Advanced Micro Devices, Inc.", "gfx906", GPUFamily.AMD_GCN),
        ("AMD", "AMD Radeon RX 6800 XT (navi21, LLVM 17)", GPUFamily.AMD_RDNA2),
        ("AMD", "AMD Radeon RX 7900 XTX", GPUFamily.AMD_RDNA3),
        ("Intel(R) Corporation", "Intel(R) Iris(R) Xe Graphics", GPUFamily.INTEL_XE_LP),
        ("Intel(R) Corporation", "Intel(R) UHD Graphics 630", GPUFamily.INTEL_GEN),
        ("Intel(R) Corporation", "Intel(R) UHD Graphics 770", GPUFamily.INTEL_XE_LP),
        ("Intel(R) Corporation", "Intel(R) Arc(TM) A770 Graphics", GPUFamily.INTEL_XE_HPG),
        ("Intel(R) Corporation", "Intel(R) Arc(TM) B580 Graphics", GPUFamily.INTEL_XE2),
        ("Intel(R) Corporation", "Intel(R) Data Center GPU Max 1100", GPUFamily.INTEL_XE_HPC),
        ("ARM", "Mali-T860", GPUFamily.ARM_MIDGARD),
        ("ARM", "Mali-G52 r1", GPUFamily.ARM_BIFROST),
        ("ARM", "Mali-G710", GPUFamily.ARM_VALHALL),
        ("QUALCOMM", "QUALCOMM Adreno(TM) 740", GPUFamily.QUALCOMM_ADRENO),
        ("Apple", "Apple M2 Pro", GPUFamily.APPLE),
        ("Nobody", "Nothing", GPUFamily.UNKNOWN),
    ],
)
def test_families_by_name(vendor, name, family):
    assert family_of(profile(vendor=vendor, name=name)) is family


def test_families_by_type_and_compute_capability():
    # a CPU is a CPU whatever vendor its driver names
    assert family_of(profile(vendor="AuthenticAMD", name="pthread-AMD EPYC", type=2)) is GPUFamily.CPU
    assert family_of(profile(vendor="Xilinx", name="xilinx_u250", type=8)) is GPUFamily.FPGA
    assert family_of(profile(vendor="Intel", name="NPU", type=8)) is GPUFamily.UNKNOWN
    unnamed = {"vendor": "NVIDIA Corporation", "name": "GPU", "extensions": "cl_nv_device_attribute_query"}
    for (major, minor), family in {
        (7, 5): GPUFamily.NVIDIA_TURING,
        (8, 6): GPUFamily.NVIDIA_AMPERE,
        (8, 9): GPUFamily.NVIDIA_ADA,
        (9, 0): GPUFamily.NVIDIA_HOPPER,
        (12, 0): GPUFamily.NVIDIA_BLACKWELL,
        (2, 0): GPUFamily.NVIDIA_OTHER,
    }.items():
        dev = FakeDevice(**unnamed, compute_capability_major_nv=major, compute_capability_minor_nv=minor)
        assert get_device_family(dev) is family
    board = FakeDevice(
        vendor="Advanced Micro Devices, Inc.",
        name="unnamed",
        extensions="cl_amd_device_attribute_query",
        board_name_amd="AMD Radeon RX 6700 XT",
    )
    assert get_device_family(board) is GPUFamily.AMD_RDNA2


def test_what_follows_from_a_family():
    gpu = ExtendedDeviceProfile(profile(), GPUFamily.AMD_CDNA)
    assert gpu.wave_size == 64
    assert not gpu.prefers_vectors
    assert dataclasses.replace(gpu, vector_width=4).prefers_vectors
    assert ExtendedDeviceProfile(profile(), GPUFamily.NVIDIA_ADA).wave_size == 32
