"""The kernel selector: thresholds, overrides per vendor, limits of the device, memory of decisions."""

from __future__ import annotations

import dataclasses

import pytest

from netcl.core import config
from netcl.core.device import device, manager
from netcl.core.device.capabilities import device_profile
from netcl.core.device.profile import ExtendedDeviceProfile, GPUFamily, extended_device_profile
from netcl.core.errors import DTypeError
from netcl.core.kernel_selector import (
    KernelConfig,
    KernelSelector,
    KernelVariant,
    get_kernel_selector,
    register_measurements,
    select_conv2d_config,
    select_matmul_config,
)

V = KernelVariant


@pytest.fixture(autouse=True)
def rules_alone():
    with config.override(AUTOTUNE="off", CONV_WINOGRAD=True, CONV_TILED_LOCAL=False):
        yield


def selector(family=GPUFamily.UNKNOWN, vector_width=1, **changes):
    limits = {
        "is_cpu": family is GPUFamily.CPU,
        "device_type": "cpu" if family is GPUFamily.CPU else "gpu",
        "max_work_group_size": 1024,
        "local_mem_size": 49152,
        "opencl_c_version": "OpenCL C 1.2",
    }
    base = dataclasses.replace(device_profile(None), **{**limits, **changes})
    return KernelSelector(profile=ExtendedDeviceProfile(base, family, vector_width))


def test_sample_12_of_the_core_page_defaults_of_kernel_config():
    config_ = KernelConfig(V.MATMUL_TILED)
    assert dataclasses.asdict(config_) == {
        "variant": V.MATMUL_TILED,
        "tile_m": 32,
        "tile_n": 32,
        "tile_k": 8,
        "work_per_thread": 4,
        "local_size_1d": 256,
        "local_size_2d": (16, 16),
        "use_local_memory": True,
        "use_vectorization": True,
        "vector_width": 4,
        "extra": {},
    }
    assert [field.name for field in dataclasses.fields(KernelConfig)] == list(dataclasses.asdict(config_))


def test_sample_14_of_the_core_page_the_variants():
    assert {v.name for v in KernelVariant} == {
        *(f"MATMUL_{x}" for x in ("NAIVE", "TILED", "REGISTER_TILED", "VECTORIZED")),
        *(f"CONV2D_{x}" for x in ("NAIVE", "IM2COL", "IMPLICIT_GEMM", "TILED_LOCAL", "WINOGRAD")),
        *(f"ELEMENTWISE_{x}" for x in ("SCALAR", "VECTORIZED")),
        *(f"REDUCTION_{x}" for x in ("SEQUENTIAL", "PARALLEL", "WORKGROUP")),
        *(f"BATCHNORM_{x}" for x in ("NAIVE", "FUSED")),
    }


@pytest.mark.parametrize(
    ("m", "n", "k", "variant"),
    [
        (15, 17, 10**6, V.MATMUL_NAIVE),  # MN = 255
        (16, 16, 195, V.MATMUL_NAIVE),  # 2MNK = 99,840
        (16, 16, 196, V.MATMUL_TILED),  # 2MNK = 100,352
        (100, 100, 499, V.MATMUL_TILED),  # 2MNK = 9.98e6
        (100, 100, 500, V.MATMUL_REGISTER_TILED),  # 2MNK = 1e7
        (0, 8, 8, V.MATMUL_NAIVE),
    ],
)
def test_sample_14_of_the_core_page_matmul_thresholds(m, n, k, variant):
    assert selector().select_matmul_kernel(m, n, k).variant is variant


