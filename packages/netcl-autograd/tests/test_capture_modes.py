"""Captured steps and the mode of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.core.ops_table import modes
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")


def test_a_step_without_gradients_is_another_one(handle: Any) -> None:
    x = Tensor.from_host(handle, np.ones(3, np.float32))
    captured = capture(lambda a: ag.add(a, a), x)
    with ag.no_grad(), pytest.raises(CaptureError, match="grad or autocast mode"):
        captured.replay(x)
    assert captured.replay(x).tolist() == [2.0] * 3


def test_a_mode_that_is_registered_later_leaves_a_captured_step_valid(
    handle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = Tensor.from_host(handle, np.ones(3, np.float32))
    captured = capture(lambda a: ag.add(a, a), x)
    monkeypatch.setattr(modes, "_states", [*modes._states, lambda: None])
    assert captured.replay(x).tolist() == [2.0] * 3


def test_a_replay_adds_into_the_gradient_that_is_there(handle: Any) -> None:
    w = ag.Parameter(Tensor.from_host(handle, np.ones(3, np.float32)))
    flat = Tensor.zeros((5,), queue=w.queue)
    w.grad = flat[1:4]

    def step(x: Tensor) -> Tensor:
        ag.sum(ag.mul(w, x)).backward()
        return x + 0

    x = Tensor.from_host(handle, np.full(3, 2, np.float32))
    step(x)
    before = w.grad
    captured = capture(step, x)
    for _ in range(2):
        captured.replay(x)
    assert w.grad is before
    assert flat.tolist() == [0, 6, 6, 6, 0]
