"""Replicas, shards and the data-parallel step: whatever the split, the numbers of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.errors import ShapeError
from netcl.optim import SGD


def test_shards_cover_the_batch_in_proportion_to_their_weights() -> None:
    assert dist.shard_sizes(10, 3) == [3, 4, 3]
    assert dist.shard_sizes(10, 2, [3, 1]) == [8, 2]
    assert sum(dist.shard_sizes(1, 4)) == 1
    x = np.arange(10)
    np.testing.assert_array_equal(np.concatenate(dist.shard_batch(x, 3, [1, 0, 2])), x)
    parts = dist.shard_batch(Tensor.from_host(np.arange(6.0)), 2)
    np.testing.assert_array_equal(parts[1].numpy(), [3, 4, 5])
    with pytest.raises(ValueError, match="expected 2 weights"):
        dist.shard_sizes(4, 2, [1.0])
    with pytest.raises(ShapeError, match="0-d"):
        dist.shard_batch(np.array(1.0), 2)


def _params(handle: DeviceHandle) -> list[Tensor]:
    rng = np.random.default_rng(3)
    shapes = ((8, 5), (8,), (3, 8), (3,))
    return [
        ag.Parameter(Tensor.from_host(handle.queue, rng.standard_normal(s).astype(np.float32) * 0.5, persistent=True))
        for s in shapes
    ]


def _forward(queue: Any, xb: Tensor, yb: Tensor, params: Any) -> tuple[Tensor, ag.Tape]:
    with ag.Tape() as tape:
        hidden = ag.relu(ag.linear(xb, params[0], params[1]))
        loss = ag.cross_entropy(ag.linear(hidden, params[2], params[3]), yb)
    return loss, tape


@pytest.mark.parametrize("weights", [None, "unequal"])
def test_a_sharded_step_equals_one_device(handles: list[DeviceHandle], weights: Any) -> None:
    rng = np.random.default_rng(5)
    shares = None if weights is None else [float(rank + 1) for rank in range(len(handles))]
    alone = _params(handles[0])
    single = SGD(alone, lr=0.1, momentum=0.9)
    replicas = dist.replicate_params(alone, [handle.queue for handle in handles])
    optimizers = [SGD(params, lr=0.1, momentum=0.9) for params in replicas]
    for _ in range(20):  # predicted from the tenth step on
        x, y = rng.standard_normal((13, 5)).astype(np.float32), rng.integers(0, 3, 13)
        single.zero_grad()
        loss, tape = _forward(None, Tensor.from_host(handles[0].queue, x), Tensor.from_host(handles[0].queue, y), alone)
        tape.backward(loss)
        single.step()
        mean = dist.data_parallel_step(_forward, replicas, optimizers, (x, y), weights=shares)
        assert mean.shape == ()
        np.testing.assert_allclose(mean.item(), loss.item(), rtol=1e-5)
    for params in replicas:
        for param, expected in zip(params, alone):
            np.testing.assert_allclose(param.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.level("prediction")
def test_a_loop_over_devices_takes_each_step_once(handles: list[DeviceHandle]) -> None:
    def trained() -> list[list[float]]:
        rng = np.random.default_rng(0)
        ones = np.ones((4, 3), np.float32)
        replicas = [ag.Parameter(Tensor.from_host(handle.queue, ones, persistent=True)) for handle in handles]
        optimizers = [SGD([parameter], lr=0.1, momentum=0.9) for parameter in replicas]
        losses = []
        for _ in range(24):  # predicted from the tenth step on
            factors = rng.standard_normal((4, 3)).astype(np.float32)
            for optimizer in optimizers:
                optimizer.zero_grad()
            sums = [ag.sum(ag.mul(p, Tensor.from_host(p.queue, factors))) for p in replicas]
            for total in sums:
                total.backward()
            for optimizer in optimizers:
                optimizer.step()
            losses.append([total.item() for total in sums])
        return losses

    with config.override(REPLAY="off"):
        expected = trained()
    assert trained() == expected


def test_sync_grads_is_the_weighted_mean_and_skips_what_nobody_has(handles: list[DeviceHandle]) -> None:
    replicas = dist.replicate_params(_params(handles[0]), [handle.queue for handle in handles])
    dist.sync_grads(replicas)
    assert all(param.grad is None for params in replicas for param in params)
    for rank, params in enumerate(replicas[:-1]):
        params[1].grad = Tensor.full((8,), rank + 1.0, queue=params[1].queue)
    dist.sync_grads(replicas, weights=[2.0] + [1.0] * (len(handles) - 1))
    total = 2.0 + len(handles) - 1
    expected = sum((rank + 1.0) * (2.0 if rank == 0 else 1.0) for rank in range(len(handles) - 1)) / total
    for params in replicas:
        grad = params[1].grad
        assert grad is not None
        assert params[0].grad is None
        np.testing.assert_allclose(grad.numpy(), np.full(8, expected), rtol=1e-6)


def test_prepare_replicas_keeps_the_parameters_on_their_own_device(handles: list[DeviceHandle]) -> None:
    params = _params(handles[0])
    replicas = dist.prepare_replicas(params, [handle.queue for handle in handles])
    assert replicas[0] is not None
    assert all(a is b for a, b in zip(replicas[0], params))
    assert all(a is not b for a, b in zip(replicas[1], params))
    params[0].write(np.ones((8, 5)))
    dist.broadcast_params(params, replicas)
    np.testing.assert_array_equal(replicas[-1][0].numpy(), np.ones((8, 5)))


def test_a_step_without_gradients_says_so(handles: list[DeviceHandle]) -> None:
    replicas = dist.replicate_params(_params(handles[0]), [handle.queue for handle in handles])
    optimizers = [SGD(params, lr=0.1) for params in replicas]

    def constant(queue: Any, xb: Tensor, yb: Tensor, params: Any) -> tuple[Tensor, Any]:
        with ag.Tape() as tape:
            loss = ag.sum(ag.tensor(xb, requires_grad=True))
        return loss, tape

    with pytest.raises(RuntimeError, match="no parameter got a gradient"):
        dist.data_parallel_step(constant, replicas, optimizers, (np.ones((4, 5), np.float32), np.zeros(4)))


def test_device_manager_lists_queues(handles: list[DeviceHandle]) -> None:
    devices = dist.DeviceManager([*handles, "cpu"])
    assert devices.num_devices == len(handles) + 1
    assert devices.get_queues()[: len(handles)] == [handle.queue for handle in handles]
