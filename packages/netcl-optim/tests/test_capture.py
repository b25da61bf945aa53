"""A captured step, with clipping, averages and a schedule around it, equals eager steps bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import optim
from netcl.autograd.training_compiler import compile_training_step
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


def _no_zeroing(optimizer: optim.Optimizer) -> None:
    pass


def _to_zeros(optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=False)


def _to_none(optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad()


class _Two:
    """A step that uses one of two parameters; the other one gets its gradients elsewhere."""

    def __init__(self, zero, given=None) -> None:
        self.a, self.b = (ag.Parameter(Tensor.from_host(np.ones(3, np.float32))) for _ in range(2))
        self.optimizer = optim.AdamW([self.a, self.b], lr=0.1, weight_decay=0.5)
        self.zero, self.x = zero, Tensor.from_host(np.array([1.0, -2.0, 3.0], np.float32))
        self.b.grad = given
        self(self.x)
        self.b.grad = given

    def __call__(self, x):
        self.zero(self.optimizer)
        loss = ag.sum(self.a * x)
        loss.backward()
        self.optimizer.step()
        return loss

    def values(self):
        gradients = [p.grad for p in (self.a, self.b)]
        return self.a.tolist(), self.b.tolist(), [None if grad is None else grad.tolist() for grad in gradients]


def _gradient(start: float) -> Tensor:
    return Tensor.from_host(np.arange(start, start + 3, dtype=np.float32))


@pytest.mark.parametrize("zero", [_no_zeroing, _to_zeros])
@pytest.mark.parametrize("at_capture", [True, False])
def test_a_gradient_that_comes_or_goes_after_the_capture_is_refused(zero, at_capture: bool) -> None:
    two = _Two(zero, _gradient(1.0) if at_capture else None)
    captured = capture(two, two.x)
    captured.replay(two.x)
    two.b.grad = None if at_capture else _gradient(1.0)
    before = two.values()
    with pytest.raises(CaptureError, match="had one of its" if at_capture else "had none of its"):
        captured.replay(two.x)
    assert two.values() == before


@pytest.mark.parametrize("zero", [_no_zeroing, _to_zeros])
def test_a_step_uses_the_gradients_that_were_made_outside_of_it(zero) -> None:
    found = []
    for captured in (False, True):
        two = _Two(zero, _gradient(1.0))
        run = capture(two, two.x).replay if captured else two
        kept = []
        for start in (2.0, -4.0, 7.0):
            two.b.grad = gradient = _gradient(start)
            run(two.x)
            kept.append(gradient.tolist())
            run(two.x)
        found.append((two.values(), kept))
    assert found[0] == found[1]


def test_a_step_that_drops_the_gradients_begins_from_any_gradient() -> None:
    found = []
    for captured in (False, True):
        two = _Two(_to_none)
        run = capture(two, two.x).replay if captured else two
        for given in (None, _gradient(3.0)):
            two.a.grad = two.b.grad = given
            run(two.x)
        found.append(two.values())
    assert found[0] == found[1]


def test_gradients_that_a_step_does_not_use_stay() -> None:
    two = _Two(_to_none)
    captured = capture(lambda x: ag.sum(two.a.detach() * two.b.detach() * x), two.x)
    for given in (_gradient(3.0), None):
        two.b.grad = given
        captured.replay(two.x)
        assert two.b.grad is given


def test_gradients_that_were_added_up_outside_are_read_also_if_the_step_drops_them_at_its_end() -> None:
    found = []
    for captured in (False, True):
        w, x = ag.Parameter(Tensor.from_host(np.ones(3, np.float32))), _gradient(1.0)
        optimizer = optim.SGD([w], lr=0.1)

        def step(x, w=w, optimizer=optimizer):
            ag.sum(w * x).backward()
            optimizer.step()
            optimizer.zero_grad()

        run = step
        for start in range(4):
            ag.sum(w * w * float(start)).backward()
            if captured and start == 1:
                run = capture(step, x).replay
            run(x)
        found.append(w.tolist())
    assert found[0] == found[1]


def test_a_frozen_parameter_with_a_gradient_is_noticed() -> None:
    w, frozen = (ag.Parameter(Tensor.from_host(np.ones(3, np.float32))) for _ in range(2))
    frozen.requires_grad = False
    optimizer = optim.SGD([w, frozen], lr=0.1)

    def step(x):
        w.grad = None
        ag.sum(w * x).backward()
        optimizer.step()

    step(_gradient(1.0))
    captured = capture(step, _gradient(1.0))
    frozen.grad = _gradient(1.0)
    with pytest.raises(CaptureError, match="had none of its gradients"):
        captured.replay(_gradient(1.0))


def test_a_compiled_step_follows_gradients_that_come_and_go() -> None:
    found = []
    for compiled in (False, True):
        two = _Two(_to_zeros)
        run = compile_training_step(two, warmup=1) if compiled else two
        for n in range(8):
            if n in (3, 6):
                two.b.grad = _gradient(1.0) if n == 3 else None
            run(two.x)
        found.append(two.values())
        assert not compiled or run.replays
    assert found[0] == found[1]
