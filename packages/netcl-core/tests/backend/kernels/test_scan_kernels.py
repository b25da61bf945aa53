"""Scans of rows by a work-group for each chunk, on devices that are seen as GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked
from netcl.core.tuning.traits import Traits

# Rows within a block of 128 work-items, at its end, one element more, and of several blocks.
SHAPES = [(3, 64), (5, 500), (2, 513), (4, 1024), (3, 2048), (2, 2049), (3, 5000)]
CHUNKED = [(2, 8192), (3, 10001), (2, 40960), (3, 31111)]  # a row has two to eight chunks


@pytest.fixture
def gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields the device, seen as a GPU of two compute units without operations of a warp."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.kernels.scans import scan

    monkeypatch.setattr(scan, "warp_of", lambda profile: None)
    with masked(engine.handle, is_cpu=False) as handle, device(handle):
        seen = engine_for(handle)
        monkeypatch.setitem(vars(seen), "_traits", templates.traits(seen)._replace(units=2))
        yield seen


@pytest.mark.parametrize("shape", [*SHAPES, *CHUNKED])
def test_rows_are_scanned_chunk_by_chunk(gpu: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[1, 7] = x[0, shape[1] // 2] = 2.5
    a, exact = gpu.tensor(x, "float32"), x.astype(np.float64)
    log = launch_log(gpu.queue)
    log.clear()
    scanned = ops.cumsum(a, -1)
    assert [*log] == (["row_totals", "row_scan"] if shape in CHUNKED else ["row_scan"])
    total = scanned.numpy()
    magnitude = np.cumsum(np.abs(exact), -1)
    assert (np.abs(total - np.cumsum(exact, -1)) <= magnitude * 2.0**-23).all()
    assert np.array_equal(total, ops.cumsum(a, -1).numpy())  # the same bits
    values, indices = ops.cummax(a, -1)
    assert np.array_equal(values.numpy(), np.maximum.accumulate(x, -1))
    assert np.array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())
    np.testing.assert_allclose(ops.logcumsumexp(a, -1).numpy(), np.logaddexp.accumulate(exact, -1), 2e-6, 2e-6)
    factors = (x * 0.01 + 1.0).astype(np.float32)
    found = ops.cumprod(gpu.tensor(factors, "float32"), -1).numpy()
    np.testing.assert_allclose(found, np.cumprod(factors.astype(np.float64), -1), 1e-6)


@pytest.mark.parametrize("extent", [2100, 20011])
def test_integers_are_exact_and_rows_are_scanned_backwards(gpu: Any, extent: int) -> None:
    x = np.random.default_rng(1).integers(-9, 10, (3, extent)).astype(np.int32)
    a = gpu.tensor(x, "int32")
    assert np.array_equal(gpu.scan("sum", a, axis=1, reverse=True).numpy(), np.cumsum(x[:, ::-1], 1)[:, ::-1])
    values, indices = gpu.scan("min", a, axis=1, reverse=True)
    assert np.array_equal(values.numpy(), np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1])
    at = extent - 1 - indices.numpy()  # counted from where the scan begins
    assert np.array_equal(np.take_along_axis(x, at, 1), values.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "uint8"])
def test_other_dtypes(gpu: Any, dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 3, (2, 100))
    assert np.array_equal(gpu.scan("sum", gpu.tensor(x, dtype), axis=1).float().numpy(), np.cumsum(x, 1))


@pytest.mark.parametrize("extent", [3000, 9000])
def test_nan_and_infinity_stay_from_where_they_are(gpu: Any, extent: int) -> None:
    x = np.ones((2, extent), np.float32)
    x[0, 2500], x[1, 100] = np.nan, np.inf
    found = ops.cumsum(gpu.tensor(x, "float32"), -1).numpy()
    assert np.array_equal(np.isnan(found[0]), np.arange(extent) >= 2500)
    assert np.array_equal(np.isinf(found[1]), np.arange(extent) >= 100)


def test_rows_are_scanned_so_if_they_fit() -> None:
    from netcl.core.backend.opencl.kernels.scans.scan import _row_scan, _RowScan

    gpu = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024, units=10)
    for before, extent, seen, expected in (
        (1, 512, gpu, (32, 16, 1, 512, 1, 512)), (1, 513, gpu, (64, 16, 1, 513, 1, 1024)),
        (10, 2048, gpu, (64, 16, 10, 2048, 1, 2048)), (1, 8191, gpu, (64, 16, 1, 8191, 1, 8192)),
        (1, 8192, gpu, (64, 16, 1, 8192, 8, 1024)), (2, 1 << 20, gpu, (64, 16, 2, 1 << 20, 79, 13312)),
        (200, 1 << 20, gpu, (64, 16, 200, 1 << 20, 1, 1 << 20)),
        (10, 63, gpu, None), (1, 1 << 32, gpu, None), (10, 512, gpu._replace(local_memory=12 * 1024), None),
        (10, 512, gpu._replace(group=32), None), (10, 512, gpu._replace(is_cpu=True), None),
    ):  # fmt: skip
        assert _row_scan(before, extent, seen) == (expected and _RowScan(*expected)), (before, extent)
