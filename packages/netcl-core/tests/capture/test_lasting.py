"""Values that a capture computes from tensors which its step does not write: replays read them and see later writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.tensor import Tensor as CoreTensor
from netcl.runtime.capture import CapturedStep, capture

Array = np.ndarray[Any, Any]


def _array(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def drivers(handle: DeviceHandle) -> DeviceHandle:
    if handle.backend != "cl":
        pytest.skip("NumPy's engine keeps nothing")
    return handle


class _Net:
    """Convolutions of all kinds of kernels, each with fixed statistics behind it, and a residual."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.arrays: dict[str, Array] = {}
        self.tensors: dict[str, Any] = {}
        for name, shape in {"stem": (64, 3, 3, 3), "square": (64, 64, 3, 3), "wide": (1200, 64, 1, 1)}.items():
            self._add(name, _array(len(name), *shape) / np.sqrt(np.prod(shape[1:])))
            self._add(f"{name}.mean", _array(1, shape[0]))
            self._add(f"{name}.var", np.random.default_rng(2).uniform(0.5, 2, shape[0]))
            self._add(f"{name}.weight", 1 + _array(3, shape[0]) / 4)
            self._add(f"{name}.bias", _array(4, shape[0]))

    def _add(self, name: str, array: Array) -> None:
        self.arrays[name] = array
        self.tensors[name] = Tensor.from_host(array.astype(self.dtype), dtype=self.dtype).clone()

    def _unit(self, name: str, x: Tensor, padding: int) -> Tensor:
        product = ops.conv2d(x, self.tensors[name], None, 1, padding)
        fixed = (self.tensors[f"{name}.{part}"] for part in ("mean", "var", "weight", "bias"))
        return ops.batch_norm(product, *fixed, training=False)

    def __call__(self, x: Tensor) -> Tensor:
        x = ops.relu(self._unit("stem", x, 1))
        x = ops.relu(self._unit("square", x, 1) + x)
        return ops.relu(self._unit("wide", x, 0))


def _difference(one: Tensor, other: Tensor) -> float:
    return float(np.abs(one.numpy().astype(np.float64) - other.numpy().astype(np.float64)).max())


def test_statistics_are_factors_of_the_products(drivers: DeviceHandle) -> None:
    net, x = _Net(), Tensor.from_host(_array(0, 2, 3, 24, 24))
    folded, plain = capture(net, x), CapturedStep(net, (x,))
    assert len(folded) < len(plain)
    assert folded.lasting_bytes > 0 == plain.lasting_bytes
    assert np.array_equal(plain.replay(x).numpy(), net(x).numpy())
    wanted = net(x)
    assert _difference(folded.replay(x), wanted) < 4e-6 * float(np.abs(wanted.numpy()).max())


def test_the_error_stays_that_of_float32(drivers: DeviceHandle) -> None:
    if not drivers.queue.device.double_fp_config:
        pytest.skip("the device has no float64")
    net, exact, x = _Net(), _Net("float64"), _array(0, 2, 3, 24, 24)
    wanted = exact(Tensor.from_host(x.astype(np.float64), dtype="float64"))
    x = Tensor.from_host(x)
    bound = 2 * _difference(net(x), wanted)
    assert 0 < _difference(capture(net, x).replay(x), wanted) < bound


def test_writes_between_replays_are_seen(drivers: DeviceHandle) -> None:
    net, x = _Net(), Tensor.from_host(_array(0, 2, 3, 24, 24))
    captured = capture(net, x)
    writes: dict[str, Callable[[CoreTensor], object]] = {
        "in place": lambda weight: weight.mul_(1.5),
        "a view": lambda weight: weight[0].fill_(0.25),
        "data": lambda weight: weight.data.add_(0.5),
        "the host": lambda weight: weight.write(weight.numpy() * np.float32(0.75)),
        "a replay": lambda weight: capture(lambda step: weight.add_(step), Tensor.from_host(np.float32(0.125))).replay(
            np.float32(0.125)
        ),
    }
    for number, (kind, write) in enumerate(writes.items()):
        name = ("stem", "square", "wide", "wide.var", "square.mean")[number]
        before = captured.replay(x)
        write(net.tensors[name])
        after, wanted = captured.replay(x), net(x)
        assert _difference(after, before) > 1e-3, (kind, name)
        assert _difference(after, wanted) < 4e-6 * float(np.abs(wanted.numpy()).max()), (kind, name)


