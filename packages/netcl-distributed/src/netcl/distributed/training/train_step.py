"""TrainStep: whole training steps on all devices of a DataParallel model, each captured and replayed on its device."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from netcl.amp import autocast
from netcl.autograd.compiler.compiled_function import CompiledFunction
from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.dtypes import canonical
from netcl.core.errors import ShapeError
from netcl.distributed.training.buckets import Buckets, Span
from netcl.distributed.training.load_balancing import alike
from netcl.distributed.training.masks import SampleMasks
from netcl.distributed.training.parallel import DataParallel
from netcl.distributed.training.replicas import Replica, buckets_of, tensors_of
from netcl.ops.random import skip, tell

_capturing = threading.RLock()  # the devices capture one after the other


class MeanLoss:
    """The mean loss of a step: a tensor for each device, joined when it is read.

    >>> MeanLoss([Tensor.from_host(np.float32(1.0)), Tensor.from_host(np.float32(4.0))], [2, 1]).item()
    2.0
    """

    def __init__(self, losses: Sequence[Tensor], sizes: Sequence[int]) -> None:
        self.losses: list[Tensor] = list(losses)
        self.sizes: list[int] = list(sizes)

    def item(self) -> float:
        """Returns the mean over the samples of this process; waits for the devices."""
        return float(sum(loss.item() * size for loss, size in zip(self.losses, self.sizes)) / sum(self.sizes))

    def __float__(self) -> float:
        return self.item()

    def __repr__(self) -> str:
        return f"MeanLoss({self.item()})"


class TrainStep:
    """``step(*inputs, target)``: forward pass, loss, backward pass, sums of gradients and the optimizer's step, on
    every device of ``model`` at once. It equals one step on one device with the whole batch, to rounding.

    Each device keeps its replica of the parameters and of the optimizer's state, and has a thread and queues of its
    own, so that only its part of the batch and the gradients pass between devices: outputs stay on their devices.
    ``model`` and ``optimizer`` are on the model's own device. After two steps with batches of one shape the step is
    captured and replayed without Python for each operation (``capture=False``: never; nor is a step that draws random
    numbers on several devices of one process). In a group each rank calls it with its own part of the batch.

    ``loss_fn(output, target)`` returns the mean over its samples. ``inputs`` and ``target`` are arrays of the host, or
    tensors. Returns a MeanLoss of this process's samples. ``grad_clip`` is the greatest norm of a step's gradients,
    ``autocast`` the dtype of mixed precision for the forward pass and the loss. Values of the
    optimizer's groups, such as lr, may change between steps, and so may the model's parameters and buffers; after a
    change of the optimizer's state call ``reload``. Devices of different kinds may round differently: there, replicas
    take the parameters of the model's own device after each step. Raises ShapeError if a device gets no sample.
    After an error in a step make another TrainStep: the devices have left each other.

    >>> from netcl import nn, optim
    >>> model = nn.Linear(4, 2)
    >>> parallel = DataParallel(model, devices=["cpu", "cpu"])
    >>> step = TrainStep(parallel, nn.functional.mse_loss, optim.SGD(model.parameters()))
    >>> float(step(np.ones((6, 4), np.float32), np.ones((6, 2), np.float32))) > 0
    True
    """

    def __init__(
        self,
        model: DataParallel,
        loss_fn: Callable[[Any, Any], Tensor],
        optimizer: Any,
        *,
        capture: bool = True,
        grad_clip: float | None = None,
        autocast: str | None = None,
    ) -> None:
        if not isinstance(model, DataParallel):
            raise TypeError(
                f"TrainStep: expected a DataParallel model, got {type(model).__name__}; wrap the module first"
            )
        self.model: DataParallel = model
        self.optimizer: Any = optimizer
        self._set = model._replica_set
        replicas = self._set.replicas
        if model.group is not None and (len(replicas) > 1 or not self._set.one_device_per_rank):
            raise ValueError(
                "TrainStep: each rank of a group has one device; start a process for each device "
                "(python -m netcl.distributed.run -n N --devices ...)"
            )
        if not any(replica.shares for replica in replicas):
            raise ValueError(
                "TrainStep: the module's own device must be one of the model's devices; move it there first"
            )
        self._alike = alike([replica.handle for replica in replicas])
        self._threads = self._set.threads()
        self._draws = False
        self.capture: bool = capture  # False: the next steps run operation by operation
        self._tensors = [tensor for _, tensor in tensors_of(model.module)]
        self._versions: list[int] = []
        work = _Work(loss_fn, optimizer, grad_clip, autocast)
        captures = capture and "capture" in LEVELS
        self._ranks: list[_Rank] = self._set.run_on_all(
            lambda at: _Rank(self.model, replicas[at], work, captures), self._threads
        )

    @property
    def replays(self) -> int:
        """The number of steps that were replayed from a capture."""
        return self._ranks[0].compiled.replays

    def __call__(self, *batch: Any) -> MeanLoss:
        """Takes a step; the last of ``batch`` is the target."""
        sizes, keys = self._parts(batch)
        count = sum(sizes)
        starts = [sum(sizes[:at]) for at in range(len(sizes))]
        self._follow()
        # Devices of different kinds take the parameters that the first one has computed; parameters that the caller has
        # written pass to all devices.
        unchanged = self._alike and self._versions == [tensor.version for tensor in self._tensors]
        changed: list[Any] = [()] * len(sizes) if unchanged else self._set.changed()
        before, total, replays = self._agreed(count, self._repeats(keys))
        offset = tell()

        def run(at: int) -> Tensor:
            for ours, values in changed[at]:
                ours.write(values)
            fields = [_on_device(part, starts[at], sizes[at], count, self._ranks[at].queue) for part in batch]
            shard = _Shard(before + starts[at], sizes[at], total, offset)
            loss: Tensor = self._ranks[at].step(keys[at], fields, shard, replays)
            return loss

        losses = self._set.run_on_all(run, self._threads)
        self._versions = [tensor.version for tensor in self._tensors]
        if len(self._ranks) > 1:
            drawn = max(rank.drawn for rank in self._ranks)
            # The generator is one for all devices: their captures and replays would each advance it.
            self._draws = self._draws or drawn > 0 or tell() != offset
            skip(drawn)
        return MeanLoss(losses, sizes)

    def captures(self, *batch: Any) -> bool:
        """Returns True if the next step would be captured if it is on a batch of these shapes and dtypes."""
        _, keys = self._parts(batch)
        return self._repeats(keys) and not self._ranks[0].compiled.has_captured(keys[0])

    def _repeats(self, keys: Sequence[Hashable]) -> bool:
        return (
            self.capture and not self._draws and all(rank.compiled.repeats(key) for rank, key in zip(self._ranks, keys))
        )

    def _parts(self, batch: Sequence[Any]) -> tuple[list[int], list[Hashable]]:
        """Returns the number of samples of each device, and the description of its part of the batch."""
        if len(batch) < 2:
            raise TypeError("TrainStep: a step takes inputs and a target")
        counts = {array.shape[0] if array.shape else -1 for array in batch}
        if len(counts) != 1 or -1 in counts:
            raise ShapeError(f"TrainStep: inputs and target need one length on axis 0: {[a.shape for a in batch]}")
        (count,) = counts
        sizes = self._set.balancer.sizes(count) if len(self._ranks) > 1 else [count]
        if not all(sizes):
            raise ShapeError(
                f"TrainStep: {count} samples are too few for {len(sizes)} devices, which would get {sizes}"
            )
        fields = tuple((part.shape[1:], canonical(part.dtype)) for part in batch)
        return sizes, [(*fields, size) for size in sizes]

    def reload(self) -> None:
        """Gives all devices the state of the optimizer, as after its ``load_state_dict``."""
        state = None
        for rank in self._ranks:
            if rank.optimizer is not self.optimizer:
                state = self.optimizer.state_dict() if state is None else state
                rank.optimizer.load_state_dict(state)

    def close(self) -> None:
        """Ends the threads of the devices."""
        for thread in self._threads:
            thread.shutdown()

    def _follow(self) -> None:
        """Gives the copies of the optimizer the values of its groups."""
        for rank in self._ranks:
            if rank.optimizer is not self.optimizer:
                for ours, theirs in zip(rank.optimizer.param_groups, self.optimizer.param_groups):
                    new = {name: value for name, value in theirs.items() if name != "params" and ours[name] != value}
                    if new:  # each update is written to the device
                        ours.update(new)

    def _agreed(self, count: int, replays: bool) -> tuple[int, int, bool]:
        """Returns the numbers of samples of the ranks before this one and of all, and True if all of them replay this
        step: in a replay no rank makes the collectives of Python that others would wait for.
        """
        counts, agreed = self.model.agree(count, replays)
        rank = 0 if self.model.group is None else self.model.group.rank
        self._ranks[0].expects(counts)
        return sum(counts[:rank]), sum(counts), agreed


class _Work(NamedTuple):
    """The arguments of a TrainStep that say what a step computes."""

    loss_fn: Callable[[Any, Any], Tensor]
    optimizer: Any
    grad_clip: float | None
    autocast: str | None


class _Shard(NamedTuple):
    """The samples ``start`` to ``start + size`` of the ``total`` of a step; ``offset``: where its masks begin."""

    start: int
    size: int
    total: int
    offset: int


class _Rank:
    """The step of one device; ``drawn`` counts the numbers that masks of the last eager step took of the generator."""

    def __init__(self, model: DataParallel, replica: Replica, work: _Work, captures: bool) -> None:
        self.module, self._work = replica.module, work
        self.queue: Any = replica.handle.queue
        self._replica = replica
        own = [param for param in model.module.parameters() if param.requires_grad]
        # The module's own device updates the parameters given; the replica there shares their storage.
        self.params: list[Tensor] = own if replica.shares else replica.params
        memo = {id(theirs): ours for theirs, ours in zip(own, replica.params)}
        self.optimizer: Any = work.optimizer if replica.shares else copy.deepcopy(work.optimizer, memo)
        self.buckets: Any = replica.buckets
        if model.group is None and len(model._replica_set.replicas) > 1:
            exchange = replica.member.exchange(replica.handle, always=True)
            nbytes = model._replica_set.bucket_bytes
            self.buckets = replica.buckets = buckets_of(replica.params, exchange, None, replica.member, nbytes)
        captures = captures and not isinstance(self.buckets, Buckets)
        self.compiled: CompiledFunction = CompiledFunction(self._compute, capturing=self._capturing, enabled=captures)
        self._alone = len(model._replica_set.replicas) == 1
        self._shard = _Shard(0, 1, 1, 0)
        self._counts: Hashable = ()
        self.drawn: int = 0

    def expects(self, counts: Hashable) -> None:
        """Takes the numbers of samples of all ranks: a captured step is for one of these."""
        self._counts = counts

    def step(self, key: Hashable, fields: Sequence[Tensor], shard: _Shard, replays: bool) -> Tensor:
        """Takes a step on the samples ``fields``, which are ``shard`` of all samples of the step."""
        self._replica.follow()
        self._shard = shard
        loss: Tensor = self.compiled.call(key, tuple(fields), self._counts, replays)
        return loss

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        """Makes the devices capture one after the other, so that they cannot agree on anything meanwhile."""
        with _capturing:
            if self.buckets is not None:
                self.buckets.use_is_known = True
            try:
                yield
            finally:
                if self.buckets is not None:
                    self.buckets.use_is_known = False

    def _compute(self, *fields: Tensor) -> Tensor:
        *inputs, target = fields
        for param in self._replica.params:
            param.grad = None
        self.optimizer.zero_grad()
        self._replica.begin(True, {})
        shard = self._shard
        work = self._work
        half: AbstractContextManager[Any] = nullcontext() if work.autocast is None else autocast(dtype=work.autocast)
        with SampleMasks(shard.start, shard.size, shard.total, tell() if self._alone else shard.offset) as masks, half:
            loss: Tensor = work.loss_fn(self.module(*inputs), target)
        self.drawn = masks.drawn
        if self._alone:
            skip(masks.drawn)
        begun = time.perf_counter()
        (loss if shard.size == shard.total else loss * (shard.size / shard.total)).backward()
        sums = self._replica.finish(Span("backward", begun, time.perf_counter()))
        for param, total in zip(self.params, self._replica.totals(sums, self.params)):
            param.grad = total
        if work.grad_clip is not None:
            self.optimizer.clip_grad_norm(work.grad_clip)  # in the pass that updates
        self.optimizer.step()
        return loss.detach()


def _on_device(part: Any, start: int, size: int, count: int, queue: Any) -> Tensor:
    """Returns samples ``start`` to ``start + size`` of an array or tensor of ``count`` on a device."""
    mine = part if size == count else part[start : start + size]
    return mine.to(queue) if isinstance(mine, Tensor) else Tensor.from_host(queue, np.ascontiguousarray(mine))
