"""ZeroRedundancyOptimizer: the numbers of the optimizer without ranks, with state and gradients in parts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import optim
from netcl.amp import GradScaler
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.core.errors import CaptureError, CollectiveMismatchError, ShapeError, UnsupportedError
from netcl.distributed import RankFailedError
from netcl.distributed.optim import DiLoCo, ZeroRedundancyOptimizer

SHARDED = Path(__file__).parent / "ranks" / "sharded.py"
SHAPES: tuple[tuple[int, ...], ...] = ((7, 5), (5,), (3,), (4, 4), (), (11,))
RNG = np.random.default_rng(0)
VALUES = [np.asarray(RNG.standard_normal(shape), np.float32) for shape in SHAPES]
GRADS = [[np.asarray(RNG.standard_normal(shape), np.float32) for shape in SHAPES] for _ in range(8)]


def parameters(dtypes: Sequence[str] = ("float32",)) -> list[Tensor]:
    pairs = enumerate(VALUES)
    return [ag.Parameter(Tensor.from_host(value, dtypes[at % len(dtypes)])) for at, value in pairs]


def steps(optimizer: Any, params: Sequence[Tensor], which: range) -> None:
    for number in which:
        for p, grad in zip(params, GRADS[number]):
            p.grad = Tensor.from_host(p.queue, grad, p.dtype)
        optimizer.step()
        optimizer.zero_grad()


def bits(params: Sequence[Tensor]) -> list[bytes]:
    return [p.numpy().tobytes() for p in params]


def state_bits(state: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {
        at: {name: value.numpy().tobytes() if isinstance(value, Tensor) else value for name, value in entry.items()}
        for at, entry in state["state"].items()
    }


OPTIMIZERS = {
    "SGD": lambda: (optim.SGD, {"lr": 0.1}),
    "momentum": lambda: (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adam": lambda: (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    "AdamW": lambda: (optim.AdamW, {"lr": 0.1}),
    "Lion": lambda: (optim.Lion, {"lr": 0.01}),
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_parameters_and_state_have_the_bits_of_the_optimizer_without_ranks(name: str, size: int) -> None:
    kind, options = OPTIMIZERS[name]()
    dtypes = ("float32", "float32", "bfloat16")

    def rank(group: Any) -> Any:
        params = parameters(dtypes)
        optimizer = ZeroRedundancyOptimizer(params, kind, **options)
        steps(optimizer, params, range(4))
        optimizer.consolidate_state_dict(None)
        return bits(params), state_bits(optimizer.state_dict())

    with device("cpu"):
        params = parameters(dtypes)
        plain = kind(params, **options)
        steps(plain, params, range(4))
        for got, state in dist.run_on_devices(rank, ["cpu"] * size):
            assert got == bits(params)
            assert state == state_bits(plain.state_dict())


@pytest.mark.parametrize(("bucket_mb", "collectives"), [(16, 2), (1e-4, 3), (1e-5, 4)])
def test_new_values_are_gathered_in_rounds_for_each_dtype(bucket_mb: float, collectives: int) -> None:
    dtypes = ("float32", "float32", "bfloat16")
    counts = []

    def rank(group: Any) -> Any:
        params = parameters(dtypes)
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam, lr=0.1, bucket_mb=bucket_mb)
        steps(optimizer, params, range(1))
        before = group._sequence
        steps(optimizer, params, range(1, 2))
        counts.append(group._sequence - before)
        return bits(params)

    with device("cpu"):
        params = parameters(dtypes)
        steps(optim.Adam(params, lr=0.1), params, range(2))
        assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [bits(params)] * 2
    assert counts == [collectives] * 2


@pytest.mark.level("staging")
@pytest.mark.parametrize("bucket_mb", [16, 1e-4])
@pytest.mark.parametrize("size", [2, 3])
def test_devices_that_exchange_tensors_gather_new_values_themselves(
    size: int, bucket_mb: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    handle = manager.default()
    assert handle is not None
    dtypes = ("float32", "float32", "bfloat16")

    def rank(group: Any) -> Any:
        params = parameters(dtypes)
        optimizer = ZeroRedundancyOptimizer(params, optim.AdamW, lr=0.1, bucket_mb=bucket_mb)
        steps(optimizer, params, range(3))
        return bits(params), optimizer._new_values._exchange is not None

    parts = manager.split(handle, size)
    with device(parts[0]):
        params = parameters(dtypes)
        steps(optim.AdamW(params, lr=0.1), params, range(3))
        wanted = bits(params)
    assert dist.run_on_devices(rank, parts) == [(wanted, True)] * size


@pytest.mark.parametrize("kind", [optim.LAMB, optim.Adafactor, optim.RMSprop])
def test_norms_of_whole_parameters_are_those_of_the_optimizer_without_ranks(kind: Any) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        steps(ZeroRedundancyOptimizer(params, kind, lr=0.01), params, range(3))
        return [p.numpy() for p in params]

    with device("cpu"):
        params = parameters()
        steps(kind(params, lr=0.01), params, range(3))
        for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
            for ours, plain in zip(got, params):
                np.testing.assert_allclose(ours, plain.numpy(), rtol=1e-5, atol=1e-6)


def test_devices_of_several_drivers_agree(handles: list[DeviceHandle]) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        steps(ZeroRedundancyOptimizer(params, optim.AdamW, lr=0.1), params, range(3))
        return bits(params), [p.numpy() for p in params]

    with device("cpu"):
        params = parameters()
        steps(optim.AdamW(params, lr=0.1), params, range(3))
    found = dist.run_on_devices(rank, handles)
    assert all(got == found[0][0] for got, _ in found)
    for ours, plain in zip(found[0][1], params):
        np.testing.assert_allclose(ours, plain.numpy(), rtol=1e-5, atol=1e-6)


def test_a_rank_has_the_state_of_its_own_parameters_alone() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam)
        steps(optimizer, params, range(1))
        return [at for at, p in enumerate(params) if p in optimizer.state]

    # By size: 35 elements to rank 0; 16, 11, 5 and 3 to rank 1, which then has 35 too; the last one to rank 0.
    assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [[0, 4], [1, 2, 3, 5]]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 3), (3, 2), (1, 3), (0, 2), (2, 0)])
def test_a_state_continues_on_another_number_of_ranks(before: int, after: int) -> None:
    """0 ranks: the optimizer without ranks."""

    def begun(group: Any = None) -> Any:
        params = parameters()
        optimizer = made(params, group)
        optimizer.param_groups[0]["lr"] = 0.05
        steps(optimizer, params, range(2))
        if group is not None:
            optimizer.consolidate_state_dict(to=group.size - 1)
            if group.rank < group.size - 1:
                return None
        return [p.numpy() for p in params], optimizer.state_dict()

    def made(params: list[Tensor], group: Any) -> Any:
        return optim.Adam(params) if group is None else ZeroRedundancyOptimizer(params, optim.Adam)

    def continued(group: Any = None) -> Any:
        params = parameters()
        optimizer = made(params, group)
        for p, value in zip(params, values):
            p.write(value)
        optimizer.load_state_dict(state)
        steps(optimizer, params, range(2, 4))
        return bits(params), optimizer.param_groups[0]["lr"]

    with device("cpu"):
        values, state = [one for one in dist.run_on_devices(begun, ["cpu"] * before) if one][0] if before else begun()
        params = parameters()
        plain = optim.Adam(params, lr=0.05)
        steps(plain, params, range(4))
        results = dist.run_on_devices(continued, ["cpu"] * after) if after else [continued()]
        assert results == [(bits(params), 0.05)] * max(after, 1)


class Own(optim.Optimizer):
    """An optimizer written as for PyTorch: a step of its own, with state that it fills itself."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["count"] = state.get("count", 0) + 1
                    state["sum"] = state.get("sum", 0.0) + p.grad.numpy()
                    p.write(p.numpy() - group["lr"] * state["sum"])


