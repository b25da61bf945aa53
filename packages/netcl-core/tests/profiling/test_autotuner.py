"""The autotuner measures what a family of kernels declares and keeps the fastest that is right; the ops then use it."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DTypeError, ShapeError, UnsupportedError
from netcl.core.kernel_selector import KernelConfig, KernelVariant, get_kernel_selector
from netcl.core.process import cache_files
from netcl.core.tuning import measurements
from netcl.profiling import WorkGroupTuner, profile
from netcl.profiling.autotuner import autotune_conv2d, autotune_matmul

MATMUL = (40, 24, 56)
CONV = (2, 3, 9, 8, 5, 3, 3)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Gives each test measurements of its own, on disk and in the process; compiled kernels stay in place."""
    measurements._tables.clear()
    monkeypatch.setattr(measurements, "_folder", lambda: tmp_path / "tuning")
    with config.override(AUTOTUNE="cached", DETERMINISTIC=False):
        yield tmp_path
    measurements._tables.clear()
    measurements.forget_choices()


def stored(path):
    """Returns the measurements of a file, after the line with its checksum."""
    return json.loads(path.read_text().partition("\n")[2])


def launched(handle: DeviceHandle, run) -> set[str]:
    with profile(handle) as p:
        run()
    return {row.name for row in p.kernels}


def test_sample_17_of_the_faq_page_autotune(handle: DeviceHandle) -> None:
    from netcl.profiling.autotuner import autotune_conv2d, autotune_matmul

    for best in (autotune_matmul(64, 64, 64), autotune_conv2d(1, 3, 8, 8, 4, 3, 3)):
        assert isinstance(best, KernelConfig)


def test_autotune_matmul_measures_every_kernel(handle: DeviceHandle) -> None:
    best = autotune_matmul(*MATMUL, warmup=1, runs=2)
    times = best.extra["candidates"]
    assert best.extra["kernel"] in times
    assert best.extra["time_ms"] == min(times.values())
    assert best.extra["gflops"] == pytest.approx(2 * np.prod(MATMUL) / best.extra["time_ms"] / 1e6)
    if handle.backend == "cl":
        assert set(times) == set(engine_for(handle).kernel_modules.gemm.kernels(engine_for(handle), (40, 56), (56, 24)))
        assert len(times) > 1
        assert get_kernel_selector(handle).select_matmul_kernel(*MATMUL) == best
        with config.override(AUTOTUNE="off"):
            assert "time_ms" not in get_kernel_selector(handle).select_matmul_kernel(*MATMUL).extra
        with config.override(DETERMINISTIC=True):
            assert "time_ms" not in get_kernel_selector(handle).select_matmul_kernel(*MATMUL).extra


def test_autotune_conv2d(handle: DeviceHandle) -> None:
    best = autotune_conv2d(*CONV, stride=2, pad=1, warmup=1, runs=1)
    assert best.variant.name.startswith("CONV2D")
    assert best.extra["kernel"] in best.extra["candidates"]
    assert best.extra["gflops"] == pytest.approx(2 * 2 * 5 * 5 * 4 * 27 / best.extra["time_ms"] / 1e6)
    n, c, h, w, f, kh, kw = CONV
    if handle.backend == "cl":
        chosen = get_kernel_selector(handle).select_conv2d_kernel(n, c, f, h, w, kh, kw, stride=2, padding=1)
        assert chosen == best


def test_the_choice_changes_what_is_launched(handle: DeviceHandle) -> None:
    if handle.backend == "cpu":
        assert autotune_matmul(8, 8, 8, runs=1).extra["kernel"] == "numpy"
        return
    engine = engine_for(handle)
    a, b = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((40, 56), (56, 24)))
    x, y = Tensor.from_host(handle.queue, a), Tensor.from_host(handle.queue, b)
    image, weight = (Tensor.from_host(handle.queue, np.ones(s, np.float32)) for s in ((2, 3, 9, 8), (5, 3, 3, 3)))
    plain = {"matmul": ops.matmul(x, y).to_host(), "conv2d": ops.conv2d(image, weight).to_host()}
    for op, shape in (("matmul", MATMUL), ("conv2d", (2, 3, 5, 9, 8, 3, 3, (1, 1), (0, 0)))):
        config_of = KernelConfig(KernelVariant.MATMUL_NAIVE, extra={"kernel": "direct"})
        measurements.store(engine, op, shape, "float32", config_of)
        run = {"matmul": lambda: ops.matmul(x, y), "conv2d": lambda: ops.conv2d(image, weight)}[op]
        assert "direct" in launched(handle, run)
        assert np.allclose(run().to_host(), plain[op], rtol=1e-4, atol=1e-4)
        with config.override(AUTOTUNE="off"):
            assert "direct" not in launched(handle, run) or not engine.target.is_cpu


def test_a_measurement_is_kept_on_disk_and_near_shapes_use_it(handle: DeviceHandle, own_cache) -> None:
    best = autotune_matmul(*MATMUL, warmup=0, runs=1)
    files = list((own_cache / "tuning").glob("*.json"))
    if handle.backend == "cpu":
        assert files == []
        return
    (file,) = files
    content = stored(file)
    assert content["driver"] == measurements.driver_key_of(engine_for(handle))
    assert len(content["entries"]) == 1
    measurements._tables.clear()  # another process
    measurements.forget_choices()
    selector = get_kernel_selector(handle)
    assert selector.select_matmul_kernel(*MATMUL) == best
    near = selector.select_matmul_kernel(60, 24, 100)
    assert near.extra["measured_for"] == MATMUL
    assert near.extra["kernel"] == best.extra["kernel"]
    for far in ((100, 24, 56), (40, 24, 20)):
        assert "time_ms" not in selector.select_matmul_kernel(*far).extra
    assert "time_ms" not in selector.select_matmul_kernel(*MATMUL, dtype="float16").extra
    autotune_matmul(10, 10, 10, runs=1, warmup=0, save=False)
    assert len(stored(file)["entries"]) == 1
    measurements.forget()
    assert not file.exists()
    assert "time_ms" not in selector.select_matmul_kernel(*MATMUL).extra


