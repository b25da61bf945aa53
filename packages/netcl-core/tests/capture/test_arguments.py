"""Arguments of a captured step that it writes, with shared memory, or with tensors in them, as in calls of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.errors import CaptureError, UnsupportedError
from netcl.runtime.capture import capture


def _tensor(*shape: int, start: float = 0.0) -> Tensor:
    return Tensor.from_host(np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape))


def _hidden(h: Tensor, x: Tensor) -> Tensor:
    h.mul_(0.5).add_(x)
    return ops.sum(h)  # type: ignore[no-any-return]


def _cached(cache: Tensor, x: Tensor) -> Tensor:
    cache[1:3] = x[1:3] * 2.0
    return ops.sum(cache)  # type: ignore[no-any-return]


def _both(h: Tensor, x: Tensor) -> None:
    h.add_(x)
    x.copy_(h * 2.0)


def _outcome(make: Callable[[], tuple[Tensor, ...]], step: Any, captured: bool) -> list[list[Any]]:
    """Returns the results of three calls, and all arguments after them."""
    run = capture(step, *make()).replay if captured else step
    arguments = make()
    results = [run(*arguments) for _ in range(3)]
    return [one.tolist() for one in (*results, *arguments) if one is not None]


@pytest.mark.parametrize("step", [_hidden, _cached, _both])
def test_what_a_step_writes_into_its_arguments_is_in_the_tensors_of_the_caller(handle: DeviceHandle, step: Any) -> None:
    def make() -> tuple[Tensor, Tensor]:
        return _tensor(4), _tensor(4, start=1.0)

    assert _outcome(make, step, True) == _outcome(make, step, False)


@pytest.mark.parametrize("step", [_hidden, _cached])
def test_a_write_into_an_argument_that_is_a_view_reaches_what_it_is_a_view_of(handle: DeviceHandle, step: Any) -> None:
    found = []
    for captured in (False, True):
        whole, x = _tensor(4, 4), _tensor(4, start=1.0)
        row, column = whole[1], whole[:, 2]
        run = capture(step, _tensor(4), x).replay if captured else step
        results = [run(one, x).item() for one in (row, column, whole.T[3])]
        found.append((results, whole.tolist(), row.tolist(), column.tolist()))
    assert found[0] == found[1]


def test_two_arguments_may_be_separate_parts_of_one_tensor(handle: DeviceHandle) -> None:
    found = []
    for captured in (False, True):
        cache, x = _tensor(2, 4), _tensor(4)

        def step(keys: Tensor, values: Tensor, x: Tensor) -> Tensor:
            keys.add_(x)
            values[1] = keys[2]
            return ops.sum(ops.mul(keys, values))  # type: ignore[no-any-return]

        run = capture(step, cache[0], cache[1], x).replay if captured else step
        found.append(([run(cache[0], cache[1], x).item() for _ in range(3)], cache.tolist()))
    assert found[0] == found[1]


def _twice(v: Tensor) -> tuple[Tensor, ...]:
    return v, v


def _overlapping(v: Tensor) -> tuple[Tensor, ...]:
    return v[:4], v[2:6]


@pytest.mark.parametrize("pair", [_twice, _overlapping])
def test_a_written_argument_that_shares_memory_with_another_one_is_refused(handle: DeviceHandle, pair: Any) -> None:
    def step(h: Tensor, x: Tensor) -> Tensor:
        h.add_(1.0)
        return ops.sum(x)  # type: ignore[no-any-return]

    shared = pair(_tensor(6))
    separate = [Tensor.from_host(part.numpy()) for part in shared]
    captured = capture(step, *separate)
    before = shared[0].tolist()
    with pytest.raises(CaptureError, match=r"argument 0, which shares memory with another argument; give a clone"):
        captured.replay(*shared)
    with pytest.raises(CaptureError, match="capture: the step writes argument 0"):
        capture(step, *shared)
    assert shared[0].tolist() == before
    captured.replay(*separate)
    assert separate[0].tolist() == [one + 1.0 for one in before]


def _whole(state: Tensor) -> Tensor:
    return state


def _part(state: Tensor) -> Tensor:
    return state.reshape(-1)[2:6].reshape(2, 2)


@pytest.mark.parametrize("view", [_whole, _part])
@pytest.mark.parametrize("writes", ["state", "argument"])
def test_an_argument_that_is_state_which_is_written_is_refused(handle: DeviceHandle, view: Any, writes: str) -> None:
    state = Tensor.from_host(np.ones((2, 4), np.float32), persistent=True)

    def step(x: Tensor) -> Tensor:
        (state if writes == "state" else x).add_(1.0)
        return ops.add(ops.sum(state), ops.sum(x))  # type: ignore[no-any-return]

    sample = Tensor.from_host(view(state).numpy())
    captured = capture(step, sample)
    with pytest.raises(CaptureError, match=r"argument 0.* shares memory with a tensor that the step .*clone\(\)"):
        captured.replay(view(state))
    with pytest.raises(CaptureError, match="capture: .*argument 0"):
        capture(step, view(state))
    assert (state.numpy() == 1.0).all()
    assert captured.replay(sample).item() == step(Tensor.from_host(np.ones(sample.shape, np.float32))).item() - (
        8.0 if writes == "state" else 0.0
    )


def test_what_is_only_read_may_be_shared(handle: DeviceHandle) -> None:
    state = Tensor.from_host(np.ones(4, np.float32), persistent=True)
    captured = capture(lambda x, y: ops.add(ops.mul(x, y), state), state, state)
    assert captured.replay(state, state).tolist() == [2.0] * 4


def test_a_write_into_elements_that_share_memory_is_refused_before_the_step(handle: DeviceHandle) -> None:
    total = Tensor.zeros((1,), persistent=True)

    def step(h: Tensor) -> None:
        total.add_(1.0)
        h.add_(1.0)

    captured = capture(step, _tensor(2, 4))
    with pytest.raises(UnsupportedError, match="expanded"):
        captured.replay(_tensor(4).expand(2, 4))
    assert total.item() == 0.0


@pytest.mark.parametrize("kind", [tuple, list, dict])
def test_tensors_in_an_argument_are_arguments(handle: DeviceHandle, kind: Any) -> None:
    def nest(h: Tensor, c: Tensor) -> Any:
        return {"h": h, "c": c} if kind is dict else kind((h, c))

    def step(x: Tensor, state: Any) -> Tensor:
        h, c = state.values() if kind is dict else state
        h.mul_(0.5).add_(x)
        return ops.add(h, c)  # type: ignore[no-any-return]

    found = []
    for replays in (False, True):
        x, state = _tensor(3), nest(_tensor(3), _tensor(3))
        run = capture(step, x, state).replay if replays else step
        outcomes = [run(x, state).tolist() for _ in range(2)]
        other = nest(_tensor(3, start=5.0), _tensor(3, start=7.0))
        outcomes += [run(x, other).tolist(), [one.tolist() for one in (other.values() if kind is dict else other)]]
        found.append(outcomes)
    assert found[0] == found[1]
    captured = capture(step, x, nest(_tensor(3), _tensor(3)))
    with pytest.raises(CaptureError, match=f"expected the {kind.__name__} of 2 values"):
        captured.replay(x, x)
