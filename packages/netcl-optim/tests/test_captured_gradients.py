"""Captured steps with parameters that have no gradients any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl.core.errors import CaptureError
from netcl.optim import Adadelta, AdamW, NAdam
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")


def made(rule: type) -> tuple[list[Any], Any, Any]:
    """Returns two parameters, their optimizer, and a step that uses both."""
    parameters = [ag.Parameter(nc.tensor([1.0, -2.0]).numpy() * scale) for scale in (1, 3)]
    optimizer = rule(parameters, lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ((x * parameters[0] + parameters[1]) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return parameters, optimizer, step


def state(optimizer: Any) -> list[Any]:
    values = optimizer.state_dict()["state"]
    return [np.array(getattr(v, "numpy", lambda v=v: v)()) for one in values.values() for v in one.values()]


@pytest.mark.parametrize("rule", [AdamW, NAdam, Adadelta])
def test_counts_of_frozen_parameters_stay(rule: type) -> None:
    """Each replay would have copied the count of the others to them."""
    found, replays = {}, 0
    for captured in (False, True):
        parameters, optimizer, step = made(rule)
        program = None
        for number in range(9):
            if number == 4:
                parameters[1].requires_grad_(False)
                program = None
            x = nc.tensor([0.5, float(number)])
            try:
                program = program or (capture(step, x) if captured and number > 1 else None)
                (step if program is None else program.replay)(x)
                replays += program is not None
            except CaptureError:
                step(x)
        found[captured] = [p.numpy() for p in parameters] + state(optimizer)
    for one, other in zip(*found.values()):
        assert one.tobytes() == other.tobytes()
    assert replays == 6


def test_a_capture_of_the_first_such_step_is_refused() -> None:
    parameters, optimizer, step = made(AdamW)
    x = nc.tensor([0.5, 2.0])
    step(x)
    parameters[1].requires_grad_(False)
    with pytest.raises(CaptureError, match="take one step without their gradients"):
        capture(step, x)
    step(x)
    before = state(optimizer)
    capture(step, x).replay(x)
    assert [float(a) for a, b in zip(state(optimizer), before) if a.shape == () and a != b] == [3.0]


@pytest.mark.parametrize("rule", [AdamW, Adadelta])
@pytest.mark.parametrize("frozen", [0, 1])
def test_a_loaded_state_keeps_the_counts_that_replays_advance(rule: type, frozen: int) -> None:
    """The buckets of a state are in the order of the parameters, the parts of a split in the order of the splits."""
    found = {}
    for captured in (False, True):
        parameters, optimizer, step = made(rule)
        x = nc.tensor([0.5, 2.0])
        step(x)
        parameters[frozen].requires_grad_(False)
        step(x)
        program = capture(step, x).replay if captured else step
        program(x)
        optimizer.load_state_dict(optimizer.state_dict())
        program(x)
        found[captured] = [p.numpy() for p in parameters] + state(optimizer)
    for one, other in zip(*found.values()):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("rule", [AdamW, Adadelta])
def test_a_replay_is_refused_once_parameters_are_counted_apart(rule: type) -> None:
    parameters, optimizer, step = made(rule)
    x = nc.tensor([0.5, 2.0])
    step(x)
    program = capture(step, x)
    program.replay(x)
    optimizer.zero_grad()
    (x * parameters[0]).sum().backward()
    optimizer.step()  # without a gradient of the other one
    optimizer.zero_grad()
    with pytest.raises(CaptureError, match="capture again"):
        program.replay(x)
