"""Local steps with averages: PeriodicModelAverager, PostLocalSGDOptimizer and DiLoCo against NumPy in float64."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import optim
from netcl.core import DeviceHandle, Tensor
from netcl.distributed import RankFailedError
from netcl.distributed.optim import DiLoCo, PeriodicModelAverager, PostLocalSGDOptimizer

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
START = [RNG.standard_normal((3, 4)), RNG.standard_normal(5)]
GRADS = RNG.standard_normal((3, 12, 17))  # by rank and step


def gradients(rank: int, step: int) -> list[Array]:
    return [GRADS[rank, step, :12].reshape(3, 4), GRADS[rank, step, 12:]]


def parameters() -> list[Tensor]:
    return [ag.Parameter(Tensor.from_host(value.astype(np.float32))) for value in START]


def step(optimizer: Any, params: Sequence[Tensor], rank: int, number: int) -> None:
    for p, grad in zip(params, gradients(rank, number)):
        p.grad = Tensor.from_host(p.queue, grad.astype(np.float32))
    optimizer.step()
    optimizer.zero_grad()


def local_sgd(size: int, count: int, lr: float, averages: Sequence[int]) -> list[list[Array]]:
    """Returns the parameters of each rank after ``count`` steps, averaged after the steps in ``averages``."""
    ranks = [[value.copy() for value in START] for _ in range(size)]
    for number in range(count):
        for rank, params in enumerate(ranks):
            for value, grad in zip(params, gradients(rank, number)):
                value -= lr * grad
        if number in averages:
            mean = [sum(params[at] for params in ranks) / size for at in range(2)]
            ranks = [[np.array(value) for value in mean] for _ in range(size)]
    return ranks


def diloco(size: int, count: int, every: int, lr: float, outer: float, momentum: float, nesterov: bool) -> list[Array]:
    """Returns the anchors after ``count`` steps, a multiple of ``every``."""
    anchors = [value.copy() for value in START]
    buffers = [np.zeros_like(value) for value in START]
    for first in range(0, count, every):
        ends = []
        for rank in range(size):
            params = [value.copy() for value in anchors]
            for number in range(first, first + every):
                for value, grad in zip(params, gradients(rank, number)):
                    value -= lr * grad
            ends.append(params)
        for at, anchor in enumerate(anchors):
            change = sum(anchor - params[at] for params in ends) / size
            buffers[at] = momentum * buffers[at] + change
            anchor -= outer * (change + momentum * buffers[at] if nesterov else buffers[at])
    return anchors


def test_parameters_are_averaged_at_each_period_after_the_warmup() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = PostLocalSGDOptimizer(optim.SGD(params, lr=0.1), PeriodicModelAverager(3, warmup_steps=2))
        for number in range(7):
            step(optimizer, params, group.rank, number)
        return [p.numpy() for p in params]

    expected = local_sgd(3, 7, 0.1, (2, 5))
    for got, wanted in zip(dist.run_on_devices(rank, ["cpu"] * 3), expected):
        for ours, theirs in zip(got, wanted):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_count_of_steps_is_a_part_of_the_state() -> None:
    params = parameters()
    optimizer = PostLocalSGDOptimizer(optim.Adam(params), PeriodicModelAverager(3))
    step(optimizer, params, 0, 0)
    state = optimizer.state_dict()
    assert state["step"] == 1
    other = PostLocalSGDOptimizer(optim.Adam(params), PeriodicModelAverager(3))
    other.load_state_dict(state)
    assert other.averager.step == 1
    assert other.optim.state_dict()["state"][0]["step"] == 1
    del state["step"]
    with pytest.warns(UserWarning, match="counts from 0"):
        other.load_state_dict(state)
    assert other.averager.step == 0


@pytest.mark.parametrize(("outer", "momentum", "nesterov"), [(0.7, 0.9, True), (0.5, 0.5, False), (1.0, 0.0, False)])
@pytest.mark.parametrize("size", [1, 3])
def test_outer_steps_are_those_of_the_paper(size: int, outer: float, momentum: float, nesterov: bool) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = DiLoCo(optim.SGD(params, lr=0.1), 4, outer, momentum, nesterov)
        for number in range(12):
            step(optimizer, params, group.rank, number)
        return [p.numpy() for p in params]

    wanted = diloco(size, 12, 4, 0.1, outer, momentum, nesterov)
    for got in dist.run_on_devices(rank, ["cpu"] * size):
        for ours, theirs in zip(got, wanted):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_outer_lr_1_without_momentum_is_local_sgd() -> None:
    def rank(group: Any) -> Any:
        found = []
        for made in (
            lambda inner: DiLoCo(inner, 4, 1.0, 0.0, False),
            lambda inner: PostLocalSGDOptimizer(inner, PeriodicModelAverager(4, warmup_steps=3)),
        ):
            params = parameters()
            optimizer = made(optim.Adam(params, lr=0.1))
            for number in range(8):
                step(optimizer, params, group.rank, number)
            found.append([p.numpy() for p in params])
        return found

    for one, other in dist.run_on_devices(rank, ["cpu", "cpu"]):
        for ours, theirs in zip(one, other):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_ranks_begin_from_rank_0_and_agree_after_an_outer_step(handles: list[DeviceHandle]) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        for p in params:
            p.write(p.numpy() + group.rank)
        optimizer = DiLoCo(optim.AdamW(params, lr=0.1), 2)
        before = [p.numpy() for p in params]
        seen = []
        for number in range(2):
            step(optimizer, params, group.rank, number)
            seen.append([p.numpy().tobytes() for p in params])
        return before, seen

    found = dist.run_on_devices(rank, handles)
    for before, seen in found:
        assert all((ours == value.astype(np.float32)).all() for ours, value in zip(before, START))
        assert seen[1] == found[0][1][1]
    assert found[1][1][0] != found[0][1][0]


@pytest.mark.parametrize(("kind", "unit"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_compressed_changes_have_the_stated_error(kind: str, unit: float) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = DiLoCo(optim.SGD(params, lr=0.1), 4, 1.0, 0.0, False, compression=kind)
        for number in range(4):
            step(optimizer, params, group.rank, number)
        return [p.numpy() for p in params]

    wanted = diloco(2, 4, 4, 0.1, 1.0, 0.0, False)
    magnitudes = [np.zeros_like(value) for value in START]
    for at, total in enumerate(magnitudes):
        for who in range(2):
            total += abs(0.1 * sum(gradients(who, number)[at] for number in range(4))) / 2
    for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
        errors = [abs(ours - theirs) for ours, theirs in zip(got, wanted)]
        for error, magnitude in zip(errors, magnitudes):
            assert (error <= 2.01 * unit * magnitude + 1e-6).all()
        assert max(error.max() for error in errors) > 1e-5


def test_a_state_continues_with_the_same_bits() -> None:
    def rank(group: Any) -> Any:
        ends = []
        for saved_at in (None, 3, 4):
            params = parameters()
            optimizer = DiLoCo(optim.Adam(params, lr=0.1), 4)
            for number in range(8):
                if number == saved_at:
                    state = copy.deepcopy(optimizer.state_dict())
                    values = [p.numpy() for p in params]
                    params = parameters()
                    optimizer = DiLoCo(optim.Adam(params, lr=0.1), 4)
                    optimizer.load_state_dict(state)
                    for p, value in zip(params, values):
                        p.write(value)
                step(optimizer, params, group.rank, number)
            ends.append([p.numpy().tobytes() for p in params])
        return ends

    for ends in dist.run_on_devices(rank, ["cpu", "cpu"]):
        assert ends[0] == ends[1] == ends[2]


def test_schedules_groups_and_closures_work_on_the_wrapper() -> None:
    params = parameters()
    optimizer = DiLoCo(optim.SGD(params[:1], lr=0.5), sync_every=2)
    schedule = optim.StepLR(optimizer, 1, 0.1)
    calls = []
    optimizer.register_step_post_hook(lambda one, *_: calls.append(one))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = params[0].sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(START[0].sum(), rel=1e-5)
    schedule.step()
    assert optimizer.optim.param_groups[0]["lr"] == pytest.approx(0.05)
    assert calls == [optimizer]
    with pytest.raises(RuntimeError, match="within a period"):
        optimizer.add_param_group({"params": params[1:]})
    optimizer.step(closure)
    optimizer.add_param_group({"params": params[1:]})
    for _ in range(2):
        params[1].sum().backward()
        optimizer.step()
    assert (params[1].numpy() != START[1].astype(np.float32)).all()


def test_wrong_arguments_are_refused() -> None:
    inner = optim.SGD(parameters())
    with pytest.raises(ValueError, match="expected a period of at least 1"):
        PeriodicModelAverager(0)
    with pytest.raises(ValueError, match="warmup_steps"):
        PeriodicModelAverager(1, -1)
    with pytest.raises(ValueError, match="sync_every"):
        DiLoCo(inner, 0)
    with pytest.raises(ValueError, match="bfloat16"):
        DiLoCo(inner, compression="int8")
    with pytest.raises(TypeError, match=r"an optimizer of netcl\.optim"):
        PostLocalSGDOptimizer(parameters(), PeriodicModelAverager(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no outer state"):
        DiLoCo(inner).load_state_dict(inner.state_dict())


def test_a_rank_that_raises_is_reported_at_the_outer_step() -> None:
    seen = []

    def rank(group: Any) -> None:
        params = parameters()
        optimizer = DiLoCo(optim.SGD(params), sync_every=2)
        step(optimizer, params, group.rank, 0)
        if group.rank == 0:
            raise ValueError("too bad")
        try:
            step(optimizer, params, group.rank, 1)
        except RankFailedError as error:
            seen.append(error.rank)
            raise

    with pytest.raises(ValueError, match="too bad"):
        dist.run_on_devices(rank, ["cpu", "cpu"])
    assert seen == [0]
