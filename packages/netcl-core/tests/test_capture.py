"""Capture and replay on netcl-core alone: the bits of eager calls, fresh random numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.errors import CaptureError
from netcl.runtime.capture import capture


def _inputs(count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal((6, 5)).astype(np.float32) for _ in range(count)]


def test_a_replay_gives_the_bits_of_the_call(handle: DeviceHandle) -> None:
    weight = Tensor.from_host(_inputs(1)[0].T.copy(), persistent=True)

    def step(x: Tensor) -> dict[str, Any]:
        y = ops.softmax(ops.matmul(x, weight))
        return {"y": y, "parts": (ops.sum(y), [ops.max(x, axis=1)])}

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    results = [captured.replay(Tensor.from_host(x)) for x in _inputs(5)]
    for x, result in zip(_inputs(5), results):
        expected = step(Tensor.from_host(x))
        np.testing.assert_array_equal(result["y"].numpy(), expected["y"].numpy())
        assert result["parts"][0].item() == expected["parts"][0].item()
        np.testing.assert_array_equal(result["parts"][1][0].numpy(), expected["parts"][1][0].numpy())
    assert len(captured) >= 3


def test_capture_changes_nothing_and_a_replay_updates_state_in_place(handle: DeviceHandle) -> None:
    total = Tensor.zeros((5,), persistent=True)

    def step(x: Tensor) -> None:
        total.write(total + ops.sum(x, axis=0))

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    np.testing.assert_array_equal(total.numpy(), np.zeros(5))
    for x in _inputs(4):
        captured.replay(x)
    np.testing.assert_allclose(total.numpy(), np.sum(_inputs(4), axis=(0, 1)), rtol=1e-5)


def test_replays_draw_the_numbers_that_eager_calls_would(handle: DeviceHandle) -> None:
    x = Tensor.from_host(np.ones((40, 5), np.float32))

    def step(x: Tensor) -> Tensor:
        return ops.dropout(x, p=0.5)  # type: ignore[no-any-return]

    ops.manual_seed(5)
    step(x)
    captured = capture(step, x)
    got = [captured.replay(x).numpy(), captured.replay(x).numpy(), step(x).numpy(), captured.replay(x).numpy()]
    ops.manual_seed(5)
    step(x)
    expected = [step(x).numpy() for _ in range(4)]
    for a, b in zip(got, expected):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(got[0], got[1])


def test_memory_of_a_capture_is_its_own(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> Tensor:
        return ops.exp(ops.add(x, 1.0))  # type: ignore[no-any-return]

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    others = [Tensor.from_host(x) for x in _inputs(8)]
    first = captured.replay(others[0])
    captured.replay(others[1])
    for x, other in zip(_inputs(8), others):
        np.testing.assert_array_equal(other.numpy(), x)
    np.testing.assert_array_equal(first.numpy(), step(others[0]).numpy())


def test_reading_or_writing_host_values_inside_cannot_be_captured(handle: DeviceHandle) -> None:
    x = Tensor.from_host(_inputs(1)[0])
    for forbidden in (
        lambda x: ops.sum(x).item(),
        lambda x: x.write(np.zeros((6, 5))),
        lambda x: x + Tensor.from_host([1.0]),
    ):
        with pytest.raises(CaptureError, match="captured"):
            capture(forbidden, x)
        np.testing.assert_array_equal(ops.neg(x).numpy(), -_inputs(1)[0])


def test_a_replay_refuses_what_the_capture_did_not_see(handle: DeviceHandle) -> None:
    state = {"training": True}

    def step(x: Tensor, power: int) -> Tensor:
        return ops.pow(x, power)  # type: ignore[no-any-return]

    x = Tensor.from_host(_inputs(1)[0])
    captured = capture(step, x, 2, watch=lambda: state["training"])
    np.testing.assert_allclose(captured.replay(x, 2).numpy(), _inputs(1)[0] ** 2, rtol=1e-5)
    with pytest.raises(CaptureError, match=r"argument 0 has shape \(3, 5\)"):
        captured.replay(x[:3], 2)
    with pytest.raises(CaptureError, match="argument 1 is 3"):
        captured.replay(x, 3)
    with pytest.raises(CaptureError, match="the capture had 2"):
        captured.replay(x)
    state["training"] = False
    with pytest.raises(CaptureError, match="watched state changed"):
        captured.replay(x, 2)
