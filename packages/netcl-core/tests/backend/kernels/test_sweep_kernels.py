"""Sorts and scans in one pass over the data, on the software twin of a warp's operations, on devices seen as GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, config
from netcl.core.device import device
from netcl.core.device.drivers.child_probe import RIGHT, WRONG, driver_key
from netcl.core.device.health import launch_log
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked
from netcl.core.tuning.traits import Traits
from netcl.runtime.capture import capture

GPU = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024, units=10)


@pytest.fixture
def gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl.kernels.scans import scan
    from netcl.core.backend.opencl.kernels.selections import compaction
    from netcl.core.backend.opencl.kernels.sorts import sort

    for module in (sort, scan, compaction):
        monkeypatch.setattr(module, "warp_of", lambda profile: "twin")
    with masked(engine.handle, is_cpu=False, local_mem_size=48 * 1024, compute_units=64) as handle, device(handle):
        yield engine_for(handle)


def launches(engine: Any) -> Any:
    log = launch_log(engine.queue)
    log.clear()
    return log


def planned(engine: Any) -> set[str]:
    """Returns the kernels that the engine's plans are named after."""
    return {key[0] for key in engine.plans if isinstance(key[0], str)}


@pytest.mark.parametrize(("rows", "extent"), [(1, 40_001), (3, 16_384)])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_of_floats_are_sorted_stably(gpu: Any, rows: int, extent: int, descending: bool) -> None:
    """With NaN, infinities, zeros of both signs and many equals: NaN counts as the largest."""
    x = np.random.default_rng(0).standard_normal((rows, extent)).astype(np.float32)
    x[0, :5], x[-1, 6], x[-1, 7:9], x[:, 20:6000], x[:, 70], x[:, 71] = np.nan, np.inf, -np.inf, 0.5, -0.0, 0.0
    ranks = np.unique(np.where(np.isnan(x), np.inf, x), return_inverse=True)[1].reshape(x.shape) * 2 + np.isnan(x)
    wanted = np.argsort(-ranks if descending else ranks, -1, kind="stable")
    given, log = gpu.tensor(x, "float32"), launches(gpu)
    for _ in range(2):  # the second one by the plan of the first one
        values, indices = gpu.sort("sort", given, size=extent, descending=descending)
        assert "sort_tiles" in log
        assert log.count("sort_tiles") == 4 * log.count("digit_counts")
        assert np.array_equal(indices.numpy(), wanted)
        found, expected = values.numpy(), np.take_along_axis(x, wanted, -1)
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])
    alone = gpu.sort("unstable", given).numpy()
    assert np.array_equal(alone, np.sort(x, -1), equal_nan=True)
    assert (np.signbit(alone) & (alone == 0)).sum() == (np.signbit(x) & (x == 0)).sum()  # each zero has its sign


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "int16", "uint32", "uint8", "bool", "float16"])
@pytest.mark.parametrize("scale", [1, 10**16])
def test_rows_of_other_dtypes(gpu: Any, dtype: str, scale: int) -> None:
    """Of small integers most digits are the same in all elements of a row, in each row others of large ones."""
    if scale > 1 and dtype not in ("int64", "float64"):
        scale = 1
    low, high = (0 if dtype[0] in "ub" else -120), 2 if dtype == "bool" else 121
    x = np.random.default_rng(1).integers(low, high, (2, 17_000)) * scale
    x[1] = abs(x[1]) // 3
    given, log = gpu.tensor(x, dtype), launches(gpu)
    values, indices = gpu.sort("sort", given, size=17_000)
    assert "sort_tiles" in log
    wanted = np.argsort(x, -1, kind="stable")
    assert np.array_equal(indices.numpy(), wanted)
    assert np.array_equal(values.numpy().astype(np.float64), np.take_along_axis(x, wanted, -1).astype(np.float64))
    assert np.array_equal(gpu.sort("unstable", given).numpy(), values.numpy())


SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "logsumexp": np.logaddexp.accumulate}


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize(("rows", "extent", "stretch", "fan"), [(2, 70_001, 8, 64), (1, 100_003, 4, 8)])
def test_long_rows_are_scanned(
    gpu: Any, kind: str, dtype: str, rows: int, extent: int, stretch: int, fan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways; the second sizes have more whole FANs of tiles than a FAN has tiles."""
    from netcl.core.backend.opencl.kernels.scans import scan
    from netcl.core.backend.opencl.kernels.warps import look_back

    if kind == "logsumexp" and dtype[0] == "i":
        pytest.skip("needs floats: integers have no logarithms")
    monkeypatch.setattr(scan, "_WARP_STRETCHES", (stretch,))
    monkeypatch.setattr(look_back, "FAN", fan)
    scan._warp_scan.cache_clear()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, extent)) if dtype[0] != "i" else rng.integers(-100, 100, (rows, extent))
    if kind == "prod":
        x = np.exp(0.01 * x) if dtype[0] != "i" else 1 - 2 * (x % 2)
    given = gpu.tensor(x.astype(np.float32 if dtype == "bfloat16" else dtype), dtype)
    exact = (given.float() if dtype == "bfloat16" else given).numpy().astype(np.float64)
    for reverse in (False, True):
        log = launches(gpu)
        found = gpu.scan(kind, given, axis=1, reverse=reverse)
        assert "row_scan" in log
        assert "row_totals" not in log
        values, positions = found if kind == "max" else (found, None)
        again = gpu.scan(kind, given, axis=1, reverse=reverse)
        walked = exact[:, ::-1] if reverse else exact
        wanted = SCANS[kind](walked, axis=1)
        wanted = wanted[:, ::-1] if reverse else wanted
        result = (values.float() if dtype == "bfloat16" else values).numpy().astype(np.float64)
        repeated = again[0] if kind == "max" else again
        assert np.array_equal(result, (repeated.float() if dtype == "bfloat16" else repeated).numpy())
        tolerance = {"float32": 3e-7, "float64": 1e-11, "bfloat16": 5e-3}.get(dtype, 0)
        assert (abs(result - wanted) <= tolerance * np.maximum(abs(wanted), 1)).all()
        if positions is not None:
            at = positions.numpy()
            taken = np.take_along_axis(walked, at[:, ::-1] if reverse else at, 1)
            assert np.array_equal(taken[:, ::-1] if reverse else taken, wanted)
    scan._warp_scan.cache_clear()


def test_the_trial_sorts_on_the_device(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl.kernels.sorts import sweep_trial

    key = driver_key(engine.queue.device)
    assert sweep_trial.run_trial("twin", key) == RIGHT
    monkeypatch.setattr(sweep_trial, "sort_long_rows", lambda *arguments: None)
    assert sweep_trial.run_trial("twin", key) == WRONG


def test_other_devices_sort_in_chunks(engine: Any) -> None:
    """A CPU has no row of the table; nor has any device with portable kernels."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.device.capabilities import profile_of
    from netcl.core.tuning import warp_table

    profile = profile_of(engine.queue)
    if profile.is_cpu:
        assert warp_table.warp_of(profile) is None
    with config.override(KERNEL_STRATEGY="portable"):
        assert warp_table.warp_of(profile) is None


def test_sweeps_need_a_group_and_local_memory() -> None:
    from netcl.core.backend.opencl.kernels.scans.scan import _RowScan, _warp_scan
    from netcl.core.backend.opencl.kernels.sorts.radix_sort import RadixSort, radix_sort

    for rows, extent, size, seen, alone, expected in (
        (1, 1 << 20, 4, GPU, False, ("twin", 256, 16, 1, 1 << 20, 256, 64, 4 * 4096)),
        (1, 1 << 20, 4, GPU, True, ("twin", 256, 32, 1, 1 << 20, 128, 64, 2 * 8192)),
        (3, 40_000, 8, GPU, True, ("twin", 256, 12, 3, 40_000, 14, 14, 3072)),
        (1, 1 << 30, 4, GPU, False, None), (1, 16_383, 4, GPU, False, None),
        (1, 1 << 20, 4, GPU._replace(group=128), True, None),
        (1, 1 << 20, 4, GPU._replace(local_memory=32 * 1024), False, None),
    ):  # fmt: skip
        assert radix_sort(rows, extent, size, seen, "twin", alone) == (expected and RadixSort(*expected)), (
            rows,
            extent,
        )
    for kind, dtype, seen, stretch, tiles in (
        ("sum", "float32", GPU, 32, 25), ("max", "float32", GPU, 32, 25), ("sum", "float64", GPU, 32, 25),
        ("max", "float64", GPU, 16, 49), ("sum", "float32", GPU._replace(local_memory=16 * 1024), 16, 49),
        ("sum", "float32", GPU._replace(local_memory=8 * 1024), 0, 0), ("sum", "float32", GPU._replace(group=64), 0, 0),
    ):  # fmt: skip
        expected = _RowScan(128, stretch, 2, 100_000, tiles, 128 * stretch, "twin") if tiles else None
        assert _warp_scan(kind, dtype, 2, 100_000, seen, "twin") == expected, (kind, dtype)


def test_unique_elements(gpu: Any) -> None:
    x = np.random.default_rng(3).integers(-5000, 5000, 50_000)
    values, counts = ops.unique(gpu.tensor(x, "int64"), return_counts=True)
    expected, often = np.unique(x, return_counts=True)
    assert np.array_equal(values.numpy(), expected)
    assert np.array_equal(counts.numpy(), often)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("size", "fan"), [(40_001, 64), (300_000, 4)])
