"""Training loops with prediction: every bit, flag and error of them is as without prediction."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl import nn
from netcl.amp import GradScaler
from netcl.autograd.graph import saved_tensors_hooks
from netcl.core import Tensor, config
from netcl.core.errors import DeviceLostError, OutOfMemoryError, ShapeError
from netcl.core.process.hook_stack import hooks_of_thread
from netcl.core.storage.storage import lock
from netcl.core.tensor.factories import from_numpy
from netcl.nn.utils import clip_grad_norm_
from netcl.ops.random import manual_seed, rand
from netcl.optim import (
    LBFGS,
    SGD,
    Adam,
    Muon,
    RMSprop,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from netcl.profiling import profile
from netcl.runtime import prediction
from netcl.runtime.capture import Replay
from netcl.runtime.prediction.predicted_period import PredictedPeriod
from netcl.runtime.prediction.predictor import PLACES

pytestmark = pytest.mark.level("capture")

STEPS = 12
AT = 9  # a step that is predicted


class Net:
    """Two layers on plain tensors, and what a loop has seen of them."""

    def __init__(self, optimizer: Callable[..., Any] = Adam, **options: Any) -> None:
        manual_seed(3)
        self.rng = np.random.default_rng(5)
        self.first, self.second = (ag.Parameter(self.tensor(8, 8)) for _ in range(2))
        self.parameters = [self.first, self.second]
        self.optimizer = optimizer(self.parameters, **{"lr": 0.05, **options})
        self.seen: list[Any] = []

    def tensor(self, *shape: int) -> Tensor:
        return Tensor.from_host(self.rng.standard_normal(shape).astype(np.float32))

    def out(self, x: Tensor) -> Tensor:
        return ag.matmul(ag.tanh(ag.matmul(x, self.first)), self.second)

    def step(self, rows: int = 4, **options: Any) -> Tensor:
        """Takes a step and returns the loss."""
        self.optimizer.zero_grad(**options)
        loss = self.out(self.tensor(rows, 8)).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


class Scaled(nn.Module):
    """A layer on a parameter of a Net."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return ag.tanh(ag.matmul(x, self.weight) * 0.5)


def plain(value: Any) -> Any:
    """Returns bits and flags of what was seen."""
    if isinstance(value, Tensor):
        flags = (
            value.stride(),
            value.is_leaf,
            value.requires_grad,
            value.retains_grad,
            value._is_view(),
            value._version,
        )
        grad = value.grad if value.is_leaf or value.retains_grad else None
        return flags, plain(value.detach().numpy()), None if grad is None else plain(grad)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def run(loop: Callable[[Net, int], object], mode: str, steps: int = STEPS, **options: Any) -> list[Any]:
    """Returns what is seen of a loop, and of its parameters and states at the end."""
    with config.override(REPLAY=mode):
        net = Net(**options)
        for number in range(steps):
            loop(net, number)
        states = [list(values.values()) for values in net.optimizer.state_dict()["state"].values()]
        return [*map(plain, net.seen), *map(plain, net.parameters), plain(states)]


@pytest.fixture
def replays() -> Iterator[Callable[[], int]]:
    """Returns a function that counts the replays of the test so far."""
    before = prediction.report().replays
    yield lambda: prediction.report().replays - before


def same(loop: Callable[[Net, int], object], **options: Any) -> bool:
    """Returns True if a loop shows the same with prediction as without."""
    return run(loop, "early", **options) == run(loop, "off", **options)


def at(step: int, deed: Callable[[Net], object]) -> Callable[[Net, int], object]:
    """Returns a loop that does ``deed(net)`` in one step, between its backward pass and the step of the optimizer."""

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8)).square().mean()
        loss.backward()
        if number == step:
            deed(net)
        net.optimizer.step()

    return loop


def test_a_loop_is_predicted(replays: Callable[[], int]) -> None:
    run(lambda net, _: net.step(), "early")
    assert replays() >= STEPS - 5


def test_off_predicts_nothing(replays: Callable[[], int]) -> None:
    run(lambda net, _: net.step(), "off")
    assert replays() == 0


@pytest.mark.parametrize("options", [{}, {"set_to_none": False}], ids=["none", "zeros"])
@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_predicted_steps_have_the_bits_of_eager_ones(optimizer: Any, options: dict[str, Any]) -> None:
    assert same(lambda net, _: net.step(**options), optimizer=optimizer)


def test_dropout_draws_the_same_numbers() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        ag.dropout(net.out(net.tensor(4, 8)), 0.3).square().mean().backward()
        net.optimizer.step()

    assert same(loop)


@pytest.mark.parametrize("draw", [nc.rand_like, nc.randn_like])
def test_numbers_drawn_in_the_shape_of_a_tensor(draw: Callable[[Tensor], Tensor], replays: Callable[[], int]) -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        x = net.tensor(4, 8)
        net.out(x + draw(x) * 0.1).square().mean().backward()
        net.first.grad.add_(draw(net.first), alpha=0.01)  # type: ignore[union-attr]
        net.optimizer.step()

    assert same(loop)
    assert replays() > STEPS // 2


def test_gradients_of_a_function_are_predicted(replays: Callable[[], int]) -> None:
    """A second derivative in the loss, as of a network that solves an equation."""

    def slope(net: Net, x: Tensor) -> Tensor:
        y = net.out(x)
        (first,) = ag.grad(y.sum(), [x], create_graph=True)
        return (first + y).square().mean()

    x = Tensor.from_host(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)).requires_grad_()

    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        slope(net, x).backward()
        net.optimizer.step()
        x.grad = None

    assert same(loop)
    assert replays() >= STEPS - 5


def test_a_mask_from_outside_selects_elements(replays: Callable[[], int]) -> None:
    def run_masked(mode: str) -> list[Any]:
        mask = nc.tensor([True, False, True, True])

        def loop(net: Net, number: int) -> None:
            net.optimizer.zero_grad()
            net.out(net.tensor(4, 8))[mask].square().mean().backward()
            net.optimizer.step()
            if number == AT:
                mask[1:3] = nc.tensor([True, False])  # as many elements, others

        return run(loop, mode, steps=20)

    assert run_masked("early") == run_masked("off")
    assert replays() >= STEPS - 5


def test_a_mask_on_memory_that_the_step_writes_selects_what_is_there(replays: Callable[[], int]) -> None:
    """The mask is a row of a table, and the step writes the table before it uses the row."""

    def run_masked(mode: str) -> list[Any]:
        rows = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0]], bool)
        table = nc.tensor(rows[:2])
        mask = table[0]

        def loop(net: Net, number: int) -> None:
            net.optimizer.zero_grad()
            out = net.out(net.tensor(4, 8))
            table.copy_(nc.tensor(np.roll(rows, number, 0)[:2]))  # as many elements, others
            out[mask].square().mean().backward()
            net.optimizer.step()

        return run(loop, mode, steps=16)

    assert run_masked("early") == run_masked("off")
    assert replays() == 0  # a mask that is written is read on the host


