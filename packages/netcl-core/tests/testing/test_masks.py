"""Small devices: a bounded set of the op table under four masks, and what a mask forbids."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from netcl.core import Tensor, config, device, testing
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DTypeError, KernelBuildError, UnsupportedError
from netcl.core.kernel_selector import get_kernel_selector
from netcl.core.kernels.primitives import KernelSpec, WorkGroupTuner
from netcl.core.memory import is_integrated_gpu
from netcl.core.testing import MASKS, assert_close, expected, masked, op_cases, run_case

# (first, last) of the op's cases: each kernel text once, sizes that leave tails, and sums of more than one group.
OPS = {
    "add": (4, 12), "gelu": (7, 8), "cast": (0, 2), "sum": (0, 12), "max": (3, 7), "var": (2, 5), "softmax": (0, 5),
    "batch_norm_training": (0, 2), "layer_norm": (0, 2), "matmul": (0, 8), "linear": (0, 2), "conv2d": (0, 4),
    "conv2d_grad_input": (0, 2), "conv2d_grad_weight": (0, 2), "max_pool": (0, 3), "max_pool_grad": (0, 2),
    "avg_pool": (0, 2), "index_select": (0, 2), "index_select_grad": (0, 2), "gather_grad": (0, 1),
    "permute": (0, 2), "concatenate": (0, 2), "pad": (0, 1), "argmax": (0, 2), "im2col": (0, 1), "col2im": (0, 1),
}  # fmt: skip


@pytest.fixture
def real(handle):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no limits to mask")
    return handle


@pytest.mark.deep
@pytest.mark.parametrize("mask", MASKS)
def test_ops(real, mask):
    with masked(real, **MASKS[mask]) as seen:
        engine = engine_for(seen)
        for name, (first, last) in OPS.items():
            count = 0
            for case in islice(op_cases(name), first, last):
                for got, want in zip(run_case(name, case, engine), expected(name, case)):
                    assert got.engine is engine
                    assert_close(got, want, got.dtype)
                count += 1
            assert count, name
        assert testing.check_family(engine, "random")


@pytest.mark.deep
def test_groups_share_long_rows_and_large_sums(real):
    x = np.random.default_rng(0).uniform(-1, 1, (3, 40_003)).astype(np.float32)
    with masked(real, **MASKS["group 128, 32 KB local"]) as seen:
        given = Tensor.from_host(x)
        assert engine_for(seen).target.group == 128
        assert_close(given.sum(), x.sum(dtype=np.float64))
        assert_close(given.amax(axis=1), x.max(axis=1))
        assert_close(given.softmax(axis=1).sum(axis=1), np.ones(3))
        assert (given.argmax(axis=1).numpy() == x.argmax(axis=1)).all()
    with masked(real, max_work_group_size=24, is_cpu=False) as seen:
        assert engine_for(seen).target.group == 16
        assert_close(Tensor.from_host(x).sum(axis=1), x.sum(axis=1, dtype=np.float64))
        a, b = x[:, :1100].reshape(55, 60), x[:, 1100:2000].reshape(60, 45)
        assert_close(Tensor.from_host(a) @ Tensor.from_host(b), a.astype(np.float64) @ b)


def test_products_in_little_local_memory(real):
    x = np.random.default_rng(0).uniform(-1, 1, (70, 900)).astype(np.float32)
    for limits in ({"local_mem_size": 32 * 1024}, MASKS["group 128, 32 KB local"]):
        with masked(real, **limits):
            given = Tensor.from_host(x)
            np.testing.assert_allclose((given @ given.T).numpy(), x.astype(np.float64) @ x.T, atol=1e-3)


def test_a_device_with_memory_of_its_own_gets_copies(real):
    raw = np.zeros(4096 + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    data = raw[start : start + 4096]
    with masked(real, **MASKS["no unified memory"]) as seen:
        assert not is_integrated_gpu(seen)
        x = Tensor.from_host(seen, data, copy=False)
        large = Tensor.from_host(seen, np.arange(1 << 20, dtype=np.float32))
        assert engine_for(seen).transfer._staging_queue is not None
        data[:] = 7
        assert not x.numpy().any(), "the tensor lies on the array of the host"
        assert_close(large.sum(), float((1 << 20) * ((1 << 20) - 1) // 2))


def test_what_the_device_is_seen_as(real):
    with masked(real) as seen:
        assert seen.profile is device.manager.profile(seen) is device.manager.profile(seen.queue)
        assert (seen.profile.max_work_group_size, seen.profile.local_mem_size) == (128, 32 * 1024)
        assert seen.device_type == seen.profile.device_type == engine_for(seen).handle.device_type == "gpu"
        assert not (seen.profile.has_fp64)
        assert not (seen.profile.half_arithmetic)
        assert not (seen.profile.fast_atomics)
        assert not any("fp64" in name for name in seen.profile.extensions)
        assert real.profile.has_fp64 == ("cl_khr_fp64" in real.device.extensions)
        with masked(real) as again:
            assert again is seen
    with masked(device.manager.default("cpu")) as host:
        assert host is device.manager.default("cpu")
    with pytest.raises(ValueError, match="no limit work_group"), masked(real, work_group=3):
        pass


@pytest.mark.parametrize("mask", MASKS)
def test_chosen_kernels_fit_a_small_device(real, mask):
    with masked(real, **MASKS[mask]) as seen, config.override(AUTOTUNE="off"):
        group, local = seen.profile.max_work_group_size, seen.profile.local_mem_size
        chooser = get_kernel_selector()
        assert chooser.profile.base == seen.profile
        assert (chooser is get_kernel_selector(real)) == (seen.profile == real.profile)
        chosen = [chooser.select_matmul_kernel(n, n, n, dtype) for n in (4, 100, 600) for dtype in ("float32", "half")]
        chosen += [chooser.select_conv2d_kernel(2, 8, 8, n, n, k, k, padding=1) for n in (8, 64) for k in (1, 3, 5)]
        chosen += [chooser.select_elementwise_kernel(n) for n in (10, 10**6)]
        chosen += [chooser.select_reduction_kernel(n) for n in (10, 1000, 10**6)]
        for one in chosen:
            assert one.local_size_1d <= group
            assert one.local_size_2d[0] * one.local_size_2d[1] <= group
            assert not one.use_local_memory or (one.tile_m + one.tile_n) * one.tile_k * 4 <= local
        (size,), (items,) = WorkGroupTuner().global_local_sizes(1000, seen)
        assert items <= group
        assert size >= 1000
        assert size % items == 0
        out = Tensor.zeros((size,))
        kernel("out[get_global_id(0)] = get_local_size(0);").build(seen).run(seen.queue, (size,), (items,), out)
        assert (out.numpy() == items).all()


def kernel(body, name="probe", options=()):
    return KernelSpec(name, ["__global float* out"], body, options=options)


@pytest.mark.parametrize(
    ("limits", "body"),
    [
        ({"has_fp64": False}, "out[0] = (float)((double)out[1] / 3);"),
        ({"has_fp16": False}, "half x = (half)out[0]; out[0] = (float)(x + x);"),
        ({"fast_atomics": False}, "atom_add((volatile __global long*)out, 1L);"),
        ({"has_subgroups": False}, "out[0] = get_sub_group_size();"),
    ],
    ids=["fp64", "fp16", "int64 atomics", "sub-groups"],
)
def test_what_is_masked_does_not_build(real, limits, body):
    with masked(real, **limits) as seen:
        out = Tensor.zeros((64,))
        spec = kernel(body)
        with pytest.raises(KernelBuildError):
            engine_for(seen).launch(spec.to_source(), "probe", (64,), None, [out])


def test_atomics_of_32_bits_stay(real):
    with masked(real, fast_atomics=False) as seen:
        out = Tensor.zeros((1,), "int32")
        text = KernelSpec(
            "probe", ["volatile __global int* out"], "atomic_max(out, 7); atomic_add(out, 1);"
        ).to_source()
        engine_for(seen).launch(text, "probe", (1,), (1,), [out])
        assert out.item() == 8


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
def test_limits_of_launches(real):
    import pyopencl as cl

    with masked(real, max_work_group_size=64, local_mem_size=1024, opencl_c_version="OpenCL C 1.2") as seen:
        engine = engine_for(seen)
        out = Tensor.zeros((128,))
        plain = kernel("out[get_global_id(0)] = get_local_size(0);").to_source()
        with pytest.raises(UnsupportedError, match="a group of"):
            engine.launch(plain, "probe", (128,), (128,), [out])
        engine.launch(plain, "probe", (128,), None, [out])
        assert 1 <= out.numpy()[0] <= 64
        # Every item reads what another one wrote, at a place known at launch: no compiler leaves this memory out.
        local = kernel(
            "__local float a[512]; const int i = get_local_id(0); for (int j = i; j < 512; j += 64) a[j] = out[j % 64];"
            "barrier(CLK_LOCAL_MEM_FENCE); out[i] = a[(int)out[64 + i] & 511];"
        ).to_source()
        built = cl.Kernel(cl.Program(real.context, local).build(cache_dir=False), "probe")
        if built.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, real.device) < 2048:
            engine.launch(local, "probe", (64,), (64,), [out])  # PoCL 5 does not count what a kernel declares
        else:
            with pytest.raises(UnsupportedError, match=r"20\d\d bytes of local memory"):  # NVIDIA adds a few of its own
                engine.launch(local, "probe", (64,), (64,), [out])
        with pytest.raises(UnsupportedError, match="CL2.0"):
            engine.launch(plain, "probe", (64,), (64,), [out], "-cl-std=CL2.0")


def test_float64_tensors_are_refused_without_fp64(real):
    with masked(real, has_fp64=False), pytest.raises(DTypeError, match="float64"):
        Tensor.from_host(np.zeros(3), "float64")
