"""The digits step with optimizer and dropout: captured and replayed, it has the bits of eager calls over 100 steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl
import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.data.readers import example_digits
from netcl.optim import SGD, AdamW, CosineAnnealingLR
from netcl.runtime.capture import capture

STEPS, BATCH = 100, 16

Step = Callable[[Tensor, Tensor], Tensor]


def _handles() -> dict[str, DeviceHandle]:
    return {
        handle.platform_name: handle for handle in [manager.default("cpu"), *manager.select()] if handle is not None
    }


def _training() -> tuple[nn.Sequential, Step, CosineAnnealingLR]:
    """Returns a network with all that changes per step: dropout masks, running statistics, moments, learning rate."""
    ops.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(8 * 4 * 4, 10),
    )
    optimizer = AdamW(model.parameters(), lr=3e-3)
    schedule = CosineAnnealingLR(optimizer, T_max=STEPS)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with ag.Tape() as tape:
            loss = ag.cross_entropy(model(x), y)
        tape.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, step, schedule


def _train(captured: bool) -> tuple[list[float], dict[str, np.ndarray[Any, Any]]]:
    """Returns the losses of 100 steps and the final state; two eager steps come first, as they make the moments."""
    x, y = example_digits()
    model, step, schedule = _training()
    losses: list[Tensor] = []
    replay: Step | None = None
    for number in range(STEPS):
        part = np.arange(number * BATCH, (number + 1) * BATCH) % len(x)
        batch = Tensor.from_host(x[part]), Tensor.from_host(y[part])
        if captured and number == 2:
            replay = capture(step, *batch).replay
        losses.append((replay or step)(*batch))
        schedule.step()
    return [loss.item() for loss in losses], {key: value.numpy() for key, value in model.state_dict().items()}


@pytest.mark.parametrize("name", list(_handles()))
def test_replays_have_the_bits_of_eager_steps(name: str) -> None:
    with device(_handles()[name]):
        eager_losses, eager_state = _train(captured=False)
        replayed_losses, replayed_state = _train(captured=True)
    assert eager_losses == replayed_losses
    assert eager_losses[-1] < 0.5 * eager_losses[0]
    assert eager_state.keys() == replayed_state.keys()
    for key, value in eager_state.items():
        np.testing.assert_array_equal(value, replayed_state[key], err_msg=key)


@pytest.mark.parametrize(
    ("dtype", "casts", "most"), [("float32", "measured", 26), ("bfloat16", "measured", 26), ("bfloat16", "half", 26)]
)
@pytest.mark.parametrize("name", list(_handles()))
def test_a_captured_step_takes_few_launches(
    name: str, dtype: str, casts: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 as in float32, since autocast leaves small layers in float32 on CPUs. The gradient of the second
    convolution's images has the images last: two launches more, in a step that takes 0.95 to 1.0 of the time.
    """
    monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", casts)
    if _handles()[name].device_type != "cpu" or _handles()[name].backend != "cl":
        pytest.skip("needs an OpenCL device that is a CPU: NumPy has no launches, and GPUs have other kernels")
    with device(_handles()[name]):
        ops.manual_seed(1)
        first = (nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        second = (nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))
        model = nn.Sequential(*first, *second)
        optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            with netcl.autocast(dtype != "float32", "bfloat16"):
                loss: Tensor = ag.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        batch = tuple(Tensor.from_host(array[:64]) for array in example_digits())
        for _ in range(2):
            step(*batch)
        captured = capture(step, *batch)
        assert len(captured) <= most
        start = {key: value.numpy() for key, value in model.state_dict().items()}
        found = captured.replay(*batch).item()
        replayed = {key: value.numpy() for key, value in model.state_dict().items()}
        model.load_state_dict(start)
        assert found == step(*batch).item()
        for key in ("0.weight", "1.running_mean", "4.bias", "8.weight"):
            assert not np.array_equal(replayed[key], start[key]), key