@pytest.mark.parametrize("left", ["views", "views and base", "detached"])
def test_views_that_outlive_a_step(left: str, replays: Callable[[], int]) -> None:
    """They share memory with each other and with their base, and a write into one shows in the others."""

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        first, second = out.chunk(2, 1)
        (first.square().mean() + second.abs().mean()).backward()
        kept = {
            "views": (first, second.t()),
            "views and base": (first, out, out[1:3]),
            "detached": (out.detach().t(), out.detach()[1:]),
        }[left]
        del out, first, second
        net.optimizer.step()
        if number in (AT, AT + 1):
            with nc.no_grad():
                kept[0][1].mul_(2.0)
            net.seen.extend(kept)

    assert same(loop, steps=16)
    assert replays() >= 10


def weighted(weight: Callable[[Net, int, Tensor], Tensor]) -> Callable[[Net, int], None]:
    """Returns a loop in which the result of the network goes through ``weight(net, number, out)``."""

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        weight(net, number, net.out(net.tensor(4, 8))).square().mean().backward()
        net.optimizer.step()

    return loop


def _written(out: Tensor, number: float) -> Tensor:
    y = out.clone()
    y *= number
    return y.sub_(number)


def _listed(out: Tensor, value: float) -> Tensor:
    y = out.clone()
    y[:, [0, 2]] = value
    y[[1, 0]] = y[[0, 1]] * 2.0
    return y


@pytest.mark.parametrize(
    "weight",
    [
        pytest.param(lambda net, number, out: out * (0.1 * number) + (1 - number / 50) * out, id="factor"),
        pytest.param(lambda net, number, out: (out + 0.01 * number) / (1.5 + number), id="addend, divisor"),
        pytest.param(lambda net, number, out: number - out, id="whole number"),
        pytest.param(lambda net, number, out: _written(out, 1.0 + 0.1 * number), id="in place"),
        pytest.param(lambda net, number, out: out * min(1.0, 2.0 - number / 8), id="constant at first"),
        pytest.param(lambda net, number, out: out / (1.0 + float(out.detach().abs().max().item())), id="read"),
        pytest.param(lambda net, number, out: out.double() * (0.1 * number), id="float64"),
    ],
)
def test_numbers_of_the_program_differ_in_each_step(weight: Any, replays: Callable[[], int]) -> None:
    assert same(weighted(weight), steps=20)
    assert replays() >= 8


@pytest.mark.parametrize(
    "weight",
    [
        pytest.param(lambda net, number, out: out * int(1e9 + number), id="not exact in float32"),
        pytest.param(lambda net, number, out: out ** (1.0 + number % 3), id="power"),
        pytest.param(lambda net, number, out: out.bfloat16() * (0.1 * number), id="half type"),
    ],
)
def test_other_numbers_that_differ_are_not_predicted(weight: Any, replays: Callable[[], int]) -> None:
    assert same(weighted(weight))
    assert replays() == 0


def test_another_number_for_the_program_is_not_one_of_a_tensor() -> None:
    """A tensor, a bool or a text in the place of a number is another call."""
    weights = {7: nc.tensor(0.5), 9: True}
    assert same(weighted(lambda net, number, out: out * weights.get(number, 0.1 * number)), steps=16)


@pytest.mark.parametrize(
    "weight",
    [
        pytest.param(lambda net, number, out: out[[2, 0, 0]], id="list"),
        pytest.param(lambda net, number, out: out[:, [7, -1, 3]], id="list behind a slice"),
        pytest.param(lambda net, number, out: out[np.array([1, 3])], id="array"),
        pytest.param(lambda net, number, out: out[[True, False, True, True]], id="bools"),
        pytest.param(lambda net, number, out: _listed(out, 0.5), id="written"),
    ],
)
def test_lists_of_indices_are_predicted(weight: Any, replays: Callable[[], int]) -> None:
    assert same(weighted(weight))
    assert replays() >= STEPS - 5


def test_lists_of_other_indices_are_other_calls() -> None:
    assert same(weighted(lambda net, number, out: out[[0, 1 + (number > AT)]]))
    assert same(weighted(lambda net, number, out: out[np.array([0, 1 + (number > AT)])]))


def test_an_index_out_of_range_in_a_predicted_step() -> None:
    def weight(net: Net, number: int, out: Tensor) -> Tensor:
        try:
            return out[[0, 9 if number == AT else 1]]
        except IndexError as error:
            net.seen.append(str(error))
            return out

    assert same(weighted(weight))


def test_a_read_in_the_middle_of_a_step() -> None:
    def loop(net: Net, number: int) -> None:
        loss = net.step()
        if number == AT:
            net.seen.append(net.first.detach().numpy())
        if number > AT:
            net.seen.append(loss.item())

    assert same(loop)


def test_an_option_that_is_set_after_a_read_of_the_step() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8)).square().mean()
        net.seen.append(loss.item())
        loss.backward()
        if number == AT:
            net.optimizer.param_groups[0]["momentum"] = 0.5  # makes a state that the step before had not
        net.optimizer.step()

    assert same(loop, optimizer=RMSprop)


@pytest.mark.parametrize("options", [{"optimizer": SGD, "momentum": 0.9}, {"optimizer": Muon}, {"optimizer": Adam}])
def test_a_state_from_before_the_first_step_is_loaded(options: dict[str, Any]) -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.saved = copy.deepcopy(net.optimizer.state_dict())  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8)).square().mean()
        if number == AT:
            net.optimizer.load_state_dict(net.saved)  # type: ignore[attr-defined]
        loss.backward()
        net.optimizer.step()

    assert same(loop, **options)


@pytest.mark.parametrize("kept", [lambda grad: grad[:1], lambda grad: grad], ids=["view", "whole"])
def test_a_gradient_is_kept_over_steps_that_read_before_their_gradients(kept: Callable[[Tensor], Tensor]) -> None:
    def loop(net: Net, number: int) -> None:
        x = net.tensor(8, 8)
        if number == AT:
            net.seen.append(kept(net.first.grad))  # type: ignore[arg-type]
        ag.matmul(ag.matmul(x * 2.0, x.t()), x).tanh().sum().item()  # a part of the step that uses no gradient
        net.optimizer.zero_grad()
        net.out(x).square().mean().backward()
        net.optimizer.step()

    assert same(loop, steps=AT + 8)


def test_a_view_of_a_gradient_outlives_a_step() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        net.rows = net.first.grad[1:3]  # type: ignore[attr-defined, index]
        net.optimizer.step()
        net.seen.append(net.rows + 0)  # type: ignore[attr-defined]

    assert same(loop)