def test_an_optimizer_with_a_step_of_its_own() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, Own, lr=0.2)
        steps(optimizer, params, range(2))
        optimizer.consolidate_state_dict(None)
        state = optimizer.state_dict()
        again = ZeroRedundancyOptimizer(params, Own, lr=0.2)
        again.load_state_dict(state)
        steps(again, params, range(2, 4))
        return bits(params), [entry["count"] for entry in state["state"].values()]

    with device("cpu"):
        params = parameters()
        steps(Own(params, lr=0.2), params, range(4))
        assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [(bits(params), [2] * len(SHAPES))] * 2


@pytest.mark.parametrize("shards", [False, True])
def test_a_rank_may_own_nothing(shards: bool) -> None:
    def rank(group: Any) -> Any:
        p = ag.Parameter(np.ones(4, np.float32))
        optimizer = ZeroRedundancyOptimizer([p], optim.Adam, lr=0.1, shard_gradients=shards)
        for _ in range(2):
            (p * p).sum().backward()
            norm = optimizer.clip_grad_norm(100.0)
            optimizer.step()
            optimizer.zero_grad()
        optimizer.consolidate_state_dict(None)
        return p.tolist(), len(optimizer.state), list(optimizer.state_dict()["state"]), norm.item()

    with device("cpu"):
        p = ag.Parameter(np.ones(4, np.float32))
        plain = optim.Adam([p], lr=0.1)
        for _ in range(2):
            (p * p).sum().backward()
            norm = plain.clip_grad_norm(100.0).item()
            plain.step()
            plain.zero_grad()
        found = dist.run_on_devices(rank, ["cpu"] * 3)
    assert [count for _, count, _, _ in found] == [1, 0, 0]
    for values, _, index, ours in found:
        assert values == pytest.approx(p.tolist(), rel=1e-6)
        assert index == [0]
        assert ours == pytest.approx(norm, rel=1e-6)


