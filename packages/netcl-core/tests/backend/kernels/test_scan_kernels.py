"""Scans of rows by a work-group each, on devices that are seen as GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.backend.registry import engine_for
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.testing import masked
from netcl.core.tuning.traits import Traits

# Rows within a block of 128 work-items, at its end, one element more, and of several blocks.
SHAPES = [(3, 64), (5, 500), (2, 513), (4, 1024), (3, 2048), (2, 2049), (3, 5000)]


@pytest.fixture
def gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device, seen as a GPU of two compute units."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl import templates

    with masked(engine.handle, is_cpu=False) as handle, device(handle):
        seen = engine_for(handle)
        monkeypatch.setitem(vars(seen), "_traits", templates.traits(seen)._replace(units=2))
        yield seen


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_scanned_by_one_kernel(gpu: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[1, 7] = x[0, shape[1] // 2] = 2.5
    a, exact = gpu.tensor(x, "float32"), x.astype(np.float64)
    log = launch_log(gpu.queue)
    log.clear()
    scanned = ops.cumsum(a, -1)
    assert [*log] == ["row_scan"]
    total = scanned.numpy()
    magnitude = np.cumsum(np.abs(exact), -1)
    assert (np.abs(total - np.cumsum(exact, -1)) <= magnitude * 2.0**-23).all()
    assert np.array_equal(total, ops.cumsum(a, -1).numpy())  # the same bits
    values, indices = ops.cummax(a, -1)
    assert np.array_equal(values.numpy(), np.maximum.accumulate(x, -1))
    assert np.array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())
    np.testing.assert_allclose(ops.logcumsumexp(a, -1).numpy(), np.logaddexp.accumulate(exact, -1), 2e-6, 2e-6)
    np.testing.assert_allclose(ops.cumprod(a * 0.1 + 1.0, -1).numpy(), np.cumprod(x * 0.1 + 1.0, -1, np.float64), 1e-3)


def test_integers_are_exact_and_rows_are_scanned_backwards(gpu: Any) -> None:
    x = np.random.default_rng(1).integers(-9, 10, (3, 2100)).astype(np.int32)
    a = gpu.tensor(x, "int32")
    assert np.array_equal(gpu.scan("sum", a, axis=1, reverse=True).numpy(), np.cumsum(x[:, ::-1], 1)[:, ::-1])
    values, indices = gpu.scan("min", a, axis=1, reverse=True)
    assert np.array_equal(values.numpy(), np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1])
    at = 2099 - indices.numpy()  # counted from where the scan begins
    assert np.array_equal(np.take_along_axis(x, at, 1), values.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "uint8"])
def test_other_dtypes(gpu: Any, dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 3, (2, 100))
    assert np.array_equal(gpu.scan("sum", gpu.tensor(x, dtype), axis=1).float().numpy(), np.cumsum(x, 1))


def test_nan_and_infinity_stay_from_where_they_are(gpu: Any) -> None:
    x = np.ones((2, 3000), np.float32)
    x[0, 2500], x[1, 100] = np.nan, np.inf
    found = ops.cumsum(gpu.tensor(x, "float32"), -1).numpy()
    assert np.array_equal(np.isnan(found[0]), np.arange(3000) >= 2500)
    assert np.array_equal(np.isinf(found[1]), np.arange(3000) >= 100)


def test_few_long_rows_are_cut_in_chunks(gpu: Any) -> None:
    x = np.random.default_rng(3).standard_normal((1, 5000)).astype(np.float32)
    log = launch_log(gpu.queue)
    log.clear()
    scanned = ops.cumsum(gpu.tensor(x, "float32"), -1)
    assert "staged_scan" in log
    assert "row_scan" not in log
    found = scanned.numpy()
    np.testing.assert_allclose(found, np.cumsum(x, -1, np.float64), 1e-5, 1e-5)


def test_rows_are_scanned_so_if_they_fit_and_keep_the_device_busy() -> None:
    from netcl.core.backend.opencl.kernels import scan

    gpu = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024, units=10)
    for kind, before, extent, after, seen, expected in (
        ("sum", 1, 512, 1, gpu, 4), ("sum", 1, 513, 1, gpu, 8), ("sum", 1, 2048, 1, gpu, 16),
        ("sum", 1, 2049, 1, gpu, 0),
        ("sum", 10, 2049, 1, gpu, 16), ("sum", 10, 63, 1, gpu, 0), ("sum", 10, 512, 2, gpu, 0),
        ("linear", 10, 512, 1, gpu, 0), ("max", 10, 512, 1, gpu._replace(local_memory=24 * 1024), 0),
        ("sum", 10, 512, 1, gpu._replace(group=64), 0), ("sum", 10, 512, 1, gpu._replace(is_cpu=True), 0),
    ):  # fmt: skip
        assert scan._stretch(kind, before, extent, after, seen) == expected, (kind, before, extent, after)