def test_a_branch_on_a_value() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        loss = out.square().mean() if out.detach().sum().item() > 0 else out.abs().mean()
        loss.backward()
        net.optimizer.step()

    assert same(loop)


def test_another_shape() -> None:
    assert same(lambda net, number: net.step(rows=4 + 2 * (number == AT)))


def test_an_exception_in_the_middle_of_a_step() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        if number == AT:
            with pytest.raises(ShapeError) as caught:
                ag.matmul(out, out)
            net.seen.append(str(caught.value))
            return
        out.square().mean().backward()
        net.optimizer.step()

    assert same(loop)


def test_kept_tensors() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        loss = out.square().mean()
        loss.backward()
        net.optimizer.step()
        net.seen += [loss, loss.detach(), out.detach()]

    assert same(loop)


def test_a_kept_view_is_a_view() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        if number < 4:
            net.seen.append(out[:1])
        loss = out.square().mean()
        del out
        loss.backward()
        net.optimizer.step()

    assert same(loop)


def test_kept_gradients_stay_as_they_were() -> None:
    assert same(lambda net, _: (net.step(), net.seen.append(net.first.grad)))


def test_a_parameter_is_frozen_after_the_backward_pass() -> None:
    assert same(at(AT, lambda net: net.first.requires_grad_(False)))


def test_the_backward_pass_of_a_loop_whose_parameters_are_all_frozen_raises_at_its_line() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8)).square().mean()
        try:
            loss.backward()
        except RuntimeError:
            net.seen.append(f"no gradient in step {number}")
            return
        if number == AT:
            net.first.requires_grad_(False)
            net.second.requires_grad_(False)
        net.optimizer.step()

    assert same(loop)


def test_a_hook_registered_after_the_backward_pass_is_not_called() -> None:
    def deed(net: Net) -> None:
        handle = net.first.register_hook(lambda grad: grad * 2.0)
        net.seen.append(net.first.grad.numpy())
        handle.remove()

    assert same(at(AT, deed))


@pytest.mark.parametrize("place", ["own", "all"])
def test_hooks_around_steps_are_called_in_a_predicted_loop(place: str, replays: Callable[[], int]) -> None:
    """Hooks before a step change gradients and learning rates; those after it read, write and compute."""

    def run_hooked(mode: str) -> list[Any]:
        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            net.first.grad.mul_(0.5)
            net.seen.append(net.second.grad.sum().item())

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            with ag.no_grad():
                net.first.clamp_(-1.0, 1.0)
                net.seen.append(net.second * 2.0)

        with config.override(REPLAY=mode):
            net = Net()
            own = net.optimizer
            pre, post = (
                (own.register_step_pre_hook, own.register_step_post_hook)
                if place == "own"
                else (register_optimizer_step_pre_hook, register_optimizer_step_post_hook)
            )
            handles = [pre(before), post(after)]
            try:
                for _ in range(STEPS):
                    net.seen.append(net.step())
            finally:
                for handle in handles:
                    handle.remove()
            return [*map(plain, net.seen), *map(plain, net.parameters)]

    eager, count = run_hooked("off"), replays()
    assert run_hooked("early") == eager
    assert len(eager) == 3 * STEPS + 2
    assert replays() - count >= STEPS - 5


def test_a_hook_around_a_predicted_step_that_raises_leaves_the_step_taken_or_not() -> None:
    def loop(net: Net, number: int) -> None:
        def raising(*_: Any) -> None:
            raise ValueError(f"step {number}")

        register = net.optimizer.register_step_pre_hook if number % 2 else net.optimizer.register_step_post_hook
        handle = register(raising if number >= AT else lambda *_: None)
        try:
            net.step()
        except ValueError as error:
            net.seen.append(str(error))
        handle.remove()
        net.seen.append(net.first.clone())

    assert same(loop)


@pytest.mark.parametrize("hooked", ["a leaf", "a leaf after it was added to", "another network"])
def test_a_hook_on_a_gradient_ends_the_prediction_of_its_own_network_alone(
    hooked: str, replays: Callable[[], int]
) -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = ag.Parameter(net.tensor(8, 8))  # type: ignore[attr-defined]
        if number == AT:
            leaf = net.other if hooked == "another network" else net.first  # type: ignore[attr-defined]
            if hooked == "a leaf after it was added to":
                leaf.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(0.5))
            else:
                leaf.register_hook(lambda grad: grad * 0.5)
        net.seen.append(net.step())

    assert same(loop)
    assert (replays() >= STEPS - 3) == (hooked == "another network")


@pytest.mark.parametrize("closure", [False, True])
def test_hooks_around_the_steps_of_an_optimizer_are_lines_of_the_loop(
    closure: bool, replays: Callable[[], int]
) -> None:
    def halved(net: Net) -> None:
        for parameter in net.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(0.5)

    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.optimizer.register_step_pre_hook(lambda *_: halved(net))
            net.optimizer.register_step_post_hook(lambda *_: net.seen.append(net.first.detach().sum()))
        if closure:
            closure_loop(net, number)
        else:
            net.seen.append(net.step())

    assert same(loop)
    assert replays() > STEPS // 2 or closure  # its hook halves the gradients of the step before


def test_the_version_of_a_tensor() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = ag.linear(net.tensor(4, 8), net.first, net.second[0])
        out.square().mean().backward()
        if number == AT:
            net.seen.append([out._version, net.first._version])
        net.optimizer.step()
        net.seen.append(out)

    assert same(loop)


def test_a_buffer_that_is_written_twice_counts_two_writes() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.mean = net.tensor(8, 8)  # type: ignore[attr-defined]
        net.step()
        with ag.no_grad():
            net.mean.mul_(0.9).add_(net.first)  # type: ignore[attr-defined]
        if number == STEPS - 1:
            net.seen.append(net.mean)  # type: ignore[attr-defined]

    assert same(loop)


def test_a_failed_capture_counts_no_writes() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.mean = net.tensor(4, 8)  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        with ag.no_grad():
            net.mean.mul_(0.9)  # type: ignore[attr-defined]
            low = out.detach()
            low = low[low > -1e9]  # reads the number of elements
        (out.mean() * low.mean()).backward()
        net.optimizer.step()
        if number == STEPS - 1:
            net.seen.append(net.mean)  # type: ignore[attr-defined]

    assert same(loop)


def test_each_kept_loss_retains_its_own_gradient() -> None:
    def loop(net: Net, number: int) -> None:
        loss = net.step()
        net.seen.append(loss)
        if number >= AT:
            loss.retain_grad()

    assert same(loop)


def test_gradients_of_another_backward_pass_are_clipped_in_place() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = Adam([ag.Parameter(net.tensor(8, 8))], lr=0.05)  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        other = net.other  # type: ignore[attr-defined]
        other.zero_grad()
        other.param_groups[0]["params"][0].square().mean().backward()
        other.step()
        ag.clipping.clip_grad_value(net.parameters, 0.01)
        net.optimizer.step()

    assert same(loop)


