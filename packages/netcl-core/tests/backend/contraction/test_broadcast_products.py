"""Matrix products by sub-groups: right where the device has them, forced, and never taken without a measurement."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, config
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked
from netcl.core.tuning import measurements
from netcl.profiling import profile
from netcl.profiling.autotuner import autotune_matmul

# Around the tile of 8 rows and 128 columns, sub-groups of any size, and nothing at all.
SHAPES = [(1, 1, 1), (7, 5, 9), (8, 64, 128), (9, 65, 129), (16, 33, 127), (3, 200, 300), (40, 0, 24)]
BOUND = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}  # over the sum of absolute products


@pytest.fixture
def grouped(handle):
    if handle.backend == "cpu" or not any("subgroups" in name for name in handle.device.extensions.split()):
        pytest.skip("needs an OpenCL device with sub-groups")
    return handle


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", pytest.param("float64", marks=pytest.mark.deep),
                                   pytest.param("float16", marks=pytest.mark.deep)])  # fmt: skip
def test_it_agrees_with_float64(grouped, dtype):
    engine = engine_for(grouped)
    rng = np.random.default_rng(0)
    for (m, k, n), transpose_a, transpose_b in product(SHAPES, (False, True), (False, True)):
        shapes = (2, k, m) if transpose_a else (2, m, k), (n, k) if transpose_b else (k, n)
        a, b = (Tensor.from_host(grouped.queue, rng.standard_normal(shape), dtype) for shape in shapes)
        options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "variant": "broadcast"}
        with profile(grouped) as p:
            found = engine.kernel_modules.gemm.matmul(engine, a, b, **options).numpy().astype(np.float64)
        assert k == 0 or "broadcast" in {row.name for row in p.kernels}
        left, right = (x.numpy().astype(np.float64) for x in (a, b))
        left = np.swapaxes(left, -1, -2) if transpose_a else left
        right = right.T if transpose_b else right
        error = np.abs(found - left @ right) / (np.abs(left) @ np.abs(right) + 1e-30)
        assert error.max() <= BOUND[dtype], (m, k, n, transpose_a, transpose_b)
        again = engine.kernel_modules.gemm.matmul(engine, a, b, **options).numpy().astype(np.float64)
        assert np.array_equal(found, again)


def test_only_a_measurement_takes_it(grouped, tmp_path, monkeypatch):
    monkeypatch.setattr(measurements, "_tables", {})
    monkeypatch.setattr(measurements, "_folder", lambda: tmp_path)
    ones = np.ones((16, 16), np.float32)
    with masked(grouped, is_cpu=False) as gpu, config.override(AUTOTUNE="cached", DETERMINISTIC=False):
        best = autotune_matmul(16, 16, 16, queue=gpu, warmup=0, runs=1, save=False)
        assert "broadcast" in best.extra["candidates"]
        x = Tensor.from_host(gpu.queue, ones)

        def launched():
            with profile(gpu) as p:
                assert (ops.matmul(x, x).to_host() == 16).all()
            return "broadcast" in {row.name for row in p.kernels}

        assert not launched()
        best.extra["kernel"] = "broadcast"
        measurements.store(engine_for(gpu), "matmul", (16, 16, 16), "float32", best)
        assert launched()


def test_without_sub_groups_it_is_the_tiled_kernel(handle):
    if handle.backend == "cpu" or any("subgroups" in name for name in handle.device.extensions.split()):
        pytest.skip("needs an OpenCL device without sub-groups")
    engine = engine_for(handle)
    x = Tensor.ones((16, 16), queue=handle.queue)
    assert "broadcast" not in engine.kernel_modules.gemm.kernels(engine, (16, 16), (16, 16))
    with profile(handle) as p:
        assert (engine.kernel_modules.gemm.matmul(engine, x, x, variant="broadcast").numpy() == 16).all()
    assert {row.name for row in p.kernels} == {"tiled"}