def test_groups_schedules_and_added_groups_reach_the_ranks() -> None:
    def trained(made: Callable[..., Any]) -> list[bytes]:
        params = parameters()
        optimizer = made([{"params": params[:2], "lr": 0.2}, {"params": params[2:4]}])
        schedule = optim.StepLR(optimizer, 1, 0.5)
        steps(optimizer, params[:4], range(1))
        schedule.step()
        optimizer.add_param_group({"params": params[4:], "betas": (0.5, 0.9)})
        optimizer.param_groups[1]["weight_decay"] = 0.1
        steps(optimizer, params, range(1, 3))
        return bits(params)

    def rank(group: Any) -> Any:
        return trained(lambda groups: ZeroRedundancyOptimizer(groups, optim.AdamW, lr=0.1))

    with device("cpu"):
        plain = trained(lambda groups: optim.AdamW(groups, lr=0.1))
        assert dist.run_on_devices(rank, ["cpu"] * 3) == [plain] * 3


def test_names_of_parameters_stay_in_the_state() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        named = [(f"p{at}", p) for at, p in enumerate(params)]
        optimizer = ZeroRedundancyOptimizer(named, optim.Adam)
        steps(optimizer, params, range(1))
        optimizer.consolidate_state_dict(None)
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        own = optimizer.optim.param_groups[0]
        return state["param_groups"][0]["param_names"], own["param_names"], [len(own["params"])]

    names = [f"p{at}" for at in range(len(SHAPES))]
    found = dist.run_on_devices(rank, ["cpu", "cpu"])
    assert [one[0] for one in found] == [names, names]
    assert [one[1] for one in found] == [["p0", "p4"], ["p1", "p2", "p3", "p5"]]
    assert [one[2] for one in found] == [[2], [4]]


def test_a_closure_gives_the_gradients_and_hooks_are_called_once() -> None:
    calls: list[int] = []

    def rank(group: Any) -> Any:
        p = ag.Parameter(np.ones(3, np.float32))
        optimizer = ZeroRedundancyOptimizer([p], optim.SGD, lr=0.5)
        optimizer.register_step_post_hook(lambda *_: calls.append(group.rank))

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).item(), p.tolist()

    every = optim.register_optimizer_step_post_hook(lambda *_: calls.append(-1))
    try:
        assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [(3.0, [0.0] * 3)] * 2
    finally:
        every.remove()
    assert sorted(calls) == [-1, -1, 0, 1]


def losses(params: Sequence[Tensor], number: int) -> Tensor:
    """Returns a loss with the gradients ``GRADS[number]``."""
    total = ag.tensor(0.0)
    for p, grad in zip(params, GRADS[number]):
        total = total + (p * Tensor.from_host(p.queue, grad)).sum()
    return total


