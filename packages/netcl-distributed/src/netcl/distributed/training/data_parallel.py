"""Data parallelism in one process: replicated parameters, sharded batches, synchronized gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.device import DeviceHandle, manager
from netcl.core.errors import ShapeError
from netcl.distributed.collectives import check_equal, combined

Batch = TypeVar("Batch", Tensor, np.ndarray[Any, Any])


class DeviceManager:
    """The devices that train in parallel: selectors, handles or queues; default: every OpenCL device, else NumPy."""

    def __init__(self, devices: Iterable[Any] | None = None) -> None:
        if devices is None:
            self._handles: list[DeviceHandle] = manager.select() or [manager.pick_default()]
        else:
            self._handles = [_handle(device) for device in devices]
        if not self._handles:
            raise ValueError("at least one device is needed")

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self._handles)

    @property
    def handles(self) -> list[DeviceHandle]:
        """The devices, in rank order."""
        return list(self._handles)

    def get_queues(self) -> list[Any]:
        """Returns the queue of each device, in rank order."""
        return [handle.queue for handle in self._handles]


def _handle(device: Any) -> DeviceHandle:
    if isinstance(device, DeviceHandle):
        return device
    if isinstance(device, (str, int)):
        handle = manager.default(device)
        if handle is None:
            raise manager.not_found(device)
        return handle
    return Tensor.empty((0,), queue=device).device


def shard_sizes(count: int, num_shards: int, weights: Sequence[float] | None = None) -> list[int]:
    """Returns the number of samples of each shard: nearly equal, or in proportion to ``weights``; the sizes sum to
    ``count``.
    """
    if num_shards < 1:
        raise ValueError(f"expected at least one shard, got {num_shards}")
    if weights is None:
        weights = [1.0] * num_shards
    if len(weights) != num_shards or any(w < 0 for w in weights) or not sum(weights) > 0:
        raise ValueError(f"expected {num_shards} weights of at least 0, not all zero, got {list(weights)}")
    # The boundaries are rounded, not the sizes: so the sizes sum to the count, and differ by at most one for equal
    # weights.
    bounds = np.rint(np.cumsum([0.0, *weights]) / sum(weights) * count).astype(int)
    return [int(high - low) for low, high in zip(bounds, bounds[1:])]


def shard_batch(x: Batch, num_shards: int, weights: Sequence[float] | None = None) -> list[Batch]:
    """Splits ``x`` (array or tensor) along axis 0 into ``num_shards`` parts, nearly equal or in proportion to
    ``weights``.
    """
    if not x.shape:
        raise ShapeError("shard_batch: a batch needs an axis 0, this one is 0-d")
    return split(x, shard_sizes(x.shape[0], num_shards, weights))


def split(x: Batch, sizes: Sequence[int]) -> list[Batch]:
    """Splits ``x`` along axis 0 into parts of these sizes."""
    bounds = [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    return [x[low:high] for low, high in zip(bounds, bounds[1:])]


def replicate_params(params: Iterable[Tensor], queues: Sequence[Any]) -> list[list[Tensor]]:
    """Copies every parameter to every queue: ``replicas[rank][i]``; requires_grad is kept."""
    sources = list(params)
    values = [param.to_host() for param in sources]
    return [
        [
            ag.Parameter(
                Tensor.from_host(queue, value, param.dtype, persistent=True), requires_grad=param.requires_grad
            )
            for param, value in zip(sources, values)
        ]
        for queue in queues
    ]


def prepare_replicas(params: Iterable[Tensor], queues: Sequence[Any]) -> list[list[Tensor]]:
    """Replicates as ``replicate_params``, but ``params`` themselves are the replica of the first queue that they are
    on.
    """
    sources = list(params)
    replicas = []
    own = False
    for queue in queues:
        if not own and sources and all(param.queue == queue for param in sources):
            replicas.append(sources)
            own = True
        else:
            replicas.extend(replicate_params(sources, [queue]))
    return replicas


def broadcast_params(src: Sequence[Tensor], groups: Sequence[Sequence[Tensor]], root: int = 0) -> None:
    """Writes ``src`` into every group of parameters, in place; the group ``root`` is skipped if it is ``src``
    itself.
    """
    values = [param.to_host() for param in src]
    for rank, group in enumerate(groups):
        if rank == root and all(a is b for a, b in zip(src, group)):
            continue
        if len(group) != len(values):
            raise ShapeError(f"broadcast_params: group {rank} has {len(group)} parameters, the source {len(values)}")
        for param, value in zip(group, values):
            param.write(value)


def _parameters(replica: Any) -> list[Tensor]:
    return list(replica.parameters()) if hasattr(replica, "parameters") else list(replica)


def sync_grads(replicas: Sequence[Any], weights: Sequence[float] | None = None) -> None:
    """Replaces the gradients of all replicas, in place, by their mean, weighted by ``weights`` (for example shard
    sizes).

    A replica is a Module or a list of parameters, in the same order everywhere. A gradient that is None everywhere is
    skipped; one that is None on some counts as zero there.
    """
    groups = [_parameters(replica) for replica in replicas]
    if len({len(group) for group in groups}) > 1:
        raise ShapeError(f"sync_grads: replicas have {', '.join(str(len(group)) for group in groups)} parameters")
    if weights is not None and len(weights) != len(groups):
        raise ValueError(f"sync_grads: {len(weights)} weights for {len(groups)} replicas")
    total = float(sum(weights)) if weights is not None else float(len(groups))
    shares = [w / total for w in (weights if weights is not None else [1.0] * len(groups))]
    for params in zip(*groups):
        param_grads = [param.grad for param in params]
        if all(grad is None for grad in param_grads) or len(params) == 1:
            continue
        for param in params:
            if param.grad is None:
                param.grad = Tensor.zeros(param.shape, param.dtype, queue=param.queue)
        grads = [param.grad for param in params if param.grad is not None]
        check_equal(grads, "sync_grads")
        mean = combined(grads, "sum", shares)
        for grad in grads:
            grad.write(mean)
