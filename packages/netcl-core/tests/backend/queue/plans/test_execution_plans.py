"""Plans of engine calls: contractions repeat their launches on the tensors of each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.device.capabilities import profile_of
from netcl.core.device.health import launch_log
from netcl.core.engine.epilogue import added

pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.contraction import conv, gemm
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned

PADDED = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


@pytest.fixture
def opencl(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the engine of each OpenCL device, without plans."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    monkeypatch.setattr(engine, "plans", {})
    return engine


def matrix(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-4, 5, shape).astype(np.float32)


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("the launches of a call were chosen again")


def test_later_calls_repeat_the_launches_on_their_own_tensors(opencl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with a long sum, which take several launches and a temporary tensor, and with an epilogue."""
    rng = np.random.default_rng(0)
    sizes, log, seen = ((33, 2048), (2048, 40), (40,)), launch_log(opencl.queue), []
    for number in range(4):
        if number == 1:
            monkeypatch.setattr(gemm, "contract", never)
            monkeypatch.setattr(gemm, "_fuse", never)
        a, b, bias = (matrix(rng, *size) for size in sizes)
        left, right, addend = (opencl.tensor(x, "float32") for x in (a, b, bias))
        opencl.finish()
        log.clear()
        found = opencl.matmul(left, right, epilogue=added(addend))
        seen.append([*log])
        assert np.array_equal(opencl.read(found), a @ b + bias), number
    assert seen[0]
    assert seen[1:] == seen[:1] * 3


def test_one_tensor_given_twice_stands_for_two(opencl: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = matrix(rng, 24, 24), matrix(rng, 24, 24)
    x, y = opencl.tensor(a, "float32"), opencl.tensor(b, "float32")
    for first, second, wanted in ((x, x, a @ a), (x, y, a @ b), (y, x, b @ a), (y, y, b @ b)):
        assert np.array_equal(opencl.read(opencl.matmul(first, second)), wanted)


def test_operands_are_read_at_each_call(opencl: Any) -> None:
    """A filter that is written in place between two convolutions, by an op and from the host."""
    rng = np.random.default_rng(2)
    x, w = matrix(rng, 2, 3, 9, 8), matrix(rng, 5, 3, 3, 3)
    images, filters = opencl.tensor(x, "float32"), opencl.tensor(w, "float32")
    first = opencl.read(opencl.conv("forward", images, filters, **PADDED))
    filters.mul_(2.0)
    assert np.array_equal(opencl.read(opencl.conv("forward", images, filters, **PADDED)), 2 * first)
    opencl.write(filters, w)
    assert np.array_equal(opencl.read(opencl.conv("forward", images, filters, **PADDED)), first)


def test_a_setting_that_chooses_another_kernel_is_seen(opencl: Any) -> None:
    rng = np.random.default_rng(3)
    sizes = ((2, 32, 24, 24), (32, 32, 3, 3)) if profile_of(opencl.queue).is_cpu else ((32, 64, 28, 28), (64, 64, 3, 3))
    x, w = (opencl.tensor(matrix(rng, *size), "float32") for size in sizes)
    log, seen = launch_log(opencl.queue), []
    for allowed in (True, False, True, False):
        with config.override(CONV_WINOGRAD=allowed):
            log.clear()
            opencl.conv("forward", x, w, **PADDED)
            seen.append([*log])
            opencl.finish()
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


def test_a_captured_call_has_the_same_bits(opencl: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = (opencl.tensor(rng.standard_normal(size).astype(np.float32), "float32") for size in ((33, 500), (500, 40)))
    eager = [opencl.read(opencl.matmul(a, b)) for _ in range(2)]
    opencl.recording = recording = opencl.new_recording()
    try:
        found = opencl.matmul(a, b)
    finally:
        opencl.recording = None
    assert len(recording) > 0
    recording.replay()
    for each in (opencl.read(found), eager[1]):
        assert np.array_equal(each, eager[0])


def test_temporary_tensors_end_with_their_last_launch(opencl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that are padded in six blocks: a call by the plan takes no more memory than the first one."""
    for name in ("_WORKSPACE", "GPU_CONV_WORKSPACE"):
        monkeypatch.setattr(conv, name, 64 << 10)
    x = opencl.tensor(np.ones((6, 3, 64, 70), np.float32), "float32")
    w = opencl.tensor(np.ones((5, 3, 3, 3), np.float32), "float32")
    peaks = []
    for _ in range(3):
        opencl.pool.reset_peak()
        before = opencl.pool.get_stats()["bytes_in_use"]
        with config.override(CONV_WINOGRAD=False):
            out = opencl.conv("forward", x, w, **PADDED)
        peaks.append(opencl.pool.get_stats()["peak_bytes"] - before)
        assert opencl.read(out).max() == 27
        del out
    assert peaks[1] <= peaks[0]
    assert peaks[2] <= peaks[0]


def test_a_call_with_a_tensor_of_its_own_is_computed_each_time(opencl: Any) -> None:
    body = "{ const size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    text = f"__kernel void twice(__global const float* x, __global float* y) {body}"
    values, out = iter((3.0, 5.0, 7.0)), opencl.tensor(np.zeros(4), "float32")

    def compute(engine: Any, target: Tensor) -> None:
        engine.launch(text, "twice", (4,), (1,), [opencl.tensor(np.full(4, next(values)), "float32"), target])

    for wanted in (6, 10, 14):
        run_planned(opencl, "twice", compute, (out,))
        assert opencl.read(out).tolist() == [wanted] * 4


def test_a_call_that_fails_leaves_no_plan(opencl: Any) -> None:
    def failing(engine: Any) -> None:
        raise ValueError("no kernel")

    for _ in range(2):
        with pytest.raises(ValueError, match="no kernel"):
            run_planned(opencl, "failing", failing, ())
    assert "failing" not in opencl.plans


def test_the_number_of_plans_is_bounded(opencl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netcl.core.backend.opencl.queue.plans.execution_plan.PLANS_MAX", 3)
    for size in range(2, 12):
        opencl.matmul(*(opencl.tensor(np.ones((size, size)), "float32") for _ in range(2)))
        assert len(opencl.plans) <= 3