@pytest.mark.parametrize(
    ("family", "work"),
    [
        (GPUFamily.NVIDIA_AMPERE, 8),
        (GPUFamily.NVIDIA_TURING, 8),
        (GPUFamily.AMD_RDNA2, 4),
        (GPUFamily.AMD_RDNA3, 4),
    ],
)
def test_matmul_overrides_per_vendor(family, work):
    chosen = selector(family).select_matmul_kernel(1024, 1024, 1024)
    assert chosen.variant is V.MATMUL_REGISTER_TILED
    assert (chosen.tile_m, chosen.tile_n, chosen.tile_k, chosen.work_per_thread) == (64, 64, 16, work)
    assert chosen.local_size_2d == (64 // work, 64 // work)


def test_matmul_vectorized_where_vectors_pay():
    for chooser in (selector(GPUFamily.CPU, vector_width=16), selector(GPUFamily.ARM_MIDGARD, vector_width=4)):
        assert chooser.select_matmul_kernel(1024, 1024, 1024).variant is V.MATMUL_VECTORIZED
        assert chooser.select_matmul_kernel(1024, 1024, 1024).use_vectorization
        plain = chooser.select_matmul_kernel(1024, 1024, 1024, allow_vectorized=False)
        assert plain.variant is V.MATMUL_REGISTER_TILED
        assert chooser.select_matmul_kernel(16, 16, 196).variant is V.MATMUL_TILED
    assert KernelSelector(profile=device_profile(None)).select_matmul_kernel(512, 512, 512).variant is (
        V.MATMUL_REGISTER_TILED
    )


@pytest.mark.parametrize("group", [1, 8, 32, 64, 128, 256, 1024])
@pytest.mark.parametrize("local", [1024, 4096, 16384, 32768])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("k", [196, 4096])
def test_tiles_fit_the_device(group, local, dtype, k):
    chooser = selector(GPUFamily.NVIDIA_AMPERE, max_work_group_size=group, local_mem_size=local)
    chosen = chooser.select_matmul_kernel(256 if k == 4096 else 16, 256 if k == 4096 else 16, k, dtype)
    columns, rows = chosen.local_size_2d
    assert columns * rows <= group
    assert (chosen.tile_m, chosen.tile_n) == (rows * chosen.work_per_thread, columns * chosen.work_per_thread)
    assert (chosen.tile_m + chosen.tile_n) * chosen.tile_k * (8 if dtype == "float64" else 4) <= local
    assert min(chosen.tile_m, chosen.tile_n, chosen.tile_k) >= 1
    assert chosen.local_size_1d <= group


def conv(chooser, size, kernel, stride=1, padding=0, **kwargs):
    return chooser.select_conv2d_kernel(8, 16, 32, size, size, kernel, kernel, stride, padding, **kwargs).variant


def test_sample_14_of_the_core_page_conv2d_rules():
    gpu = selector()
    assert conv(gpu, 32, 1) is V.CONV2D_IMPLICIT_GEMM
    assert conv(gpu, 32, 3) is V.CONV2D_WINOGRAD
    assert conv(gpu, 32, 3, stride=(1, 1), padding=(1, 1)) is V.CONV2D_WINOGRAD
    assert conv(gpu, 32, 3, stride=2) is V.CONV2D_IMPLICIT_GEMM
    assert conv(gpu, 32, 5) is V.CONV2D_IMPLICIT_GEMM
    assert conv(gpu, 8, 5) is V.CONV2D_IMPLICIT_GEMM
    cpu = selector(GPUFamily.CPU, vector_width=16)
    assert {conv(cpu, 32, kernel) for kernel in (1, 3, 5)} == {V.CONV2D_IM2COL}
    with config.override(CONV_WINOGRAD=False):
        assert conv(gpu, 32, 3) is V.CONV2D_IMPLICIT_GEMM
    with config.override(CONV_TILED_LOCAL=True):
        assert conv(gpu, 19, 5) is V.CONV2D_TILED_LOCAL  # 15 x 15 = 225 positions
        assert conv(gpu, 20, 5) is V.CONV2D_IMPLICIT_GEMM  # 16 x 16 = 256
        assert conv(gpu, 19, 5, padding=2) is V.CONV2D_IMPLICIT_GEMM  # 19 x 19 = 361
        assert conv(gpu, 12, 1) is V.CONV2D_IMPLICIT_GEMM
        assert conv(gpu, 12, 3) is V.CONV2D_WINOGRAD
    with config.override(CONV_TILED_LOCAL=True, CONV_WINOGRAD=False):
        assert conv(gpu, 12, 3) is V.CONV2D_TILED_LOCAL
    assert conv(gpu, 32, 3) is V.CONV2D_WINOGRAD  # the variables are part of what a decision is remembered by


def test_sample_14_of_the_core_page_elementwise_thresholds():
    gpu = selector()
    assert gpu.select_elementwise_kernel(1023).variant is V.ELEMENTWISE_SCALAR
    chosen = gpu.select_elementwise_kernel(1024)
    assert (chosen.variant, chosen.vector_width) == (V.ELEMENTWISE_VECTORIZED, 4)
    assert gpu.select_elementwise_kernel(1024, allow_vectorized=False).variant is V.ELEMENTWISE_SCALAR
    for dtype, width in {"half": 8, "bfloat16": 8, "uint8": 8, "bool": 8, "float64": 4, "int32": 4}.items():
        assert gpu.select_elementwise_kernel(5000, dtype).vector_width == width


def test_sample_14_of_the_core_page_reduction_and_batchnorm_thresholds():
    gpu = selector()
    wanted = {
        1: V.REDUCTION_SEQUENTIAL,
        255: V.REDUCTION_SEQUENTIAL,
        256: V.REDUCTION_PARALLEL,
        65535: V.REDUCTION_PARALLEL,
        65536: V.REDUCTION_WORKGROUP,
    }
    assert {n: gpu.select_reduction_kernel(n).variant for n in wanted} == wanted
    assert gpu.select_reduction_kernel(65536, "max").extra == {"kind": "max", "stages": 2}
    for training in (True, False):
        for fuse_relu in (True, False):
            chosen = gpu.select_batchnorm_kernel(8, 16, 64, training, fuse_relu)
            fused = fuse_relu and not training
            assert chosen.variant is (V.BATCHNORM_FUSED if fused else V.BATCHNORM_NAIVE)


def test_decisions_are_remembered_by_operation_shape_dtype_and_flags():
    gpu = selector()
    first = gpu.select_matmul_kernel(64, 64, 64)
    assert gpu.select_matmul_kernel(64, 64, 64, "float") is first
    assert gpu.select_matmul_kernel(64, 64, 64, "float64") is not first
    assert gpu.select_matmul_kernel(64, 64, 64, allow_vectorized=False) is not first
    gpu.clear_cache()
    again = gpu.select_matmul_kernel(64, 64, 64)
    assert again is not first
    assert again == first


def test_bad_dtypes_are_named():
    with pytest.raises(DTypeError, match="complex64"):
        selector().select_matmul_kernel(8, 8, 8, "complex64")


def test_a_measurement_beats_the_rule_unless_autotune_is_off():
    measured = KernelConfig(V.MATMUL_TILED, tile_m=48, extra={"time_ms": 1.0})
    asked = []

    def lookup(profile, op, shape, dtype):
        asked.append((profile.family, op, shape, dtype))
        return measured if (op, shape) == ("matmul", (8, 8, 8)) else None

    gpu = get_kernel_selector(manager.default("cpu"))
    register_measurements(lookup)
    try:
        assert gpu.select_matmul_kernel(8, 8, 8).variant is V.MATMUL_NAIVE
        assert asked == []
        for mode in ("cached", "on"):
            with config.override(AUTOTUNE=mode):
                assert gpu.select_matmul_kernel(8, 8, 8) is measured
                assert gpu.select_matmul_kernel(8, 8, 9).variant is V.MATMUL_NAIVE
        assert (GPUFamily.CPU, "matmul", (8, 8, 8), "float32") in asked
    finally:
        register_measurements(None)
    with config.override(AUTOTUNE="cached"):
        assert gpu.select_matmul_kernel(8, 8, 8).variant is V.MATMUL_NAIVE


def test_one_selector_per_device_and_its_shortcuts():
    host = manager.default("cpu")
    chooser = get_kernel_selector(host)
    assert chooser is get_kernel_selector(host.queue)
    with device("cpu"):
        assert get_kernel_selector() is chooser
        assert select_matmul_config(64, 64, 64) is chooser.select_matmul_kernel(64, 64, 64)
        chosen = select_conv2d_config(1, 3, 8, 32, 32, 3, 3, stride=1, pad=1)
    assert chosen is chooser.select_conv2d_kernel(1, 3, 8, 32, 32, 3, 3, 1, 1)
    assert chosen.variant is V.CONV2D_IM2COL
    opencl = manager.select(requires=())[:-1]
    for handle in opencl:
        mine = get_kernel_selector(handle)
        assert mine is get_kernel_selector(handle.queue) is get_kernel_selector(handle.device)
        assert mine is not chooser
        assert mine.profile is extended_device_profile(handle.device)
        if handle.device_type == "cpu":
            assert select_matmul_config(512, 512, 512, device=handle).variant is V.MATMUL_VECTORIZED