@pytest.mark.parametrize("block", ["packs", "anomaly"])
def test_a_block_that_watches_the_graph_in_one_step(block: str) -> None:
    def loop(net: Net, number: int) -> None:
        def pack(x: Tensor) -> Tensor:
            net.seen.append("packed")
            return x

        net.optimizer.zero_grad()
        around = saved_tensors_hooks(pack, lambda x: x) if block == "packs" else ag.detect_anomaly()
        with around if number == AT else nullcontext():
            out = net.out(net.tensor(4, 8))
            loss = (out if number < STEPS else out * 1.0).square().mean()
        loss.backward()
        net.optimizer.step()

    assert same(loop)


def test_a_graph_from_before_the_step_that_saves_nothing_takes_gradients() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        if number == 0:
            net.double = net.first + net.second  # type: ignore[attr-defined]
        (net.out(net.tensor(4, 8)).mean() + net.double.sum() * 0.01).backward()  # type: ignore[attr-defined]
        net.double = net.first + net.second  # type: ignore[attr-defined]
        net.optimizer.step()

    assert same(loop, optimizer=SGD)


def test_writes_are_counted_once_in_a_step_that_is_read_in_the_middle_and_then_differs() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.mean = net.tensor(4, 8)  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        net.mean.copy_(net.tensor(4, 8))  # type: ignore[attr-defined]
        out = net.out(net.mean)  # type: ignore[attr-defined]
        net.seen.append(out.detach().sum().item())
        (out * (2.0 if number % 3 == 0 and number > 6 else 1.0)).square().mean().backward()
        net.optimizer.step()
        if number == STEPS - 1:
            net.seen.append(net.mean)  # type: ignore[attr-defined]

    assert same(loop)


def test_a_parameter_is_put_on_other_memory_between_the_steps_of_two_optimizers() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = SGD([ag.Parameter(net.tensor(8, 8))], lr=0.05)  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        net.other.step()  # type: ignore[attr-defined]
        if number == AT:
            net.first.data = net.first.data * 0.5
        net.optimizer.step()

    assert same(loop)


def test_a_tensor_is_a_view_in_the_middle_of_a_step_if_it_is_one() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        x = net.tensor(4, 8)[:, Tensor.from_host(np.arange(8)[::-1].copy())]
        if number == AT:
            net.seen.append(x._is_view())
        net.out(x).square().mean().backward()
        net.optimizer.step()

    assert same(loop)


