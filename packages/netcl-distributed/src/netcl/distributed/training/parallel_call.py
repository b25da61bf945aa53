"""One call of a DataParallel model: forward on all devices in parallel, and later the backward pass of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import netcl.autograd as ag
from netcl import ops
from netcl.autograd.backward import backward
from netcl.autograd.function import Context
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.distributed.reductions import Array
from netcl.distributed.training.buckets import Span
from netcl.distributed.training.data_parallel import split
from netcl.distributed.training.masks import SampleMasks
from netcl.distributed.training.pytree import flatten, unflatten
from netcl.distributed.training.replica_set import ReplicaSet
from netcl.distributed.training.replicas import Replica
from netcl.ops.random import skip, tell


class _Shard(NamedTuple):
    """The recorded outputs of a device, and the inputs with requested gradients."""

    outputs: list[Tensor]
    inputs: list[Tensor]


class ParallelCall:
    """``call(module, parts)`` on all replicas of ``replica_set``, with parts split from ``tensors``; ``measures``: the
    measured times change the weights of the devices.
    """

    def __init__(
        self,
        replica_set: ReplicaSet,
        call: Callable[[Any, Sequence[Tensor]], Any],
        tensors: list[Tensor],
        measures: bool,
    ) -> None:
        self._replica_set, self._call, self._tensors = replica_set, call, tensors
        self._replicas = replica_set.replicas
        self._structure: Any = None
        self._count = tensors[0].shape[0]
        self._sizes = replica_set.balancer.sizes(self._count) if len(self._replicas) > 1 else [self._count]
        self._measures = measures and replica_set.balancer.measures
        self._seconds = [0.0] * len(self._replicas)
        self._start, self._counts = 0, [self._count]
        self._syncs = replica_set.local.synchronizes
        # Without gradients the ranks need not agree: a rank may evaluate alone.
        if replica_set.group is not None and ag.is_grad_enabled():
            self._counts = [int(count) for count in replica_set.group.all_gather(np.array([self._count], np.int64))]
            self._start = sum(self._counts[: replica_set.group.rank])
        self._total = sum(self._counts)
        if not all(self._counts):
            raise ShapeError(
                f"DataParallel needs a sample on every rank, there are {self._counts}; leave out the last, incomplete "
                "batch (drop_last=True)"
            )
        if replica_set.synchronizes and replica_set.module.training and not all(self._sizes):
            raise ShapeError(
                f"SyncBatchNorm needs a sample on every device, there are {self._sizes}; leave out the last, "
                "incomplete batch (drop_last=True)"
            )

    # -- forward -------------------------------------------------------------------------------------------------------

    def forward(self, records: bool) -> tuple[Tensor, ...]:
        """Returns the outputs of all samples, joined on the module's device."""
        parts = [split(t, self._sizes) for t in self._tensors]
        # Copies from the module's device are enqueued before that device computes; otherwise they would wait behind its
        # kernels.
        inputs = [
            [_placed(part[at], whole, replica, records) for part, whole in zip(parts, self._tensors)]
            for at, replica in enumerate(self._replicas)
        ]
        changed = self._replica_set.changed()
        offset = tell()
        drawn = [0] * len(self._replicas)

        def run(at: int) -> _Shard | None:
            replica = self._replicas[at]
            if not self._sizes[at]:
                return None
            begun = time.perf_counter()
            for ours, values in changed[at]:
                ours.write(values)
            start = self._start + sum(self._sizes[:at])
            with ag.set_grad_enabled(records), SampleMasks(start, self._sizes[at], self._total, offset) as masks:
                result = self._call(replica.module, inputs[at])
            drawn[at] = masks.drawn
            outputs: list[Tensor] = []
            self._structure = flatten(result, outputs)
            if self._measures:
                replica.handle.queue.finish()
                self._seconds[at] += time.perf_counter() - begun
            return _Shard(outputs, inputs[at])

        self._shards = self._replica_set.run_on_all(run)
        skip(max(drawn))
        if self._replica_set.module.training and not any(replica.shares for replica in self._replicas):
            self._replicas[0].write_buffers_back()
        shards = [shard for shard in self._shards if shard is not None]
        queue = self._replica_set.params[0].queue
        sizes = [size for size in self._sizes if size]
        return tuple(
            _joined([shard.outputs[at] for shard in shards], sizes, queue) for at in range(len(shards[0].outputs))
        )

    def shaped(self, joined: Any) -> Any:
        """Returns the outputs in the structure that the module returned."""
        outputs = iter(joined if isinstance(joined, tuple) else (joined,))
        return unflatten(self._structure, outputs)

    # -- backward ------------------------------------------------------------------------------------------------------

    def backward(self, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        """Returns the gradients of the inputs, and of the parameters, summed over all devices and ranks."""
        if not self._shards:
            raise RuntimeError("DataParallel: backward a second time through one call; call the model again")
        roots_and_parts = [self._given(at, grads) for at in range(len(self._replicas))]
        carried = self._replica_set.local.take() if self._syncs else {}
        if not self._syncs:
            self._replica_set.local.begin()

        def run(at: int) -> Sequence[Array | Tensor | None] | None:
            replica, (roots, parts) = self._replicas[at], roots_and_parts[at]
            begun = time.perf_counter()
            replica.begin(self._syncs, {} if at else carried)
            for param in replica.params:
                param.grad = None
            if roots:
                backward(tuple(roots), tuple(parts), retain=False, create_graph=False)
            ended = time.perf_counter()
            if self._measures:
                replica.handle.queue.finish()
                self._seconds[at] += time.perf_counter() - begun
            return replica.finish(Span("backward", begun, ended))

        sums = self._replica_set.run_on_all(run)[0]
        inputs = self._input_grads()
        totals = self._replicas[0].totals(sums, self._replica_set.params)
        for replica in self._replicas:
            for param in replica.params:
                param.grad = None
        self._shards = []
        self._measured()
        return (*inputs, *totals)

    def _given(self, at: int, grads: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the outputs of a replica that have gradients, and its parts of those gradients, on its device,
        weighted by its fraction of all samples.
        """
        roots: list[Tensor] = []
        parts: list[Tensor] = []
        replica, shard = self._replicas[at], self._shards[at]
        start, count = sum(self._sizes[:at]), self._sizes[at]
        for output, grad in zip(shard.outputs if shard is not None else (), grads):
            if grad is None or not output.requires_grad:
                continue
            part = grad[start : start + count] if grad.shape and count != self._count else grad
            part = part.to(replica.handle.queue) if len(self._replicas) > 1 else part
            factor = (self._count if grad.shape else count) / self._total
            with device(replica.handle):
                parts.append(part if factor == 1.0 else ops.mul(part, factor))
            roots.append(output)
        return roots, parts

    def _input_grads(self) -> list[Tensor | None]:
        joined: list[Tensor | None] = []
        for at, whole in enumerate(self._tensors):
            if not whole.requires_grad:
                joined.append(None)
                continue
            inputs = [shard.inputs[at] for shard in self._shards if shard is not None]
            grads = [Tensor.zeros(x.shape, whole.dtype) if x.grad is None else x.grad for x in inputs]
            joined.append(_joined(grads, [size for size in self._sizes if size], whole.queue))
        return joined

    def _measured(self) -> None:
        if not self._measures:
            return
        replica_set = self._replica_set
        if replica_set.group is not None and replica_set.one_device_per_rank:
            seconds = replica_set.group.all_gather(np.array(self._seconds))
            replica_set.balancer.measured(self._counts, [float(spent) for spent in seconds])
        else:
            replica_set.balancer.measured(self._sizes, self._seconds)


class ParallelFunction(ag.Function):
    """A call as one recorded op: from inputs and parameters to the joined outputs."""

    @staticmethod
    def forward(ctx: Context, run: ParallelCall, *tensors: Tensor) -> Any:
        ctx.run = run  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)  # a result that is not used gives no gradient to its parameters
        return run.forward(True)

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        return (None, *ctx.run.backward(grads))  # type: ignore[attr-defined]


def _placed(part: Tensor, whole: Tensor, replica: Replica, records: bool) -> Tensor:
    """Returns a shard on its device, as a leaf if its gradient is requested."""
    here = part.detach() if part.queue is replica.handle.queue else part.to(replica.handle.queue).detach()
    return ag.tensor(here, requires_grad=records and whole.requires_grad)


def _joined(parts: list[Tensor], sizes: Sequence[int], queue: Any) -> Tensor:
    """Joins parts on several devices to one tensor on ``queue``: concatenated, or, without axes, their mean."""
    if len(parts) == 1:
        return parts[0].detach() if parts[0].queue is queue else parts[0].to(queue)
    transfers = [part.to_host_async() for part in parts]
    arrays = [transfer.wait() for transfer in transfers]
    if parts[0].shape:
        joined = np.concatenate(arrays)
    else:
        joined = np.asarray(sum(array * size for array, size in zip(arrays, sizes)) / sum(sizes))
    made: Tensor = Tensor.from_host(queue, joined, parts[0].dtype)
    return made
