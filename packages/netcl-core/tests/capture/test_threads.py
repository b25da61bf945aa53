"""Captures in threads: each thread records its own step, others compute, read, draw and record at the same time."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import device, get_active_device
from netcl.core.errors import CaptureError
from netcl.runtime import staging
from netcl.runtime.capture import capture


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(*functions):
    """Returns the results of ``functions``, called in threads at once on the device of this one; an error of theirs is
    raised.
    """
    place, results = get_active_device(), {}

    def run(function):
        try:
            with device(place):
                results[function] = function()
        except Exception as error:  # noqa: BLE001
            results[None] = error

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in results:
        raise results[None]
    return [results[function] for function in functions]


@pytest.mark.usefixtures("handle")
def test_another_thread_computes_and_reads_while_a_step_is_captured():
    mine = Tensor.zeros(5)

    def other():
        mine.fill_(2.0)
        kept = Tensor.full((3,), 4.0, persistent=True)
        return (mine + 1.0).tolist(), ops.cumsum(kept, 0).tolist()

    def step(x):
        y = x * 2.0
        found.extend(in_threads(other))
        return y + 1.0

    found = []
    captured = capture(step, Tensor.ones(4))
    assert found == [([3.0] * 5, [4.0, 8.0, 12.0])]
    mine.fill_(7.0)
    assert captured.replay(Tensor.full((4,), 3.0)).tolist() == [7.0] * 4
    assert mine.tolist() == [7.0] * 5  # the replay has nothing of the other thread


@pytest.mark.usefixtures("handle")
def test_two_threads_capture_on_one_device_at_once():
    state = Tensor.zeros(3)

    def inner(x):
        state.add_(1.0)
        return x * state

    def step(x):
        y = ops.tanh(x)
        made.extend(in_threads(lambda: capture(inner, Tensor.ones(3))))
        return y * 2.0

    made = []
    captured = capture(step, Tensor.zeros(2))
    assert state.tolist() == [0.0] * 3
    assert made[0].replay(Tensor.full((3,), 5.0)).tolist() == [5.0] * 3
    assert state.tolist() == [1.0] * 3
    np.testing.assert_array_equal(captured.replay(Tensor.ones(2)).numpy(), ops.tanh(Tensor.ones(2)).numpy() * 2)


@pytest.mark.usefixtures("handle")
def test_a_capture_in_a_capture_of_the_same_thread_is_refused():
    def step(x):
        with pytest.raises(CaptureError, match="captures do not nest"):
            capture(lambda y: y + 1.0, x)
        return x * 3.0

    assert capture(step, Tensor.ones(2)).replay(Tensor.ones(2)).tolist() == [3.0, 3.0]


@pytest.mark.usefixtures("handle")
def test_a_replay_while_a_step_is_captured_is_part_of_it():
    total = Tensor.zeros(2)

    def inner(x):
        total.add_(x)
        return x * 10.0

    captured = capture(inner, Tensor.ones(2))
    whole = capture(lambda x: captured.replay(x) + 1.0, Tensor.ones(2))
    assert total.tolist() == [0.0, 0.0]
    assert whole.replay(Tensor.full((2,), 4.0)).tolist() == [41.0, 41.0]
    assert total.tolist() == [4.0, 4.0]


@pytest.mark.usefixtures("handle")
def test_a_step_that_is_replayed_in_its_own_replay_keeps_its_arguments():
    nested = []

    def between(reads, out):
        if replays and not nested:
            nested.append(None)
            nested[0] = replays[0](Tensor.full((4,), 100.0)).tolist()

    def step(x):
        y = x + 1.0
        staging.host_call(between, (y,), ())
        return x * 2.0

    replays = []
    captured = capture(step, Tensor.ones(4))
    replays.append(captured.replay)
    assert captured.replay(Tensor.full((4,), 3.0)).tolist() == [6.0] * 4
    assert nested == [[200.0] * 4]


@pytest.mark.usefixtures("handle", "many_switches")
def test_threads_that_draw_and_capture_use_each_counter_once():
    found = []

    def draw():
        found.extend(ops.rand(4).numpy().tobytes() for _ in range(60))

    def replay():
        for _ in range(6):
            captured = capture(lambda x: x + ops.rand(4), Tensor.zeros(4))
            found.extend(captured.replay(Tensor.zeros(4)).numpy().tobytes() for _ in range(10))

    ops.manual_seed(11)
    serial = sorted(ops.rand(4).numpy().tobytes() for _ in range(240))
    ops.manual_seed(11)
    in_threads(draw, replay, lambda: draw(), lambda: replay())
    assert sorted(found) == serial


@pytest.mark.usefixtures("handle", "many_switches")
def test_captures_are_right_while_another_thread_fills():
    x, state, stop, wrong = Tensor.from_host(np.arange(300, dtype=np.float32)), Tensor.zeros(300), [], []

    def step(v):
        state.add_(1.0)
        return ops.tanh(ops.sort(ops.cumsum(v * 2.0, 0) + state)[0] * 1e-3)

    def fill():
        mine = Tensor.zeros(1 << 16)
        while not stop:
            mine.fill_(1.0)
            wrong.extend([0] if mine[:1].tolist() != [1.0] else [])

    def captures():
        try:
            for number in range(25):
                state.fill_(0.0)
                if not np.array_equal(capture(step, x).replay(x).numpy(), wanted):
                    wrong.append(number)
        finally:
            stop.append(None)

    wanted = step(x).numpy()
    in_threads(fill, captures)
    assert wrong == []