def test_a_period_that_has_ended_concerns_no_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tensors are forgotten while the next call is still to come, such as a write of an option."""
    periods: list[PredictedPeriod] = []
    forget = PredictedPeriod._forget
    monkeypatch.setattr(PredictedPeriod, "_forget", lambda period: [periods.append(period), forget(period)][1])
    run(lambda net, _: net.step(), "early")
    assert len(periods) > STEPS // 2
    other = Tensor.from_host(np.zeros(3, np.float32))
    assert not any(period.concerns(other) for period in periods)


def test_a_result_that_was_written_belongs_to_its_own_step() -> None:
    kept: list[Tensor] = []

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        out[0].square().mean().backward()
        net.optimizer.step()
        if number == 0:
            kept.clear()
        kept.append(out)
        if number == AT:
            kept[-1][1] = 0.5
        net.seen.append([each.op_name for each in kept])

    assert same(loop)


def test_tensors_of_one_array_have_the_values_of_the_calls_that_use_them() -> None:
    array = np.empty((4, 8), np.float32)

    def filled(net: Net) -> Tensor:
        own = array if net.first.backend == "cpu" else np.empty_like(array)  # other devices read it later
        own[...] = net.rng.standard_normal(own.shape)
        return from_numpy(own)

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        loss = net.out(filled(net)).square().mean()
        noise = filled(net) * 0.1
        if number == AT:  # the calls so far are run late
            net.first.register_hook(lambda gradient: None).remove()
        (loss + noise.mean()).backward()
        net.optimizer.step()
        net.seen.extend((loss.detach(), noise))

    assert same(loop)


def test_an_array_of_the_program_is_written_in_the_middle_of_a_step() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        array = net.rng.standard_normal((4, 8)).astype(np.float32)
        x = from_numpy(array)
        out = net.out(x)
        if x.backend == "cpu":  # other devices read it later
            array *= 0.5
        (out + x).square().mean().backward()
        net.optimizer.step()

    assert same(loop)


@pytest.mark.parametrize("passes", [1, 2])
def test_an_array_of_the_program_is_filled_for_each_step(replays: Callable[[], int], passes: int) -> None:
    array, data = np.empty((4, 8), np.float32), np.random.default_rng(2).standard_normal((60, 8)).astype(np.float32)

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        for _ in range(passes):  # one tensor, whose array has other values for each pass
            array[...] = net.rng.standard_normal((4, 8))
            net.out(inputs).square().mean().backward()
            if number == AT and inputs.backend == "cpu":  # other devices read it later
                array[...] = 3.0
            if passes == 2:
                net.first.engine.finish()
        rows = everything[5 * number : 5 * number + 5]
        net.out(rows).abs().sum().backward()
        net.optimizer.step()
        net.first.engine.finish()  # before the array is filled again

    inputs, everything = from_numpy(array), from_numpy(data)
    assert same(loop)
    assert replays() > STEPS // 2 or passes == 2


def test_an_array_of_the_program_that_only_its_tensor_refers_to_is_predicted(replays: Callable[[], int]) -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        net.out(from_numpy(net.rng.standard_normal((4, 8)).astype(np.float32))).square().mean().backward()
        net.optimizer.step()

    run(loop, "early")
    assert replays() >= STEPS - 5


def test_a_result_of_the_last_step_is_written_in_place() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        out.square().mean().backward()
        net.optimizer.step()
        out[0] = 0.5
        net.seen.append(out)

    assert same(loop)


def test_numbers_drawn_by_the_program_after_a_read_are_not_drawn_again() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        net.seen.append(out.detach().sum().item())
        net.seen.append(rand((2,)))
        (out * (2.0 if number == AT else 1.0)).square().mean().backward()
        net.optimizer.step()
        net.seen.append(rand((2,)))

    assert same(loop)


def test_a_gradient_kept_between_two_reads_stays_as_it_was() -> None:
    def loop(net: Net, number: int) -> None:
        net.seen.append(net.first.detach().sum().item())
        if number == AT:
            net.seen.append(net.first.grad)
        net.step()

    assert same(loop)


def test_a_gradient_kept_before_another_one_was_set_stays_as_it_was() -> None:
    def loop(net: Net, number: int) -> None:
        net.step(set_to_none=False)
        if number == AT:
            net.seen.append(net.first.grad)
            net.first.grad = net.tensor(8, 8)

    assert same(loop)


def test_a_gradient_is_set_between_a_read_and_the_backward_pass() -> None:
    def loop(net: Net, number: int) -> None:
        out = net.out(net.tensor(4, 8))
        net.seen.append(out.detach().sum().item())
        if number == AT:
            net.first.grad = net.tensor(8, 8)
        out.square().mean().backward()
        net.optimizer.step()

    assert same(loop)


def test_a_view_that_is_read_in_the_middle_of_a_step_has_its_strides() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        part = out.detach()[:, 1::2].t()
        net.seen.append([part.numpy(), part.stride(), part.storage_offset(), part.is_contiguous()])
        out.square().mean().backward()
        net.optimizer.step()

    assert same(loop)


def test_what_an_event_has_written_is_taken_back_if_the_period_differs_after_a_read() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.scaler = GradScaler(init_scale=8.0, growth_interval=3)  # type: ignore[attr-defined]
        scaler = net.scaler  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        net.seen.append(out.detach().sum().item())
        loss = out.square().mean()
        scaler.scale(loss * 2.0 if number == AT - 1 else loss).backward()
        scaler.step(net.optimizer)
        scaler.update()
        if number == STEPS - 1:
            net.seen.append(scaler.get_scale())

    assert same(loop)


def test_a_view_from_before_of_what_a_predicted_call_writes() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.mean = net.tensor(4, 8)  # type: ignore[attr-defined]
            net.part = net.mean[:, ::2]  # type: ignore[attr-defined]
        if number == AT:
            net.seen.append(net.part.numpy())  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        with ag.no_grad():
            net.mean.mul_(0.5)  # type: ignore[attr-defined]
        if number == AT:
            net.seen.append(net.part.numpy())  # type: ignore[attr-defined]
        out.square().mean().backward()
        net.optimizer.step()

    assert same(loop)


def test_a_parameter_is_put_on_other_memory_in_each_logged_step() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        if number in (2, 3):
            net.second.data = net.second.data * 0.9
        net.optimizer.step()

    assert same(loop)


def test_a_loop_over_slices_of_its_data_is_predicted(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        if not net.seen:
            net.seen.append(net.tensor(STEPS * 4, 8))
        batch = net.seen[0][number * 4 : number * 4 + 4]
        net.optimizer.zero_grad()
        loss = net.out(batch).square().mean()
        loss.backward()
        net.optimizer.step()
        net.seen.append(loss)

    assert same(loop)
    assert replays() >= STEPS - 8


def test_detached_results_that_are_kept_share_their_memory(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        kept = out.detach()
        loss = out.square().mean()
        loss.backward()
        net.optimizer.step()
        if number == STEPS - 1:
            kept *= 0.5
        net.seen += [out, kept, loss.detach()]

    assert same(loop)
    assert replays() >= STEPS - 8


def test_a_reshaped_result_that_is_kept_is_a_view_as_before(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8)).reshape((2, 16))
        out.square().mean().backward()
        net.optimizer.step()
        net.seen.append(out)

    assert same(loop)
    assert replays() >= STEPS - 6


@pytest.mark.parametrize("sizes", [(4, 8), (8, 4), (1, 32), [2, 16]])
def test_sizes_of_one_step_that_differ(sizes: Any) -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8)).reshape(sizes if number == AT else (2, 16)).transpose(0, 1)
        out.square().mean().backward()
        net.optimizer.step()
        net.seen.append(out.shape)

    assert same(loop)


def test_metrics_that_are_read_after_the_step_are_predicted(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        out.square().mean().backward()
        net.optimizer.step()
        net.seen.append((out > 0).sum().item())

    assert same(loop)
    assert replays() >= STEPS - 7


def test_a_profile_has_a_line_about_predicted_calls() -> None:
    run(lambda net, _: net.step(), "early")
    with profile() as profiled:
        Net().step()
    assert "of calls predicted, " in profiled.table()


def test_a_predicted_loop_keeps_nothing_after_its_optimizer() -> None:
    with config.override(REPLAY="early"):
        net = Net()
        for _ in range(8):
            net.step()
        ends = [weakref.ref(net.optimizer), *map(weakref.ref, net.parameters)]
        del net
        gc.collect()
        assert [end() for end in ends] == [None] * 3


def test_a_result_of_a_predicted_step_needs_no_garbage_collection(replays: Callable[[], int]) -> None:
    with config.override(REPLAY="early"):
        net = Net()
        gc.disable()
        try:
            memory = []
            for _ in range(STEPS):
                net.optimizer.zero_grad()
                out = net.out(net.tensor(4, 8))
                out.square().mean().backward()
                net.optimizer.step()
                allocation = out._storage.array if out.engine.name == "cpu" else out._storage.allocation
                memory.append(weakref.ref(allocation))
                del out, allocation
            assert replays()
            assert [there() is None for there in memory[:-1]] == [True] * (STEPS - 1)
        finally:
            gc.enable()


def test_an_optimizer_of_a_predicted_loop_is_copied() -> None:
    with config.override(REPLAY="early"):
        net = Net()
        for _ in range(8):
            net.step()
        copied = pickle.loads(pickle.dumps(net.optimizer))
        assert copied.param_groups[0]["lr"] == net.optimizer.param_groups[0]["lr"]
        assert copy.deepcopy(net.optimizer).lr == net.optimizer.lr


def test_a_result_that_is_copied_to_another_device_is_read(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        out.square().mean().backward()
        net.seen.append(out.detach().cpu().numpy())
        net.optimizer.step()

    assert same(loop)
    assert replays() >= STEPS - 7


def test_results_of_another_class_are_returned_while_calls_are_logged() -> None:
    @prediction.event
    def as_parameter(x: Tensor) -> Tensor:
        return ag.Parameter(x.detach())

    def loop(net: Net, number: int) -> None:
        net.step()
        net.seen.append(as_parameter(net.tensor(2)))

    assert same(loop)


def test_a_gradient_that_the_program_takes_away_has_no_state() -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        net.first.grad = None
        net.optimizer.step()
        net.seen.append(len(net.optimizer.state_dict()["state"]))

    assert same(loop)


def test_two_steps_with_one_gradient_are_computed_apart(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = ag.Parameter(net.tensor(3, 3))  # type: ignore[attr-defined]
            net.apart = SGD([net.other], lr=0.1)  # type: ignore[attr-defined]
        if number == 1:
            net.first.detach().sum()
            net.first.requires_grad_(False).requires_grad_()  # so that this period is not logged
        for parameter in net.parameters:
            parameter.grad = None
        net.out(net.tensor(4, 8)).square().mean().backward()
        net.apart.zero_grad()  # type: ignore[attr-defined]
        net.other.square().mean().backward()  # type: ignore[attr-defined]
        net.apart.step()  # type: ignore[attr-defined]
        if number == AT:
            net.seen.append(net.first.detach().numpy())
        net.optimizer.step()  # alone in its period, as the next one
        net.optimizer.step()

    assert same(loop, optimizer=SGD)
    assert replays() > STEPS


def _adversarial(net: Net, deed: Callable[[Net], object], steps_judge: bool = True) -> None:
    """Takes a step of the judge and one of the net, which uses a result from before the judge's step."""
    if not hasattr(net, "judge"):
        net.judge = ag.Parameter(net.tensor(8, 1))  # type: ignore[attr-defined]
        net.judging = Adam([net.judge], lr=0.02)  # type: ignore[attr-defined]
    judge, judging = net.judge, net.judging  # type: ignore[attr-defined]
    judging.zero_grad()
    true = ag.matmul(net.tensor(4, 8), judge).square().mean()
    true.backward()
    made = net.out(net.tensor(4, 8))
    false = (ag.matmul(made.detach(), judge) - 1.0).square().mean()
    false.backward()
    if steps_judge:
        judging.step()
    deed(net)
    net.optimizer.zero_grad()
    loss = ag.matmul(made, judge).square().mean()
    loss.backward()
    net.optimizer.step()
    net.seen.append([each.item() for each in (true, false, loss)])