def means(numbers: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    total = [grad.copy() for grad in GRADS[numbers[0]]]
    for number in numbers[1:]:
        total = [one + grad for one, grad in zip(total, GRADS[number])]
    return [np.asarray(one / np.float32(len(numbers)), np.float32) for one in total]


@pytest.mark.parametrize("bucket_mb", [16, 1e-5])
@pytest.mark.parametrize("size", [2, 3])
def test_sharded_gradients_are_means_on_their_owner_alone(size: int, bucket_mb: float) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        with ag.no_grad():
            for p in params:
                p.write(p.numpy() + group.rank)  # rank 0's values are copied to the others
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam, shard_gradients=True, bucket_mb=bucket_mb)
        for step in range(2):
            losses(params, step * group.size + group.rank).backward()
            assert all(p.grad is None for p in params)
            optimizer.reduce_gradients()
            held = [p in optimizer.optim.state or p.grad is not None for p in params]
            optimizer.step()
            optimizer.zero_grad()
        return bits(params), held

    with device("cpu"):
        params = parameters()
        plain = optim.Adam(params)
        for step in range(2):
            for p, grad in zip(params, means(range(step * size, (step + 1) * size))):
                p.grad = Tensor.from_host(grad)
            plain.step()
        found = dist.run_on_devices(rank, ["cpu"] * size)
        assert [got for got, _ in found] == [bits(params)] * size
        assert np.sum([held for _, held in found], axis=0).tolist() == [1] * len(SHAPES)


@pytest.mark.level("staging")
def test_sharded_gradients_of_devices_that_exchange_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    handle = manager.default()
    assert handle is not None
    rng = np.random.default_rng(4)
    grads = rng.standard_normal((2, 400_000)).astype(np.float32)

    def rank(group: Any) -> Any:
        params = [ag.Parameter(Tensor.zeros((400_000,))), ag.Parameter(Tensor.zeros((3,)))]
        optimizer = ZeroRedundancyOptimizer(params, optim.SGD, lr=1.0, shard_gradients=True)
        loss = (params[0] * Tensor.from_host(grads[group.rank])).sum() + params[1].sum()
        loss.backward()
        optimizer.step()
        return [p.numpy() for p in params], [p.grad for p in params]

    for values, left in dist.run_on_devices(rank, manager.split(handle, 2)):
        assert values[0].tobytes() == (-(grads[0] + grads[1]) / np.float32(2)).tobytes()
        assert values[1].tolist() == [-1.0] * 3
        assert left == [None, None]


def test_sharded_gradients_accumulate_inside_and_outside_of_no_sync() -> None:
    def rank(group: Any) -> Any:
        results = []
        for inside in (True, False):
            params = parameters()
            optimizer = ZeroRedundancyOptimizer(params, optim.SGD, lr=1.0, shard_gradients=True)
            if inside:
                with optimizer.no_sync():
                    losses(params, group.rank).backward()
            else:
                losses(params, group.rank).backward()
            losses(params, 2 + group.rank).backward()
            optimizer.step()
            results.append([p.numpy() for p in params])
        return results

    for results in dist.run_on_devices(rank, ["cpu", "cpu"]):
        for got in results:
            for ours, value, one, other in zip(got, VALUES, means([0, 1]), means([2, 3])):
                np.testing.assert_allclose(ours, value - (one + other), rtol=1e-5, atol=1e-6)


def test_only_passes_inside_no_sync_are_sent_by_the_step() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.SGD, lr=1.0, shard_gradients=True)
        with optimizer.no_sync():
            losses(params, group.rank).backward()
        optimizer.step()
        return [p.numpy() for p in params]

    for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
        for ours, value, mean in zip(got, VALUES, means([0, 1])):
            np.testing.assert_allclose(ours, value - mean, rtol=1e-6, atol=1e-6)


def test_a_parameter_that_one_rank_leaves_out_counts_as_zero_there_and_one_of_none_is_skipped() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(
            params, optim.SGD, lr=1.0, weight_decay=0.5, shard_gradients=True, bucket_mb=1e-5
        )
        used = params[:-1] if group.rank else params[:-2]
        sum(((p * 2.0).sum() for p in used), ag.tensor(0.0)).backward()
        optimizer.step()
        return [p.numpy() for p in params]

    for got in dist.run_on_devices(rank, ["cpu", "cpu"]):
        assert got[-1].tobytes() == VALUES[-1].tobytes()
        np.testing.assert_allclose(got[-2], VALUES[-2] - 1.0 - 0.5 * VALUES[-2], rtol=1e-6)
        np.testing.assert_allclose(got[0], VALUES[0] - 2.0 - 0.5 * VALUES[0], rtol=1e-5, atol=1e-6)


