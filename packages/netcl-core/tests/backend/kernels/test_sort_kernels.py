"""Rows that are sorted in local memory by a work-group each, and long ones digit by digit, on devices seen as GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked
from netcl.core.tuning.traits import Traits

EXTENTS = [257, 512, 513, 1500, 4096, 4097, 8192, 10001]


@pytest.fixture
def gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields the device, seen as a GPU without operations of a warp."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.kernels.sorts import sort

    monkeypatch.setattr(sort, "warp_of", lambda profile: None)
    with masked(engine.handle, is_cpu=False, local_mem_size=48 * 1024) as handle, device(handle):
        seen = engine_for(handle)
        vars(seen)["_traits"] = templates.traits(seen)._replace(units=1)  # eight chunks for all rows
        yield seen


@pytest.fixture(params=EXTENTS)
def extent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    from netcl.core.backend.opencl.kernels.sorts import radix_sort

    monkeypatch.setattr(radix_sort, "_LEAST", 4097)
    return int(request.param)


@pytest.mark.parametrize("descending", [False, True])
def test_rows_of_floats_are_sorted_stably(gpu: Any, extent: int, descending: bool) -> None:
    """With NaN, infinities, zeros of both signs and many equals: NaN counts as the largest."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, extent)).astype(np.float32)
    x[0, :5], x[1, 3], x[1, 4:9], x[:, 20:60], x[:, 70], x[:, 71] = np.nan, np.inf, -np.inf, 0.5, -0.0, 0.0
    log = launch_log(gpu.queue)
    log.clear()
    values, indices = gpu.sort("sort", gpu.tensor(x, "float32"), size=extent, descending=descending)
    assert ("sort_rows" if extent <= 4096 else "sort_tiles") in log
    assert "merge" not in log
    order = np.where(np.isnan(x), np.inf, x)
    ranks = np.unique(order, return_inverse=True)[1].reshape(x.shape) * 2 + np.isnan(x)
    wanted = np.argsort(-ranks if descending else ranks, -1, kind="stable")
    assert np.array_equal(indices.numpy(), wanted)
    found, expected = values.numpy(), np.take_along_axis(x, wanted, -1)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])
    alone = gpu.sort("unstable", gpu.tensor(x, "float32")).numpy()
    assert np.array_equal(alone, np.sort(x, -1), equal_nan=True)
    assert (np.signbit(alone) & (alone == 0)).sum() == (np.signbit(x) & (x == 0)).sum()  # each zero has its sign


@pytest.mark.parametrize("dtype", ["int64", "float64", "int16", "uint32", "bfloat16"])
def test_long_rows_of_other_dtypes(gpu: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.kernels.sorts import radix_sort

    monkeypatch.setattr(radix_sort, "_LEAST", 4097)
    scale = 10**16 if dtype == "int64" else 1
    x = np.random.default_rng(1).integers(0 if dtype == "uint32" else -120, 121, (2, 5000)) * scale
    log = launch_log(gpu.queue)
    log.clear()
    values, indices = gpu.sort("sort", gpu.tensor(x, dtype), size=5000)
    assert "sort_tiles" in log
    wanted = np.argsort(x, -1, kind="stable")
    assert np.array_equal(indices.numpy(), wanted)
    found = values.numpy() if dtype == "int64" else values.float().numpy()
    assert np.array_equal(found, np.take_along_axis(x, wanted, -1))
    alone = gpu.sort("unstable", gpu.tensor(x, dtype))
    assert np.array_equal(alone.numpy() if dtype == "int64" else alone.float().numpy(), found)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "bool"])
def test_other_dtypes(gpu: Any, dtype: str) -> None:
    low = 0 if dtype[0] in "ub" and dtype != "bfloat16" else -100
    x = np.random.default_rng(1).integers(low, 2 if dtype == "bool" else 101, (2, 300))
    given = gpu.tensor(x, dtype)
    values, indices = gpu.sort("sort", given, size=7, descending=True)
    wanted = np.argsort(-x, -1, kind="stable")[:, :7]
    assert np.array_equal(indices.numpy(), wanted)
    assert np.array_equal(values.float().numpy(), np.take_along_axis(x, wanted, -1))


def test_the_group_of_a_row_fits_the_device() -> None:
    from netcl.core.backend.opencl.kernels.sorts import sort

    gpu = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024)
    for extent, size, device_, expected in (
        (257, 4, gpu, 64), (1024, 4, gpu, 128), (4096, 2, gpu, 512), (4097, 4, gpu, 0), (256, 4, gpu, 0),
        (512, 8, gpu, 0), (4096, 4, gpu._replace(local_memory=32 * 1024), 0), (4096, 4, gpu._replace(group=256), 0),
        (2048, 4, gpu._replace(group=256), 256), (512, 4, gpu._replace(is_cpu=True), 0),
    ):  # fmt: skip
        assert sort._row_group(extent, size, device_) == expected, (extent, size, device_)


def test_long_rows_need_a_group_and_local_memory() -> None:
    from netcl.core.backend.opencl.kernels.sorts import radix_sort

    gpu = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024)
    long = radix_sort._LEAST
    for rows, extent, size, alone, seen, expected in (
        (1, long, 4, False, gpu, (256, 1, long, 8, 8, 2048)), (1, long, 8, False, gpu, (128, 1, long, 16, 16, 1024)),
        (30, 5 * long, 4, True, gpu, (256, 30, 5 * long, 40, 1, 5 * long)),
        (9, long, 4, False, gpu, (256, 9, long, 8, 4, 4096)), (1, long - 1, 4, False, gpu, None),
        (1, long, 4, False, gpu._replace(local_memory=24 * 1024), None),
        (1, long, 4, False, gpu._replace(group=128), None), (1, long, 4, False, gpu._replace(is_cpu=True), None),
    ):  # fmt: skip
        found = radix_sort.radix_sort(rows, extent, size, seen, "", alone)
        assert found == (expected and radix_sort.RadixSort("", expected[0], 8, *expected[1:])), (
            rows,
            extent,
        )
