"""Captured steps that are replayed part by part, and the events that predictors see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.ops_table.dispatch import assign
from netcl.core.process.hook_stack import PREDICTOR, event, hooks_of_thread, settle, snapshot
from netcl.runtime.capture import CapturedStep, barrier, capture


def _host(count: int = 3) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal((6, 6)).astype(np.float32) for _ in range(count)]


def _two_parts(total: Tensor) -> CapturedStep:
    def step(x: Tensor, y: Tensor) -> list[Tensor]:
        first = ops.relu(ops.matmul(x, ops.add(x, 1.0)))
        assign(total, ops.add(total, first))
        barrier(x.engine)
        return [first, ops.softmax(ops.mul(ops.matmul(first, y), total))]

    return capture(step, *map(Tensor.from_host, _host(2)))


def test_a_part_is_replayed_before_the_next_argument_is_known(handle: DeviceHandle) -> None:
    total = Tensor.zeros((6, 6))
    captured = _two_parts(total)
    assert captured.parts == 2
    expected_total = np.zeros((6, 6), np.float32)
    for x, y in zip(_host(4)[2:], _host(6)[4:]):
        replay = captured.begin()
        replay.bind(0, Tensor.from_host(x))
        replay.run(0)
        first = replay.result(replay.results()[0]).numpy()
        expected = np.maximum(x @ (x + 1.0), 0)
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)
        expected_total += first
        np.testing.assert_array_equal(total.numpy(), expected_total)
        replay.bind(1, Tensor.from_host(y))
        replay.run(1)
        second = replay.result(replay.results()[1]).numpy()
        replay.end()
        scores = (first.astype(np.float64) @ y) * expected_total
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(second, weights / weights.sum(-1, keepdims=True), rtol=1e-3, atol=1e-5)


def test_a_replay_as_a_whole_has_the_bits_of_its_parts(handle: DeviceHandle) -> None:
    x, y = map(Tensor.from_host, _host(2))
    whole = [result.numpy() for result in _two_parts(Tensor.zeros((6, 6))).replay(x, y)]
    captured = _two_parts(Tensor.zeros((6, 6)))
    replay = captured.begin()
    replay.bind(0, x)
    replay.bind(1, y)
    for part in range(captured.parts):
        replay.run(part)
    replay.end()
    for one, tensor in zip(whole, replay.results()):
        np.testing.assert_array_equal(one, replay.result(tensor).numpy())


class _Predictor:
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def call(self, row: Any, args: Any, kwargs: Any, record: Any) -> Any:
        self.seen.append(row.name)
        return args[0]

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        self.seen.append(function.__name__)
        return function(*args, **kwargs)

    def settle(self, cause: str, reads: bool = False) -> None:
        self.seen.append(cause)


@pytest.fixture
def predictor() -> Any:
    outer, made = hooks_of_thread.state, _Predictor()
    hooks_of_thread.state = outer[0], ((PREDICTOR, made), *outer[1])  # type: ignore[assignment]
    yield made
    hooks_of_thread.state = outer


def test_a_predictor_is_called_in_the_place_of_ops_and_events(handle: DeviceHandle, predictor: _Predictor) -> None:
    x = Tensor.from_host(_host(1)[0])
    predictor.seen.clear()
    assert ops.softmax(x) is x
    assert event(abs)(-3) == 3
    settle("a test")
    assert predictor.seen == ["softmax", "abs", "a test"]


def test_threads_of_netcl_have_no_predictor(predictor: _Predictor) -> None:
    with snapshot().active():
        settle("a test")
    assert predictor.seen == []
