"""A captured step, with clipping, averages and a schedule around it, equals eager steps bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import optim
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")

ALL = [
    *("SGD", "Momentum", "Adam", "AdamW", "RMSProp", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "Lion"),
    *("LAMB", "Adafactor"),
]


class Model:
    def __init__(self, start: np.ndarray) -> None:
        self.w = ag.Parameter(Tensor.from_host(start))

    def named_parameters(self):
        return iter([("w", self.w)])


@pytest.mark.parametrize("eager_steps", [0, 2])
@pytest.mark.parametrize("name", ALL)
def test_replayed_steps_are_eager_steps(name: str, eager_steps: int, rng) -> None:
    start = rng.standard_normal((6, 2)).astype(np.float32)
    xs = rng.standard_normal((12, 8, 6)).astype(np.float32)
    found = []
    for captured in (False, True):
        model = Model(start)
        optimizer = getattr(optim, name)([model.w], lr=0.02, weight_decay=0.1)
        schedule, ema = optim.CosineAnnealingLR(optimizer, 12), optim.ModelEMA(model, 0.9)

        def step(x, optimizer=optimizer, model=model, ema=ema):
            optimizer.zero_grad()
            loss = ag.mean(ag.square(ag.matmul(x, model.w)))
            loss.backward()
            norm = optim.clip_grad_norm_device([model.w], 0.5)
            optimizer.step()
            ema.update()
            return loss, norm

        run = step
        for at, x in enumerate(xs):
            if captured and at == eager_steps:
                run = capture(step, Tensor.from_host(x)).replay
            loss, norm = run(Tensor.from_host(x))
            schedule.step()
        state = optimizer.state_dict()["state"].get(0, {})
        numbers = [v.to_host() if isinstance(v, Tensor) else v for v in state.values()]
        found.append([loss.item(), norm.item(), model.w.to_host(), ema.shadow["w"].to_host(), *numbers])
    assert len(found[0]) == len(found[1])
    for eager, replayed in zip(*found):
        np.testing.assert_array_equal(replayed, eager)


def test_a_first_step_may_begin_from_any_gradient_only_if_it_drops_it() -> None:
    model = Model(np.ones((3, 1), np.float32))
    optimizer, x = optim.SGD([model.w], lr=0.1), Tensor.from_host(np.ones((2, 3), np.float32))

    def late(x: Tensor) -> None:
        optimizer.step()  # reads the gradient of the call before
        optimizer.zero_grad()
        ag.sum(ag.matmul(x, model.w)).backward()

    for step in (late, lambda x: ag.sum(ag.matmul(x, model.w)).backward()):
        optimizer.zero_grad()
        captured = capture(step, x)
        captured.replay(x)
        with pytest.raises(CaptureError, match="had none of its gradients"):
            captured.replay(x)
