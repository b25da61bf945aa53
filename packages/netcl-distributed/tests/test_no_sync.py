"""no_sync: gradients stay on their rank until the first pass outside of it, which sums all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.distributed.training import buckets

nn = pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")

X = np.random.default_rng(0).standard_normal((4, 6, 5)).astype(np.float32)  # by micro-batch


class Heads(nn.Module):  # type: ignore[misc, name-defined]
    """A layer that is always used, and another on request."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 3), nn.Linear(5, 2)
        rng = np.random.default_rng(1)
        for p in self.parameters():
            p.write(rng.standard_normal(p.shape).astype(np.float32))

    def forward(self, x: Tensor, second: bool = True) -> Tensor:
        return (self.first(x) ** 2).mean(1) + (self.second(x).mean(1) if second else 0.0)


def whole(numbers: Sequence[int], second: Sequence[bool]) -> list[np.ndarray[Any, Any] | None]:
    module = Heads()
    for number, used in zip(numbers, second):
        module(Tensor.from_host(X[number]), used).mean().backward()
    return values(module)


def values(module: Any) -> list[np.ndarray[Any, Any] | None]:
    return [None if p.grad is None else p.grad.numpy() for p in module.parameters()]


def compare(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert [one is None for one in got] == [one is None for one in wanted]
    for one, other in zip(got, wanted):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def passed(model: Any, number: int, second: bool = True) -> None:
    model(Tensor.from_host(model.shard(X[number])), second).mean().backward()


@pytest.mark.level("staging")
def test_gradients_summed_on_devices_accumulate_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    handle = manager.default()
    assert handle is not None

    def rank(group: Any) -> Any:
        model = dist.DataParallel(Heads(), weights=[1.0, 1.0])
        assert type(model._replica_set.replicas[0].buckets).__name__ == "StagedBuckets"
        passed(model, 0)
        with model.no_sync():
            passed(model, 1)
        passed(model, 2, second=False)
        found = values(model)
        model.zero_grad()
        passed(model, 3, second=False)  # without a gradient on any rank
        return found, values(model)

    with device("cpu"):
        wanted = whole([0, 1, 2], [True, True, False])
        last = whole([3], [False])
    for got, after in dist.run_on_devices(rank, manager.split(handle, 2)):
        compare(got, wanted)
        compare(after, last)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0]])
def test_micro_batches_sum_to_the_gradients_of_one_device(weights: list[float] | None) -> None:
    sent: list[int] = []

    def rank(group: Any) -> Any:
        model = dist.DataParallel(Heads(), weights=weights or [1.0, 1.0])
        with model.no_sync():
            passed(model, 0)
            before = group._sequence
            passed(model, 1, second=False)
            sent.append(group._sequence - before)
        local = values(model)
        passed(model, 2, second=False)
        return local, values(model)

    with device("cpu"):
        wanted = whole([0, 1, 2], [True, False, False])
        found = dist.run_on_devices(rank, ["cpu", "cpu"])
    for _, got in found:
        compare(got, wanted)
    assert (found[0][0][0] != found[1][0][0]).any()
    assert sent == [1, 1]  # the numbers of samples alone


def test_gradients_from_before_the_block_count_once() -> None:
    def rank(group: Any) -> Any:
        model = dist.DataParallel(Heads(), weights=[1.0, 1.0, 1.0])
        passed(model, 0)
        with model.no_sync():
            passed(model, 1)
        passed(model, 2)
        passed(model, 3)
        return values(model)

    with device("cpu"):
        wanted = whole([0, 1, 2, 3], [True] * 4)
        for got in dist.run_on_devices(rank, ["cpu"] * 3):
            compare(got, wanted)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_inside_the_block_drops_what_was_accumulated(set_to_none: bool) -> None:
    def rank(group: Any) -> Any:
        model = dist.DataParallel(Heads(), weights=[1.0, 1.0])
        with model.no_sync():
            passed(model, 0)
            model.zero_grad(set_to_none=set_to_none)
            passed(model, 1)
        passed(model, 2)
        return values(model)

    with device("cpu"):
        wanted = whole([1, 2], [True, True])
        for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
            compare(got, wanted)


def test_the_call_of_the_model_decides_and_not_its_backward_pass() -> None:
    def rank(group: Any) -> Any:
        model = dist.DataParallel(Heads(), weights=[1.0, 1.0])
        outside = model(Tensor.from_host(model.shard(X[0]))).mean()
        with model.no_sync():
            outside.backward()
        return values(model)

    with device("cpu"):
        wanted = whole([0], [True])
        for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
            compare(got, wanted)


def test_devices_of_one_process_are_summed_in_the_block_too(handles: list[DeviceHandle]) -> None:
    with device(handles[0]):
        model = dist.DataParallel(Heads(), devices=handles)
        with model.no_sync():
            model(Tensor.from_host(X[0])).mean().backward()
        compare(values(model), whole([0], [True]))
        model(Tensor.from_host(X[1])).mean().backward()
        compare(values(model), whole([0, 1], [True, True]))


def test_processes_of_several_devices_sum_their_own_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = manager.default()
    assert handle is not None
    parts = manager.split(handle, 2)
    made: list[Any] = []
    first = buckets.Buckets.__init__

    def noted(self: Any, params: Any, local: Any, group: Any, *rest: Any) -> None:
        made.append((local is not None, group is not None))
        first(self, params, local, group, *rest)

    monkeypatch.setattr(buckets.Buckets, "__init__", noted)

    def rank(group: Any) -> Any:
        with device(parts[0]):
            model = dist.DataParallel(Heads(), devices=parts, group=group)
            with model.no_sync():
                passed(model, 0)
            passed(model, 1)
            return values(model)

    with device(parts[0]):
        wanted = whole([0, 1], [True, True])
    for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
        compare(got, wanted)
    assert (True, False) in made
    assert ag.is_grad_enabled()