def test_a_period_goes_on_over_the_step_of_another_optimizer(replays: Callable[[], int]) -> None:
    steps = 16
    eager, count = run(lambda net, _: _adversarial(net, lambda _: None), "off", steps), replays()
    assert run(lambda net, _: _adversarial(net, lambda _: None), "early", steps) == eager
    assert steps - 7 <= replays() - count <= steps  # one for both optimizers


@pytest.mark.parametrize(
    "deed",
    [
        lambda net: net.seen.append(net.judge.detach().numpy()),
        lambda net: net.seen.append([net.judge.grad.numpy(), net.judging.state_dict()["state"][0]["step"]]),
        lambda net: net.judge.data.mul_(0.5),
        lambda net: net.judging.step(),
        lambda net: net.optimizer.step(),
        lambda net: setattr(net.judging, "lr", 0.01),
        lambda net: setattr(net.optimizer, "lr", 0.01),
        lambda net: net.judging.add_param_group({"params": [ag.Parameter(net.tensor(2, 2))]}),
        lambda net: net.judging.load_state_dict(copy.deepcopy(net.judging.state_dict())),
        lambda net: net.judging.zero_grad(),
        lambda net: setattr(net, "judging", copy.deepcopy(net.judging)),
    ],
)
def test_what_happens_between_the_steps_of_two_optimizers(deed: Callable[[Net], object]) -> None:
    def loop(net: Net, number: int) -> None:
        try:
            _adversarial(net, deed if number in (10, 13) else lambda _: None, steps_judge=number != 16)
        except RuntimeError as error:  # the step that the generator takes too early overwrites what its graph needs
            net.seen.append(str(error))

    assert run(loop, "early", 20) == run(loop, "off", 20)


def test_an_alias_of_a_view_of_a_gradient_is_read_in_the_next_step() -> None:
    kept: list[Tensor] = []

    def loop(net: Net, number: int) -> None:
        if kept and number in (3, 4, 5):
            net.seen.append(kept[27 % len(kept)].detach().numpy().copy())
        net.step()
        kept.append(net.first.grad[:1])  # type: ignore[index]
        if number == STEPS - 1:
            kept.clear()

    assert same(loop)