@pytest.mark.parametrize("damage", [b"", b"{", b'{"entries": [{"op": 3}]}', b"[]"])
def test_a_damaged_file_is_measured_anew(handle: DeviceHandle, own_cache, damage, caplog) -> None:
    if handle.backend == "cpu":
        return
    best = autotune_matmul(8, 8, 8, warmup=0, runs=1)
    (file,) = (own_cache / "tuning").glob("*.json")
    file.write_bytes(damage)
    measurements._tables.clear()
    measurements.forget_choices()
    with caplog.at_level(logging.WARNING, "netcl"):
        assert "time_ms" not in get_kernel_selector(handle).select_matmul_kernel(8, 8, 8).extra
        measurements.store(engine_for(handle), "matmul", (8, 8, 8), "float32", best)
    assert "measured again" in caplog.text
    assert len(stored(file)["entries"]) == 1


def test_where_nothing_can_be_written_the_process_knows(handle: DeviceHandle, own_cache, monkeypatch) -> None:
    if handle.backend == "cpu":
        return
    monkeypatch.setattr(cache_files, "_warned", set())
    (own_cache / "tuning").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="kept in memory only"):
        best = autotune_matmul(8, 8, 8, warmup=0, runs=1)
        assert get_kernel_selector(handle).select_matmul_kernel(8, 8, 8) == best


def test_on_measures_a_new_shape_at_its_first_use(handle: DeviceHandle, own_cache) -> None:
    x = Tensor.ones((12, 12), queue=handle.queue)
    with config.override(AUTOTUNE="on"):
        assert ops.matmul(x, x).to_host()[0, 0] == 12
    entries = measurements.table(measurements.driver_key_of(engine_for(handle))) if handle.backend == "cl" else {}
    assert list(entries) == ([("matmul", (12, 12, 12), "float32")] if handle.backend == "cl" else [])


def test_a_tuned_kernel_that_differs_is_dropped_with_one_warning(handle: DeviceHandle, monkeypatch) -> None:
    if handle.backend == "cpu":
        return
    engine = engine_for(handle)
    gemm = engine.kernel_modules.gemm
    right, names = gemm.matmul, gemm.kernels(engine, (8, 8), (8, 8))

    def wrong(engine, a, b, variant=None):
        result = right(engine, a, b, variant=variant)
        return ops.add(result, 0.1) if variant in bad else result

    monkeypatch.setattr(gemm, "matmul", wrong)
    bad = names[:1]
    with pytest.warns(RuntimeWarning, match="differs from the plain kernel") as seen:
        best = autotune_matmul(8, 8, 8, warmup=0, runs=1)
    assert len(seen) == 1
    assert best.extra["kernel"] in names[1:]
    assert set(best.extra["candidates"]) == set(names[1:])
    bad = names
    with pytest.warns(RuntimeWarning, match="differs from the plain kernel"):
        best = autotune_matmul(8, 8, 8, warmup=0, runs=1)
    assert best.extra["kernel"] == "plain"
    assert best.variant is KernelVariant.MATMUL_NAIVE


def test_bad_input_is_named(handle: DeviceHandle) -> None:
    with pytest.raises(ShapeError, match="autotune_matmul.*positive"):
        autotune_matmul(0, 3, 3)
    with pytest.raises(DTypeError, match="int32"):
        autotune_matmul(3, 3, 3, "int32")
    with pytest.raises(ShapeError, match="does not fit"):
        autotune_conv2d(1, 1, 2, 2, 1, 5, 5)


@pytest.mark.deep
def test_half(handle: DeviceHandle) -> None:
    best = autotune_matmul(16, 20, 24, "half", warmup=0, runs=1)
    assert best.extra["time_ms"] > 0


def test_work_group_tuner(handle: DeviceHandle) -> None:
    if handle.backend == "cpu":
        with pytest.raises((UnsupportedError, ImportError, TypeError, ValueError)):
            WorkGroupTuner(object(), 64).tune(handle.queue)
        return
    from netcl.core.kernels.primitives import KernelSpec

    spec = KernelSpec("twice", ["__global float* x"], "x[get_global_id(0)] *= 1.0f;")
    kernel = spec.build(handle.queue).kernel()
    x = Tensor.ones((1024,), queue=handle.queue)
    kernel.set_args(x.buffer)
    tuner = WorkGroupTuner(kernel, 1024)
    assert tuner.best_local_size is None
    assert tuner.runtime_us is None
    assert tuner.tune(handle.queue, candidates=[16, (64,), 7, 1 << 20]) is tuner
    assert set(tuner.measured) == {(16,), (64,)}
    assert tuner.best_local_size in tuner.measured
    assert tuner.runtime_us == tuner.measured[tuner.best_local_size] > 0
    every = WorkGroupTuner(kernel, (1024,)).tune(handle)
    assert {(1,), (2,)} <= set(every.measured)
    assert "twice" in repr(every)
    with pytest.raises(UnsupportedError, match="twice"):
        WorkGroupTuner(kernel, 1024).tune(handle.queue, candidates=[7])
    for size in ((), (0,), (1, 1, 1, 1)):
        with pytest.raises(ShapeError, match="global size"):
            WorkGroupTuner(kernel, size)