def test_a_second_pass_after_reduce_gradients_and_calls_without_shards_are_refused() -> None:
    params = parameters()
    plain = ZeroRedundancyOptimizer(params, optim.SGD)
    with pytest.raises(RuntimeError, match="shard_gradients=True"):
        plain.reduce_gradients()
    with pytest.raises(RuntimeError, match=r"model\.no_sync\(\)"), plain.no_sync():
        raise AssertionError
    sharded = ZeroRedundancyOptimizer(params, optim.SGD, shard_gradients=True)
    losses(params, 0).backward()
    sharded.reduce_gradients()
    with pytest.raises(RuntimeError, match=r"call step\(\) or zero_grad\(\) first"):
        losses(params, 0).backward()
    sharded.zero_grad()
    losses(params, 0).backward()
    sharded.step()
    assert all(p.grad is None for p in params)


@pytest.mark.parametrize("shards", [False, True])
def test_clipping_uses_the_norm_over_all_ranks(shards: bool) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.SGD, lr=1.0, shard_gradients=shards)
        losses(params, 0).backward()
        norm = optimizer.clip_grad_norm(0.5)
        optimizer.step()
        return norm.item(), [p.numpy() for p in params]

    with device("cpu"):
        params = parameters()
        plain = optim.SGD(params, lr=1.0)
        losses(params, 0).backward()
        norm = plain.clip_grad_norm(0.5).item()
        plain.step()
        for ours, values in dist.run_on_devices(rank, ["cpu", "cpu"]):
            assert ours == pytest.approx(norm, rel=1e-6)
            for one, other in zip(values, params):
                np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shards", [False, True])
def test_an_overflow_on_one_rank_skips_the_step_on_all(shards: bool) -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.SGD, lr=1.0, shard_gradients=shards)
        scaler = GradScaler(init_scale=4.0)
        before = bits(params)
        scaled = []
        for factor in (float("inf"), 1.0):
            optimizer.zero_grad()
            loss = losses(params[:-1], 0) + (params[-1] * factor).sum()
            scaler.scale(loss).backward()
            if shards:
                optimizer.reduce_gradients()
            scaler.step(optimizer)
            scaler.update()
            scaled.append(bits(params) == before)
        return scaled, scaler.get_scale()

    assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [([True, False], 2.0)] * 2


def test_wrong_classes_and_options_are_refused() -> None:
    params = parameters()
    with pytest.raises(UnsupportedError, match="LBFGS needs the gradients of all parameters"):
        ZeroRedundancyOptimizer(params, optim.LBFGS)
    with pytest.raises(UnsupportedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer(params, optim.SGD, overlap_with_ddp=True)
    with pytest.raises(TypeError, match="class of netcl.optim"):
        ZeroRedundancyOptimizer(params, "Adam")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected lr of at least 0"):
        ZeroRedundancyOptimizer(params, optim.SGD, lr=-1.0)
    with pytest.raises(ValueError, match="bucket_mb"):
        ZeroRedundancyOptimizer(params, optim.SGD, bucket_mb=0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ZeroRedundancyOptimizer(params, optim.SGD, speed=3)
    optimizer = ZeroRedundancyOptimizer(params, optim.SGD)
    with pytest.raises(ValueError, match="expected lr of at least 0"):
        optimizer.param_groups[0]["lr"] = -1.0
    assert optimizer.optim.param_groups[0]["lr"] == 1e-2
    with pytest.raises(TypeError, match="not copied or pickled"):
        copy.deepcopy(optimizer)


def test_a_state_has_to_be_consolidated_after_the_last_step() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam)
        steps(optimizer, params, range(1))
        with pytest.raises(RuntimeError, match="consolidate_state_dict"):
            optimizer.state_dict()
        optimizer.consolidate_state_dict()
        if group.rank == 0:
            assert len(optimizer.state_dict()["state"]) == len(SHAPES)
        else:
            with pytest.raises(RuntimeError, match=r"consolidate_state_dict\(to=1\)"):
                optimizer.state_dict()
        steps(optimizer, params, range(1, 2))
        with pytest.raises(RuntimeError, match="after the last step"):
            optimizer.state_dict()
        with pytest.raises(ValueError, match="rank from 0 to 1"):
            optimizer.consolidate_state_dict(to=2)

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_a_hook_makes_each_state_dict_gather() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam)
        optimizer.register_state_dict_pre_hook(lambda one: one.consolidate_state_dict(to=None))
        found = []
        for number in range(2):
            steps(optimizer, params, range(number, number + 1))
            found.append([entry["step"] for entry in optimizer.state_dict()["state"].values()])
        return found

    wanted = [[number + 1.0] * len(SHAPES) for number in range(2)]
    assert dist.run_on_devices(rank, ["cpu", "cpu"]) == [wanted] * 2