def test_arrays_of_the_program_and_written_weights_are_read_at_each_replay(drivers: DeviceHandle) -> None:
    x, array = Tensor.from_host(_array(0, 2, 64, 12, 12)), _array(1, 1200, 64, 1, 1)
    shared = Tensor.from_host(array)
    captured = capture(lambda x: ops.conv2d(x, shared, None), x)
    captured.replay(x)
    array *= 2
    assert np.array_equal(captured.replay(x).numpy(), ops.conv2d(x, shared, None).numpy())
    weight = Tensor.from_host(_array(1, 1200, 64, 1, 1)).clone()

    def step(x: Tensor) -> Tensor:
        product = ops.conv2d(x, weight, None)
        weight.mul_(0.5)
        return product

    assert (written := capture(step, x)).lasting_bytes == 0
    first, second = written.replay(x).numpy(), written.replay(x).numpy()
    assert np.array_equal(first, 2 * second)


def test_a_step_that_writes_keeps_the_bits_of_its_normalizations(drivers: DeviceHandle) -> None:
    net, x, count = _Net(), Tensor.from_host(_array(0, 2, 3, 24, 24)), Tensor.from_host(np.float32(0)).clone()

    def step(x: Tensor) -> Tensor:
        count.add_(1.0)
        return net(x)

    captured = capture(step, x)
    if drivers.device_type == "cpu":
        assert captured.lasting_bytes > 0  # weights in the order of a kernel
    assert np.array_equal(captured.replay(x).numpy(), net(x).numpy())


def test_a_recurrent_weight_is_turned_once(drivers: DeviceHandle) -> None:
    steps, n, hidden = 5, 4, 32
    x, weight, state = _array(1, steps, n, 4 * hidden), _array(2, 4 * hidden, hidden) / 8, _array(3, n, hidden)
    x, weight, state = Tensor.from_host(x), Tensor.from_host(weight).clone(), Tensor.from_host(state)

    def walk(x: Tensor) -> Tensor:
        return x.engine.recurrence("lstm", x, weight, state, None, state, reverse=False)[0]  # type: ignore[no-any-return]

    captured = capture(walk, x)
    assert len(captured) < len(CapturedStep(walk, (x,)))
    for _ in range(2):
        assert np.array_equal(captured.replay(x).numpy(), walk(x).numpy())
        weight.mul_(0.5)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_values_of_gates_are_stored_for_gradients_alone(drivers: DeviceHandle, kind: str) -> None:
    gates, hidden = {"lstm": 4, "gru": 3, "tanh": 1}[kind], 48
    x, state = Tensor.from_host(_array(1, 5, 4, gates * hidden)), Tensor.from_host(_array(3, 4, hidden))
    weight, cell = Tensor.from_host(_array(2, gates * hidden, hidden) / 8), state if kind == "lstm" else None

    def walk(x: Tensor) -> tuple[Tensor, ...]:
        return x.engine.recurrence(kind, x, weight, state, None, cell, reverse=True)  # type: ignore[no-any-return]

    wanted, memory = walk(x), []
    for count in (2, 3):
        step = capture(lambda x, count=count: walk(x)[:count], x)
        for one, other in zip(step.replay(x), wanted):
            assert np.array_equal(one.numpy(), other.numpy())
        memory.append(step._recording.pool.get_stats()["bytes_allocated"])
    assert memory[0] < memory[1] if kind != "tanh" else memory[0] <= memory[1]
