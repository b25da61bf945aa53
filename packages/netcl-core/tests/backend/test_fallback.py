"""The replacement of a kernel that does not build or is wrong with a tuned size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core import DeviceHandle, Tensor, config, manager
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.errors import KernelBuildError
from netcl.core.kernel_selector import get_kernel_selector
from netcl.core.kernels.primitives import KernelSpec


@pytest.fixture
def engine(handle: DeviceHandle) -> Any:
    """Yields an engine of its own, so that kernels that fail on it do not fail on the engine of other tests."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    (other, _) = manager.split(handle, 2)
    with device(other):
        yield engine_for(other)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a mistake into the templates of contractions, but not into the plain one."""
    from netcl.core.backend.opencl.contraction.cpu import cpu_tiles, thin
    from netcl.core.backend.opencl.contraction.gpu import gpu_kernels

    fault = "#error no such kernel\n"
    cpu, gpu = cpu_tiles.cpu_program, gpu_kernels.program
    monkeypatch.setattr(cpu_tiles, "cpu_program", lambda *a, **k: cpu(*a, **k)._replace(text=fault))
    monkeypatch.setattr(gpu_kernels, "program", lambda *a: gpu(*a) if a[1] == "plain" else fault)
    monkeypatch.setattr(thin, "gemv_program", lambda *a: fault)


@pytest.mark.usefixtures("broken")
def test_a_product_that_does_not_build_is_computed_plainly(engine: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((9, 7), (7, 5))]
    a, b = (engine.tensor(array, "float32") for array in arrays)
    with pytest.warns(RuntimeWarning, match="does not build the float32 kernel") as warned:
        found = engine.read(engine.matmul(a, b))
    assert str(engine.queue.device.name).strip() in str(warned[0].message)
    assert str(engine.queue.device.driver_version) in str(warned[0].message)
    np.testing.assert_allclose(found, arrays[0] @ arrays[1], rtol=1e-5, atol=1e-6)
    again = engine.matmul(a, b)  # a second warning would be an error
    assert np.array_equal(engine.read(again), found)
    row = engine.matmul(a, engine.tensor(arrays[1][:, :1].copy(), "float32"))
    np.testing.assert_allclose(engine.read(row), found[:, :1], rtol=1e-5, atol=1e-6)
    from netcl.core.backend.opencl.contraction import gemm

    with pytest.raises(KernelBuildError):
        gemm.matmul(engine, a, b, variant="packed")


def test_a_kernel_that_fails_on_one_engine_is_launched_on_another(engine: Any, handle: DeviceHandle) -> None:
    """Both engines have the same device and profile; the kernel and its report are changed on the first alone."""
    other = engine_for(handle)
    assert other is not engine
    before = [get_kernel_selector(each.queue).select_matmul_kernel(9, 5, 7).extra["kernel"] for each in (engine, other)]
    assert before[0] == before[1] != "plain"
    with pytest.MonkeyPatch.context() as patched:
        broken.__wrapped__(patched)
        operands = [engine.tensor(np.ones(shape, np.float32), "float32") for shape in ((9, 7), (7, 5))]
        with pytest.warns(RuntimeWarning, match="does not build the float32 kernel"):
            engine.matmul(*operands)
    for queue in (engine.queue, engine.handle):
        assert get_kernel_selector(queue).select_matmul_kernel(9, 5, 7).extra["kernel"] == "plain"
        assert get_kernel_selector(queue).select_matmul_kernel(9, 5, 7, "bfloat16").extra["kernel"] != "plain"
    for queue in (other.queue, handle, engine.queue.device):
        assert get_kernel_selector(queue).select_matmul_kernel(9, 5, 7).extra["kernel"] == before[1]
    other.matmul(*(other.tensor(np.ones(shape, np.float32), "float32") for shape in ((9, 7), (7, 5))))
    assert "plain" not in other.launcher.launched[-1]


@pytest.mark.usefixtures("broken")
def test_a_convolution_that_does_not_build_is_computed_plainly(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.contraction import conv

    monkeypatch.setattr(conv, "_WORKSPACE", 600)  # so that the weights' gradient is summed from parts
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((3, 2, 5, 4), (3, 2, 3, 3), (3, 3, 5, 4))]
    options: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}

    def results(engine: Any) -> list[Any]:
        x, weight, grad = (engine.tensor(array, "float32") for array in arrays)
        return [
            engine.read(engine.conv("grad_weight", x, grad, shape=weight.shape, **options)),
            engine.read(engine.conv("forward", x, weight, **options)),
            engine.read(engine.conv("grad_input", grad, weight, shape=x.shape, **options)),
        ]

    with pytest.warns(RuntimeWarning, match="matrix products and convolutions"):
        found = results(engine)
    for ours, exact in zip(found, results(engine_for(manager.default("cpu")))):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-5)


def test_a_local_size_that_changes_the_result_is_not_used(engine: Any, caplog: pytest.LogCaptureFixture) -> None:
    x = Tensor.zeros((64,))
    spec = KernelSpec("own", ["__global float* x"], "x[get_global_id(0)] = get_local_size(0);", workgroup_size=16)
    with caplog.at_level("WARNING", "netcl"):
        assert spec.tune(engine.queue, (64,), x) == (16,)
    assert "other results" in caplog.text
    assert "(8,)" in caplog.text
    assert "(16,)" not in caplog.text
    assert not x.numpy().any()
    counts = KernelSpec("count", ["__global float* x"], "x[get_global_id(0)] += 1;")
    caplog.clear()
    assert counts.tune(engine.queue, (64,), x) is not None
    assert not caplog.text
    odd = KernelSpec("odd", ["__global float* x"], "x[get_global_id(0)] = get_local_size(0) + 7 * get_num_groups(0);")
    best = odd.tune(engine.queue, (61,), x)
    assert best is None or odd.build(engine.queue)._local_size(engine.queue, (61,)) == best


def test_measurements_are_left_aside_where_bits_must_be_the_same() -> None:
    from netcl.core.kernel_selector import KernelConfig, KernelSelector, KernelVariant, register_measurements

    measured = KernelConfig(KernelVariant.MATMUL_NAIVE, tile_m=7)
    register_measurements(lambda profile, op, shape, dtype: measured)
    try:
        chooser = KernelSelector(manager.default("cpu"))
        assert chooser.select_matmul_kernel(512, 512, 512) is measured
        with config.override(DETERMINISTIC=True):
            assert chooser.select_matmul_kernel(512, 512, 512) is not measured
    finally:
        register_measurements(None)