def test_true_elements_are_listed(gpu: Any, share: float, size: int, fan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second size has more whole FANs of tiles than a FAN has tiles."""
    from netcl.core.backend.opencl.kernels.warps import look_back

    monkeypatch.setattr(look_back, "FAN", fan)
    for seed in range(2):  # the second one by the plan of the first one
        mask = np.random.default_rng(seed).random(size) < share
        found = gpu.nonzero(gpu.tensor(mask, "bool"))
        assert np.array_equal(found.numpy(), np.flatnonzero(mask))
        if share < 0.25:  # in memory of its own
            assert found.buffer.size < 8 * size
    assert "list_true" in planned(gpu)
    assert "count_true" not in planned(gpu)


def test_the_first_of_equal_floats_are_listed(gpu: Any) -> None:
    """Every NaN is distinct, and zeros of both signs are equal."""
    x = np.random.default_rng(5).standard_normal(60_000).astype(np.float32).round(2)
    x[:4], x[-5:] = [np.nan, 0.0, -0.0, np.inf], np.nan
    values, inverse, counts = ops.unique(gpu.tensor(x, "float32"), return_inverse=True, return_counts=True)
    assert "list_true" in planned(gpu)
    assert "count_true" not in planned(gpu)
    expected, back, often = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
    assert np.array_equal(values.numpy(), expected, equal_nan=True)
    assert np.array_equal(counts.numpy(), often)
    assert np.array_equal(inverse.numpy()[~np.isnan(x)], back[~np.isnan(x)])


def test_the_number_of_a_launch_begins_again(gpu: Any) -> None:
    """States with the number of an earlier launch are no states of this one, after 2^32 launches either."""
    x = np.random.default_rng(6).integers(-9, 9, 50_000)
    given, words = gpu.tensor(x, "int64"), gpu.signals(1)
    number = words.numpy()
    number[0] = -2
    number[4:] = 1  # flags of the first launch
    gpu.write(words, number)
    for expected in (0, 1, 2):
        assert np.array_equal(gpu.scan("sum", given, axis=0).numpy(), np.cumsum(x))
        assert words.numpy()[:3].tolist() == [expected, 0, 0]


def test_replays_have_the_bits_of_eager_calls(gpu: Any) -> None:
    def step(x: Tensor) -> tuple[Tensor, ...]:
        return *ops.sort(x, dim=0), ops.cumsum(x, 0)

    rng = np.random.default_rng(4)
    x, y = (gpu.tensor(rng.standard_normal(40_000), "float32") for _ in range(2))
    captured = capture(step, x)
    for given in (y, x, y):
        for replayed, eager in zip(captured.replay(given), step(given)):
            assert replayed.numpy().tobytes() == eager.numpy().tobytes()


def test_each_row_has_a_template() -> None:
    from netcl.core.backend.opencl.kernels.warps.look_back import WARP_TEMPLATES
    from netcl.core.tuning.warp_table import WARPS

    assert WARP_TEMPLATES.keys() == WARPS.keys()
