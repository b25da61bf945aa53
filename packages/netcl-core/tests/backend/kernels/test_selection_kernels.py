"""The first of rows and their k-th by a work-group each, and stream compaction, on devices seen as GPUs."""

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


@pytest.fixture
def gpu(engine: Any) -> Iterator[Any]:
    """Yields the device, seen as a GPU of two compute units."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl import templates

    with masked(engine.handle, is_cpu=False, local_mem_size=48 * 1024) as handle, device(handle):
        seen = engine_for(handle)
        vars(seen)["_traits"] = templates.traits(seen)._replace(units=2)
        yield seen


def _mixed(extent: int) -> np.ndarray:
    """Rows with NaN, infinities, zeros of both signs, many equals and nothing but equals."""
    x = np.random.default_rng(extent).standard_normal((4, extent)).astype(np.float32)
    x[0, :5], x[1, 3], x[1, 4:9], x[:, 20:60], x[:, 70], x[:, 71] = np.nan, np.inf, -np.inf, 0.5, -0.0, 0.0
    x[2] = np.round(x[2])
    x[3] = 1.5
    return x


def _ranks(x: np.ndarray) -> np.ndarray:
    order = np.where(np.isnan(x), np.inf, x)
    ranks: np.ndarray = np.unique(order, return_inverse=True)[1].reshape(x.shape) * 2 + np.isnan(x)
    return ranks


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("extent", "wanted"), [(257, 1), (300, 64), (4096, 256), (5001, 100), (70001, 17)])
def test_the_first_of_rows_are_those_of_a_stable_sort(gpu: Any, extent: int, wanted: int, descending: bool) -> None:
    x = _mixed(extent)
    log = launch_log(gpu.queue)
    log.clear()
    values, indices = gpu.sort("sort", gpu.tensor(x, "float32"), size=wanted, descending=descending)
    assert [*log] == ["first_of_rows"]
    order = np.argsort(-_ranks(x) if descending else _ranks(x), -1, kind="stable")[:, :wanted]
    assert np.array_equal(indices.numpy(), order)
    found, expected = values.numpy(), np.take_along_axis(x, order, -1)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "int8", "uint32", "bfloat16", "bool"])
def test_other_dtypes(gpu: Any, dtype: str) -> None:
    scale = 10**16 if dtype in ("int64", "float64") else 1
    low, high = (0, 2) if dtype == "bool" else (0 if dtype[0] == "u" else -120, 121)
    x = np.random.default_rng(1).integers(low, high, (2, 700)) * scale
    values, indices = gpu.sort("sort", gpu.tensor(x, dtype), size=40)
    order = np.argsort(x, -1, kind="stable")[:, :40]
    assert np.array_equal(indices.numpy(), order)
    found = values.numpy() if dtype in ("int64", "uint64", "float64") else values.float().numpy()
    assert np.array_equal(found, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("extent", [300, 5000])
def test_the_kth_is_that_of_a_stable_sort(gpu: Any, extent: int) -> None:
    x = _mixed(extent)
    given = gpu.tensor(x, "float32")
    order = np.argsort(_ranks(x), -1, kind="stable")
    for at in (0, 45, extent // 2, extent - 1):
        positions = gpu.tensor(np.full((4, 1), at), "int64")
        log = launch_log(gpu.queue)
        log.clear()
        found = gpu.sort("kth", given, positions)
        assert [*log] == ["kth_of_rows"]
        assert np.array_equal(found.numpy(), order[:, at : at + 1])


def test_rows_are_selected_from_so_if_it_pays() -> None:
    from netcl.core.backend.opencl.kernels.selections.select import selects_rows, selects_whole_rows

    gpu = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024, units=10)
    for extent, wanted, seen, expected in (
        (257, 64, gpu, True), (257, 65, gpu, False), (256, 1, gpu, False), (9999, 257, gpu, False),
        (1 << 20, 256, gpu, True), (999, 9, gpu._replace(group=128), False), (999, 9, gpu._replace(is_cpu=True), False),
    ):  # fmt: skip
        assert selects_rows(extent, wanted, seen) == expected, (extent, wanted)
    for rows, extent, expected in ((9, 1 << 17, True), (9, (1 << 17) + 1, False), (10, 1 << 20, True)):
        assert selects_whole_rows(rows, extent, gpu) == expected, (rows, extent)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("rows", "extent", "wanted"), [(1, 100_000, 50), (3, 70_001, 7), (2, 9_000, 250), (1, 5_000, 1)]
)
def test_few_long_rows_are_selected_from_in_chunks(
    engine: Any, rows: int, extent: int, wanted: int, largest: bool
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no work-groups")
    x = np.random.default_rng(0).integers(-500, 500, (rows, extent)).astype(np.float32)  # many are equal
    order = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :wanted]
    with masked(engine.handle, is_cpu=False, compute_units=20) as handle, device(handle):
        values, positions = ops.topk(engine_for(handle).tensor(x, "float32"), wanted, largest=largest)
        assert np.array_equal(positions.numpy(), order)
        assert np.array_equal(values.numpy(), np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("size", [1, 255, 4096, 4097, 100_003])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_true_elements_are_listed_in_order(gpu: Any, size: int, share: float) -> None:
    mask = np.random.default_rng(size).random(size) < share
    assert np.array_equal(gpu.nonzero(gpu.tensor(mask, "bool")).numpy(), np.flatnonzero(mask))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float64", "bfloat16"])
def test_runs_of_equals_are_listed_with_their_positions(gpu: Any, dtype: str) -> None:
    x = np.sort(np.random.default_rng(0).integers(0, 200, 9001))
    values, starts = gpu.sort("runs", gpu.tensor(x, dtype), wanted=("first",))
    expected, first = np.unique(x, return_index=True)
    assert np.array_equal(starts.numpy(), first)
    assert np.array_equal(values.float().numpy(), expected)
    (alone,) = gpu.sort("runs", gpu.tensor(x, dtype))
    assert np.array_equal(alone.float().numpy(), expected)


@pytest.mark.parametrize("size", [1, 100, 20_000])
def test_unique_of_floats(gpu: Any, size: int) -> None:
    """Zeros of both signs are equal, subnormal numbers are not, and every NaN is distinct."""
    x = np.round(np.random.default_rng(2).standard_normal(size) * 50).astype(np.float32)
    if size > 1:
        x[:6] = [np.nan, 1e-40, 2e-40, -0.0, 0.0, np.nan]
    given = gpu.tensor(x, "float32")
    values, counts = ops.unique(given, return_counts=True)
    expected, often = np.unique(x, return_counts=True, equal_nan=False)
    assert np.array_equal(values.numpy(), expected, equal_nan=True)
    assert np.array_equal(counts.numpy(), often)
    assert np.array_equal(ops.unique(given).numpy(), expected, equal_nan=True)
    inverse = ops.unique(given, return_inverse=True)[1].numpy()
    found = np.isnan(x)
    assert np.array_equal(expected[inverse][~found], x[~found])
    assert sorted(inverse[found]) == list(np.flatnonzero(np.isnan(expected)))
