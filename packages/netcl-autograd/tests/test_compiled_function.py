"""The policy of functions that capture themselves, by ``compile_training_step``: limits, idle captures, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.autograd.compiler import compiled_function
from netcl.autograd.compiler.compiled_function import CompiledFunction
from netcl.autograd.training_compiler import compile_training_step
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import CaptureError
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")


def ones(size: int) -> Tensor:
    with device("cpu"):
        return Tensor.from_host(np.ones(size, np.float32))


def test_a_ninth_shape_runs_op_by_op_until_a_capture_is_idle():
    calls: list[int] = []

    @compile_training_step(warmup=1)
    def double(x):
        calls.append(x.shape[0])
        return x * 2.0

    for size in (*range(1, 10), *range(1, 10)):
        assert double(ones(size)).tolist() == [2.0] * size
    assert calls == [*range(1, 10), *range(1, 10)]  # of 9 the second call, too
    assert double.replays == double.captures == 8
    for _ in range(1000):
        double(ones(8))
    assert calls.count(8) == 2
    for _ in range(3):  # in the place of the capture for one element, which was idle for longest
        double(ones(9))
    assert calls.count(9) == 3
    assert double.captures == 8
    double(ones(2))
    assert calls.count(2) == 2
    double(ones(1))
    assert calls.count(1) == 3


def test_kinds_that_differ_each_time_are_forgotten():
    @compile_training_step
    def scaled(x, factor):
        return x * factor

    x = ones(2)
    for number in range(1100):
        assert scaled(x, float(number)).tolist() == [float(number)] * 2
    assert scaled.replays == 0
    assert len(scaled._calls) <= 1024


class _Switch:
    """A module with another mode after each run of the function in Python: every replay is refused."""

    training = True

    def modules(self):
        return [self]

    def parameters(self):
        return []

    buffers = parameters


def test_replays_that_are_refused_again_double_the_warm_up():
    switch = _Switch()
    runs: list[bool] = []

    @compile_training_step
    def step(x):
        switch.training = not switch.training
        runs.append(switch.training)
        return x * 2.0

    x = ones(3)
    for _ in range(100):
        assert step(x).tolist() == [2.0] * 3
    assert step.replays == 0
    # Captures at calls 3, 5, 9, 17, 33, 65: the warm-up was 2, 2, 4, 8, 16, 32.
    assert len(runs) == 100 + 6


def test_a_function_in_the_background_runs_op_by_op_until_its_programs_are_built(monkeypatch):
    asked = []

    def not_yet(fn, *inputs, watch=None, wait=True):
        asked.append(wait)
        if not wait:
            error = CaptureError("programs are missing")
            error.ready = lambda: len(calls) > 4
            raise error
        return capture(fn, *inputs, watch=watch)

    monkeypatch.setattr(compiled_function, "capture", not_yet)
    calls: list[int] = []

    def double(x):
        calls.append(x.shape[0])
        return x * 2.0

    function = CompiledFunction(double, warmup=1, background=True)
    for _ in range(8):
        assert function(ones(3)).tolist() == [2.0] * 3
    # Five calls op by op, then one that is captured.
    assert asked == [False, True]
    assert len(calls) == 6
    assert function.replays == 3
    assert function.captures == 1


def test_a_function_in_the_background_that_cannot_be_captured_stays_op_by_op():
    def reads(x):
        return x * x.sum().item()

    function = CompiledFunction(reads, warmup=1, background=True)
    function(ones(3))
    with pytest.warns(UserWarning, match="the step is not compiled"):
        function(ones(3))
    assert function(ones(3)).tolist() == [3.0] * 3
    assert not function.captures