class Interrupting:
    """Sends SIGINT to this process at the ``number``-th line that the predictor runs in a block."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __enter__(self) -> Interrupting:
        self.handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        signal.signal(signal.SIGINT, self.handler)
        while lock._is_owned():  # a trace can end a block before it lets go of its lock, which a signal cannot
            lock.release()

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if f"{os.sep}prediction{os.sep}" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self._trace


def _step_with(net: Net, number: int, at: int) -> bool:
    """Takes a step; returns False if a SIGINT at the line ``at`` of the predictor ended it."""
    rng = np.random.default_rng(number)
    x = Tensor.from_host(rng.standard_normal((4, 8)).astype(np.float32))
    try:
        with Interrupting(at) if at else nullcontext():
            net.optimizer.zero_grad()
            loss = net.out(x).square().mean()
            loss.backward()
            float(loss)
            for parameter in net.parameters:
                parameter.grad.mul_(0.5)  # type: ignore[union-attr]
            net.optimizer.step()
    except KeyboardInterrupt:
        return False
    return True


def _bits(net: Net) -> list[Any]:
    states = [values for parameter in net.parameters for values in net.optimizer.state[parameter].values()]
    tensors = [value for value in (*net.parameters, *states) if isinstance(value, Tensor)]
    return [tensor.to_host().tobytes() for tensor in tensors]  # reads, and no calls


def test_an_interrupt_leaves_a_whole_step_or_none(replays: Callable[[], int]) -> None:
    lines, ended, seen = list(range(1, 1200, 23)), 0, []
    with config.override(REPLAY="early"):
        net = Net(Adam)
        for number in range(8 + 4 * len(lines)):
            at = lines[(number - 8) // 4] if number >= 8 and number % 4 == 0 else 0
            whole = _step_with(net, number, at)
            ended += not whole
            seen.append((whole, _bits(net)))
    assert replays() > len(lines)
    assert ended > len(lines) // 3
    with config.override(REPLAY="off"):
        net = Net(Adam)
        for number, (whole, bits) in enumerate(seen):
            before, state = [parameter.detach().clone() for parameter in net.parameters], net.optimizer.state_dict()
            state = copy.deepcopy(state)
            _step_with(net, number, 0)
            if not whole and _bits(net) != bits:
                for parameter, value in zip(net.parameters, before):
                    parameter.data.copy_(value)
                net.optimizer.load_state_dict(state)
            assert _bits(net) == bits, number


def test_a_replay_without_memory_runs_its_calls_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = []

    def full(replay: Replay, part: int) -> None:
        raised.append(part)
        raise OutOfMemoryError(requested=1 << 20)

    def loop(net: Net, number: int) -> None:
        with monkeypatch.context() as patch:
            if number == AT:
                patch.setattr(Replay, "run", full)
            net.optimizer.zero_grad()
            net.seen.append(net.out(net.tensor(4, 8)).square().mean())
            net.seen[-1].backward()
            net.first.grad.mul_(0.5)  # type: ignore[union-attr]
            net.optimizer.step()

    assert same(loop)
    assert raised


def test_a_lost_device_raises_at_the_step_and_at_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(replay: Replay, part: int) -> None:
        raise DeviceLostError("the device is gone")

    with config.override(REPLAY="early"):
        net = Net()
        for _ in range(AT):
            net.step()
        loss = None
        with monkeypatch.context() as patch:
            patch.setattr(Replay, "run", lost)
            net.optimizer.zero_grad()
            loss = net.out(net.tensor(4, 8)).square().mean()
            loss.backward()
            with pytest.raises(DeviceLostError, match="is gone"):
                net.optimizer.step()
            with pytest.raises(RuntimeError, match="the device is gone"):
                loss.item()
        before = prediction.report().replays
        assert [np.isfinite(net.step().item()) for _ in range(8)] == [True] * 8
        assert prediction.report().replays > before


def closure_loop(net: Net, number: int) -> None:
    """Takes a step with a closure."""
    x = net.tensor(4, 8)

    def closure() -> Tensor:
        net.optimizer.zero_grad()
        loss = net.out(x).square().mean()
        loss.backward()
        return loss

    net.seen.append(net.optimizer.step(closure))


def test_the_calls_of_a_closure_are_predicted(replays) -> None:
    assert same(closure_loop)
    assert replays() > STEPS // 2


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_evaluations_of_lbfgs_are_predicted(search: str | None, replays) -> None:
    assert same(closure_loop, optimizer=LBFGS, lr=0.5, max_iter=4, history_size=3, line_search_fn=search)
    assert replays() > 2 * STEPS


def test_an_error_in_a_predicted_closure_comes_out_and_the_next_step_works(replays) -> None:
    def loop(net: Net, number: int) -> None:
        def failing() -> Tensor:
            net.optimizer.zero_grad()
            net.out(net.tensor(4, 8)).square().mean()
            raise ZeroDivisionError

        if number in (7, AT):
            with pytest.raises(ZeroDivisionError):
                net.optimizer.step(failing)
        else:
            closure_loop(net, number)

    for optimizer in (Adam, LBFGS):
        assert same(loop, optimizer=optimizer)
    assert replays() > STEPS


@pytest.mark.parametrize("zero_at", ["front", "middle", "end"])
def test_a_compiled_module_is_predicted_from_the_third_step_on(zero_at: str) -> None:
    def losses(compiles: bool) -> tuple[list[bytes], list[int]]:
        net = Net()
        model = Scaled(net.first)
        optimizer, call = Adam(net.parameters, lr=0.05), nc.compile(model) if compiles else model
        seen, replayed = [], []
        before = prediction.report().replays
        for _ in range(5):
            if zero_at == "front":
                optimizer.zero_grad()
            loss = ag.matmul(call(net.tensor(4, 8)), net.second).square().mean()
            if zero_at == "middle":
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if zero_at == "end":
                optimizer.zero_grad()
            seen.append(loss.numpy().tobytes())
            replayed.append(prediction.report().replays - before)
        return seen, replayed

    def in_a_thread(compiles: bool) -> tuple[list[bytes], list[int]]:
        """Runs the loop with a predictor that has had no hint yet."""
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(losses(compiles)))
        thread.start()
        thread.join()
        (result,) = results
        return result

    with config.override(REPLAY="on"):
        seen, replayed = in_a_thread(True)
        assert seen == in_a_thread(False)[0]
    assert replayed == [0, 0, 1, 2, 3]


def test_a_hint_without_a_step_logs_no_more_than_a_call() -> None:
    states = []

    def loop() -> None:
        net = Net()
        call = nc.compile(Scaled(net.first))
        for _ in range(3):
            call(net.tensor(4, 8))
            states.append(len(hooks_of_thread.state[1]))

    with config.override(REPLAY="on"):
        thread = threading.Thread(target=loop)
        thread.start()
        thread.join()
    assert states == [1, 0, 0]


def test_a_scaler_that_is_predicted_in_parts_adjusts_its_factor_once_a_step(replays) -> None:
    scaler = GradScaler(init_scale=8.0, growth_interval=3)

    def loop(net: Net, number: int) -> None:
        nonlocal scaler
        if number == 0:
            scaler = GradScaler(init_scale=8.0, growth_interval=3)
        net.optimizer.zero_grad()
        x = net.tensor(4, 8)
        x.requires_grad_()  # the calls up to the first step are not predicted, those from there to the second one are
        scaler.scale(net.out(x).square().mean()).backward()
        scaler.unscale_(net.optimizer)
        scaler.step(net.optimizer)
        scaler.update()
        net.optimizer.step()
        net.seen.append(scaler.get_scale())

    assert same(loop)
    assert replays() > 0


def test_writes_through_data_are_counted_in_a_predicted_step_as_without(replays) -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.buffer = net.tensor(8, 8)  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8) + net.buffer.mean()).square().mean()  # type: ignore[attr-defined]
        loss.backward()
        net.buffer.data.mul_(0.9)  # type: ignore[attr-defined]
        net.optimizer.step()
        net.seen.append(net.buffer._version)  # type: ignore[attr-defined]
        if number == STEPS - 1:
            net.seen.append(net.buffer)  # type: ignore[attr-defined]

    assert same(loop)
    assert replays() > 0


def test_a_gradient_that_a_stretch_reads_and_replaces_is_that_of_now(replays) -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = SGD([net.second], lr=0.01)  # type: ignore[attr-defined]
        net.seen.append(clip_grad_norm_([net.first], 0.5) if net.first.grad is not None else None)
        net.optimizer.zero_grad()
        loss = net.out(net.tensor(4, 8)).square().mean()
        loss.backward()
        net.other.step()  # type: ignore[attr-defined]
        if number % 5 == 4:
            net.optimizer.step()

    assert same(loop, steps=30)
    assert replays() > 0


@pytest.mark.parametrize("shown", ["itself", "a view made before", "a turned view", "a view made after"])
def test_a_value_that_is_read_then_written_in_place_and_read_again(shown: str, replays: Callable[[], int]) -> None:
    def loop(net: Net, _: int) -> None:
        net.optimizer.zero_grad()
        y = net.out(net.tensor(4, 8))
        z = y.detach() * 1.0
        row = {"a view made before": z[1], "a turned view": z.t()}.get(shown, z)
        net.seen.append(row.numpy().copy())
        z.mul_(2.0)
        net.seen.append((z[1] if shown == "a view made after" else row).numpy().copy())
        z.add_(y.detach())
        net.seen.append(z.numpy().copy())
        y.square().mean().backward()
        net.optimizer.step()

    assert same(loop, steps=20)
    assert replays() > 0 or shown != "itself"


def _halved(net: Net) -> None:
    for parameter in net.parameters:
        parameter.grad.mul_(0.5)  # type: ignore[union-attr]


def _clipped(net: Net) -> None:
    norm = sum(parameter.grad.square().sum() for parameter in net.parameters).sqrt()  # type: ignore
    for parameter in net.parameters:
        parameter.grad.mul_((0.5 / norm).clamp(max=1.0))  # type: ignore[union-attr]
    net.seen.append(norm.item())


def _read_twice(net: Net) -> None:
    gradient = net.first.grad
    net.seen.append(gradient.numpy().copy())  # type: ignore[union-attr]
    clip_grad_norm_(net.parameters, 0.1)
    net.seen.append(gradient.detach().numpy().copy())  # type: ignore[union-attr]
    net.seen.append(gradient is net.first.grad)


def _set(net: Net) -> None:
    for parameter in net.parameters:
        parameter.grad = parameter.grad * 0.5 + parameter.detach() * 0.01  # type: ignore[operator]


def _taken_away(net: Net) -> None:
    net.first.grad = None


@pytest.mark.parametrize("use", [_halved, _clipped, _read_twice, _set, _taken_away])
def test_gradients_that_the_program_uses_before_the_step_are_predicted(use: Any, replays: Callable[[], int]) -> None:
    def loop(net: Net, _: int) -> None:
        for parameter in net.parameters:
            parameter.grad = None
        net.out(net.tensor(4, 8)).square().mean().backward()
        use(net)
        net.optimizer.step()
        net.seen.append(net.second.grad.numpy().copy())  # type: ignore[union-attr]

    assert same(loop, steps=20)
    assert replays() > 10


def test_a_gradient_that_is_kept_over_a_step_stays_the_one_of_its_parameter(replays: Callable[[], int]) -> None:
    kept: list[Any] = []

    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        gradient = net.first.grad
        kept[:] = (kept[1] if number else None), gradient
        gradient.mul_(0.5)  # type: ignore[union-attr]
        net.optimizer.step()
        net.seen.append((gradient is net.first.grad, gradient._version))  # type: ignore[union-attr]
        if kept[0] is not None:
            net.seen.append(kept[0].t().numpy().copy())

    assert same(loop, steps=20)
    assert replays() > 10


def test_a_step_that_differs_after_a_gradient_was_read_has_one_gradient() -> None:
    def loop(net: Net, number: int) -> None:
        net.optimizer.zero_grad()
        net.out(net.tensor(4, 8)).square().mean().backward()
        gradient = net.first.grad
        gradient.mul_(0.5)  # type: ignore[union-attr]
        if number >= AT and number % 2:
            net.seen.append((net.first.detach() * gradient).sum().item())  # type: ignore[operator]
            net.seen.append(gradient is net.first.grad)
        net.optimizer.step()

    assert same(loop, steps=20)


def test_a_gradient_of_before_that_one_step_scales_for_another() -> None:
    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.other = SGD([net.second], lr=0.01)  # type: ignore[attr-defined]
        net.optimizer.zero_grad(set_to_none=False)
        net.out(net.tensor(4, 8)).square().mean().backward()
        net.other.step()  # type: ignore[attr-defined]
        for parameter in net.parameters:
            parameter.grad.data.mul_(0.5)  # type: ignore[union-attr]
        net.optimizer.step()

    assert same(loop, steps=20)


def test_gradients_of_the_last_step_stay_while_a_part_of_the_next_one_is_computed(replays: Callable[[], int]) -> None:
    def loop(net: Net, number: int) -> None:
        x = net.tensor(8, 8)
        net.seen.append(ag.matmul((x * 2.0).tanh(), x).sum().item())
        if number:
            net.seen.append(net.second.grad.numpy().copy())  # type: ignore[union-attr]
        net.step()

    assert same(loop)
    assert replays() > 0


def _held(net: Net) -> tuple[int, int, int]:
    """Returns the numbers of objects and of bytes of device memory of this process, and its pages of memory."""
    gc.collect()
    pool = getattr(net.first.engine, "pool", None)
    allocated = 0 if pool is None else pool.get_stats()["bytes_allocated"]
    return len(gc.get_objects()), allocated, int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_the_memory_of_100_000_predicted_steps_is_flat(replays: Callable[[], int]) -> None:
    with config.override(REPLAY="early"):
        net, held = Net(), []
        for number in range(100_000):
            net.optimizer.zero_grad()
            loss = net.out(net.tensor(4, 8)).square().mean()
            loss.backward()
            net.first.grad.mul_(0.5)  # type: ignore[union-attr]
            net.optimizer.step()
            if number % 100 == 0:
                loss.item()
            if number % 10_000 == 5_000:
                held.append(_held(net))
    assert replays() > 95_000
    objects, allocated, pages = (each[1:] for each in zip(*held))
    assert max(objects) - min(objects) < 200, objects
    assert max(allocated) == min(allocated), allocated
    assert max(pages) - min(pages) < 1024, pages


@pytest.mark.parametrize("block", ["saved tensors", "inference", "anomaly", "tape"])
def test_predicted_calls_that_are_computed_in_a_block_are_not_of_it(block: str) -> None:
    def loop(net: Net, number: int) -> None:
        def pack(x: Tensor) -> Tensor:
            net.seen.append(x.shape)
            return x

        net.optimizer.zero_grad()
        out = net.out(net.tensor(4, 8))
        if number == AT:
            tape = ag.Tape()
            with {
                "saved tensors": saved_tensors_hooks(pack, lambda x: x),
                "inference": ag.inference_mode(),
                "anomaly": ag.detect_anomaly(),
                "tape": tape,
            }[block]:
                net.seen.append(out.sum().item())
            net.seen.append(len(tape.nodes))
        loss = out.square().mean()
        net.seen.append(loss.is_inference())
        loss.backward()
        net.optimizer.step()
        net.seen.append(out)

    assert same(loop)


def test_a_batch_that_a_loader_stacks_of_views_is_one_input(replays: Callable[[], int]) -> None:
    nets = []

    def loop(net: Net, number: int) -> None:
        if number == 0:
            net.data = net.tensor(40, 8)  # type: ignore[attr-defined]
            nets.append(net)
        rows = net.rng.integers(0, 40, 16)
        x = nc.stack([net.data[int(row)] for row in rows])  # type: ignore[attr-defined]
        net.optimizer.zero_grad()
        loss = net.out(x).square().mean()
        loss.backward()
        net.optimizer.step()
        net.seen.append(loss)

    assert same(loop)
    assert replays() >= STEPS // 2
    (place,) = vars(nets[0].optimizer)[PLACES].values()
    assert len(place.stretch.inputs) == 1


@pytest.mark.parametrize("which", [0, 1])
def test_other_gradients_stay_where_a_value_is_read_after_one_was_set(which: int) -> None:
    def loop(net: Net, number: int) -> None:
        parameter = net.parameters[which]
        if 1 <= number <= 4:
            parameter.grad = parameter.grad * 2.0
        x = net.tensor(4, 8)
        net.seen.append(ag.matmul(x * 2.0, x.t()).sum().item())
        net.seen.extend(None if p.grad is None else p.grad.numpy() for p in net.parameters)
        net.optimizer.zero_grad()
        net.out(x).square().mean().backward()
        net.optimizer.step()

    assert same(loop)
