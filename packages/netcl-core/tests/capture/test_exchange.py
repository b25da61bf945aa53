"""Replays read their arguments and write fresh results, without copies if that changes nothing."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.backend.opencl.queue.replays import command_buffer
from netcl.core.backend.opencl.queue.replays.replay import KernelRecording
from netcl.core.device.health import launch_log
from netcl.runtime.capture import capture


def _array(seed: int, shape: tuple[int, ...] = (6, 5)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def queue(handle: DeviceHandle) -> Any:
    if handle.backend != "cl" or command_buffer.are_used(handle.queue):
        pytest.skip("needs launches whose arguments may change")
    return handle.queue


def _entries(queue: Any, work: Any) -> int:
    """Returns the entries of the launch log that ``work`` makes: a replay is one, and each copy of a tensor another
    one.
    """
    log = launch_log(queue)
    log.clear()
    work()
    return len(log)


def test_nothing_is_copied(queue: Any) -> None:
    weight = Tensor.from_host(_array(1, (5, 7)))
    step = capture(lambda x, y: (ops.matmul(x, weight), ops.exp(y)), *(Tensor.from_host(_array(n)) for n in (2, 3)))
    x, y = Tensor.from_host(_array(4)), Tensor.from_host(_array(5))
    assert _entries(queue, lambda: step.replay(x, y)) == 1
    product, power = step.replay(x, y)
    assert np.array_equal(product.numpy(), ops.matmul(x, weight).numpy())
    assert np.array_equal(power.numpy(), ops.exp(y).numpy())


def test_a_large_result_is_not_copied_though_the_arena_had_a_larger_tensor_there(queue: Any) -> None:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        narrow = ops.cumsum(ops.cumsum(ops.cat([x, x, x]), 0), 0)  # tensors of three times the size come first
        return ops.cumsum(ops.cumsum(narrow[: len(x)], 0), 0), ops.cumsum(x, 0)

    x = Tensor.from_host(_array(3, (300, 400)))
    captured = capture(step, x)
    assert _entries(queue, lambda: captured.replay(x)) == 1
    results = [captured.replay(Tensor.from_host(_array(n, (300, 400)))) for n in range(3)]
    for n, (twice, once) in enumerate(results):
        expected = np.cumsum(_array(n, (300, 400)).astype(np.float64), 0)
        np.testing.assert_allclose(once.numpy(), expected, rtol=1e-3, atol=1e-3)
        for _ in range(3):
            expected = np.cumsum(expected, 0)
        np.testing.assert_allclose(twice.numpy(), expected, rtol=1e-3, atol=1e-2 * abs(expected).max())


def test_results_of_replays_are_tensors_of_their_own(handle: DeviceHandle) -> None:
    step = capture(lambda x: ops.add(ops.mul(x, 2.0), 1.0), Tensor.from_host(_array(0)))
    results = [step.replay(Tensor.from_host(_array(n))) for n in range(5)]
    chained = step.replay(step.replay(results[0]))
    for n, result in enumerate(results):
        assert np.array_equal(result.numpy(), _array(n) * 2 + 1)
    np.testing.assert_allclose(chained.numpy(), (results[0].numpy() * 2 + 1) * 2 + 1, rtol=1e-6)


def test_an_input_that_the_step_overwrites_is_copied_back(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> Tensor:
        x.write(ops.add(x, 1.0))
        return ops.mul(x, 2.0)  # type: ignore[no-any-return]

    captured = capture(step, Tensor.from_host(_array(0)))
    for n in range(3):
        x = Tensor.from_host(_array(n))
        assert np.array_equal(captured.replay(x).numpy(), (_array(n) + 1) * 2)
        assert np.array_equal(x.numpy(), _array(n) + 1)


def test_an_input_that_is_a_result_is_copied(handle: DeviceHandle) -> None:
    captured = capture(lambda x: {"x": x, "y": ops.neg(x), "flat": x.reshape(-1)}, Tensor.from_host(_array(0)))
    for n in range(3):
        x = Tensor.from_host(_array(n))
        found = captured.replay(x)
        x.write(ops.mul(x, 0.0))
        assert np.array_equal(found["x"].numpy(), _array(n))
        assert np.array_equal(found["y"].numpy(), -_array(n))
        assert np.array_equal(found["flat"].numpy(), _array(n).reshape(-1))


def test_results_that_share_memory_are_copied(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> Any:
        y = ops.exp(x)
        return y, y, y.reshape(5, 6)

    captured = capture(step, Tensor.from_host(_array(0)))
    first, second, third = captured.replay(Tensor.from_host(_array(1)))
    first.write(ops.mul(first, 0.0))
    expected = ops.exp(Tensor.from_host(_array(1))).numpy()
    assert np.array_equal(second.numpy(), expected)
    assert np.array_equal(third.numpy(), expected.reshape(5, 6))


def test_host_arrays_and_tensors_take_turns(handle: DeviceHandle) -> None:
    step = capture(lambda x, y: ops.sub(x, y), *(Tensor.from_host(_array(n)) for n in (0, 1)))
    for n in range(6):
        given = [_array(n), _array(n + 10)]
        mixed = [one if (n + at) % 3 == 0 else Tensor.from_host(one) for at, one in enumerate(given)]
        assert np.array_equal(step.replay(*mixed).numpy(), given[0] - given[1])


def test_one_tensor_for_two_inputs(handle: DeviceHandle) -> None:
    step = capture(lambda x, y: ops.sub(ops.mul(x, 3.0), y), *(Tensor.from_host(_array(n)) for n in (0, 1)))
    x = Tensor.from_host(_array(2))
    np.testing.assert_allclose(step.replay(x, x).numpy(), 2 * _array(2), rtol=1e-5, atol=1e-6)


def test_memory_that_results_shared_with_earlier_values(handle: DeviceHandle) -> None:
    """The arena gives a result the buffer of a value that has been read before."""

    def step(x: Tensor) -> Tensor:
        for _ in range(6):
            x = ops.softmax(ops.matmul(x, x))
        return x

    captured = capture(step, Tensor.from_host(_array(0, (8, 8))))
    for n in range(4):
        x = Tensor.from_host(_array(n, (8, 8)))
        assert np.array_equal(captured.replay(x).numpy(), step(x).numpy())


def test_views_of_an_input(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> Tensor:
        return ops.add(x[1:3], x[2:4])  # type: ignore[no-any-return]

    captured = capture(step, Tensor.from_host(_array(0)))
    for n in range(3):
        assert np.array_equal(captured.replay(Tensor.from_host(_array(n))).numpy(), _array(n)[1:3] + _array(n)[2:4])
        whole = Tensor.from_host(_array(n, (8, 5)))
        assert np.array_equal(captured.replay(whole[2:]).numpy(), step(whole[2:]).numpy())


def test_views_as_results(handle: DeviceHandle) -> None:
    weight = Tensor.from_host(_array(9), persistent=True)

    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = ops.exp(x)
        return y[1:3], x[2:4], y.T, y, weight[1:2], x.reshape(-1)[3:9]

    captured = capture(step, Tensor.from_host(_array(0)))
    for n in range(3):
        x = Tensor.from_host(_array(n))
        for found, expected in zip(captured.replay(x), step(x)):
            assert np.array_equal(found.numpy(), expected.numpy())


def test_a_step_with_command_buffers_is_left_alone(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netcl.core.backend.opencl.queue.replays.replay.are_used", lambda queue: True)
    step = capture(lambda x: ops.exp(x), Tensor.from_host(_array(0)))
    x = Tensor.from_host(_array(1))
    assert _entries(queue, lambda: step.replay(x)) == 3
    assert np.array_equal(step.replay(x).numpy(), ops.exp(x).numpy())


def test_threads_that_replay_one_step(handle: DeviceHandle) -> None:
    step = capture(lambda x: ops.add(ops.matmul(x, x), x), Tensor.from_host(_array(0, (16, 16))))
    given = [Tensor.from_host(_array(n, (16, 16))) for n in range(4)]
    expected = [step.replay(x).numpy() for x in given]
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(50):
            if not np.array_equal(step.replay(given[n]).numpy(), expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_input_is_copied_if_its_launches_cannot_be_changed(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelRecording, "exchange", lambda *args: None)
    step = capture(lambda x: ops.exp(x), Tensor.from_host(_array(0)))
    x = Tensor.from_host(_array(1))
    assert _entries(queue, lambda: step.replay(x)) == 3
    assert np.array_equal(step.replay(x).numpy(), ops.exp(x).numpy())