def test_a_state_of_another_shape_is_refused_by_all_ranks_and_changes_nothing() -> None:
    plain = optim.Adam(params := parameters())
    steps(plain, params, range(1))
    state = plain.state_dict()
    state["state"][0]["exp_avg"] = np.zeros((2, 2), np.float32)
    fewer = optim.Adam(parameters()[:2]).state_dict()

    def rank(group: Any) -> Any:
        mine = parameters()
        optimizer = ZeroRedundancyOptimizer(mine, optim.Adam)
        steps(optimizer, mine, range(1))
        before = {id(p): entry["exp_avg"].numpy().tobytes() for p, entry in optimizer.state.items()}
        with pytest.raises(ShapeError, match="exp_avg"):
            optimizer.load_state_dict(state)
        with pytest.raises(ValueError, match="groups of"):
            optimizer.load_state_dict(fewer)
        assert {id(p): entry["exp_avg"].numpy().tobytes() for p, entry in optimizer.state.items()} == before

    dist.run_on_devices(rank, ["cpu", "cpu"])


@pytest.mark.level("staging")
@pytest.mark.level("capture")
def test_steps_that_python_has_to_run_are_not_captured() -> None:
    from netcl.runtime.capture import capture

    params = parameters()
    sharded = ZeroRedundancyOptimizer(params, optim.SGD, shard_gradients=True)
    local = DiLoCo(optim.SGD(params), sync_every=2)

    def step(optimizer: Any, scale: Tensor) -> None:
        sum(((p * scale).sum() for p in params[1:]), params[0].sum()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for optimizer in (sharded, local):
        step(optimizer, Tensor.ones(()))
        with pytest.raises(CaptureError, match="which a replay does not run"):
            capture(partial(step, optimizer), Tensor.ones(()))
        optimizer.zero_grad()
        sharded._shards.remove()


def test_different_calls_of_the_ranks_are_reported() -> None:
    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam)
        steps(optimizer, params, range(1))
        with pytest.raises(CollectiveMismatchError):
            optimizer.consolidate_state_dict(to=group.rank)

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_a_rank_that_raises_before_the_step_is_reported_by_the_others() -> None:
    seen = []

    def rank(group: Any) -> Any:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, optim.Adam)
        if group.rank == 1:
            raise ValueError("too bad")
        try:
            steps(optimizer, params, range(1))
        except RankFailedError as error:
            seen.append(error.rank)
            raise

    with pytest.raises(ValueError, match="too bad"):
        dist.run_on_devices(rank, ["cpu", "cpu"])
    assert seen == [1]


def test_processes_of_the_launcher_train_as_one(tmp_path: Path, launch: Callable[..., Any]) -> None:
    done = launch(2, SHARDED, str(tmp_path / "state.npz"), options=("--devices", "cpu,cpu"))
    assert done.returncode == 0, done.stderr
    found = dict(np.load(tmp_path / "state.npz"))
    with device("cpu"):
        params = parameters()
        plain = optim.AdamW(params, lr=0.1)
        rng = np.random.default_rng(1)
        values = [np.asarray(rng.standard_normal(shape), np.float32) for shape in SHAPES]
        for p, value in zip(params, values):
            p.write(value)
        for _ in range(3):
            for p in params:
                p.grad = Tensor.from_host(np.asarray(rng.standard_normal(p.shape), np.float32))
            plain.step()
        for at, p in enumerate(params):
            assert found[f"p{at}"].tobytes() == p.numpy().tobytes()
            state = plain.state_dict()["state"][at]
            assert found[f"m{at}"].tobytes() == state["exp_avg"].numpy().tobytes()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="ends a rank by SIGKILL, which Linux and macOS have")
def test_a_rank_killed_before_the_step_is_reported_by_the_others(tmp_path: Path, launch: Callable[..., Any]) -> None:
    done = launch(2, SHARDED, str(tmp_path / "state.npz"), "kill")
    assert done.returncode == 137
    assert "rank 0: RankFailedError 1" in done.stdout, done.stdout + done.stderr
