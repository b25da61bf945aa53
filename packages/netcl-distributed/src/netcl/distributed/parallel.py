"""DataParallel: one model on several devices of this process, and on the ranks of a group, called as if it were one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import netcl.autograd as ag
from netcl import ops
from netcl.autograd.backward import backward
from netcl.autograd.function import Context
from netcl.core import Tensor, dispatch
from netcl.core.device import device
from netcl.core.errors import ShapeError, UnsupportedError
from netcl.distributed.buckets import Buckets, Span
from netcl.distributed.data_parallel import DeviceManager, shard_batch, shard_sizes
from netcl.distributed.folding import Array
from netcl.distributed.group import ProcessGroup
from netcl.distributed.local import local_groups
from netcl.distributed.masks import SampleMasks, advance
from netcl.distributed.replicas import Replica, tensors_of
from netcl.distributed.shares import Shares
from netcl.distributed.sync_batchnorm import SyncBatchNorm
from netcl.distributed.world import active_group, current_group
from netcl.ops.random import get_rng_state, set_rng_state, tell

__all__ = ["DataParallel"]


class DataParallel:
    """``module``, run on shards of the batch by several devices at the same time; its gradients are those of the whole
    batch.

    ``devices``: selectors, handles or queues of this process; each call cuts its tensors along axis 0, runs a replica
    of the module on each device, and joins the outputs on the module's own device. None: the module's device where
    there is a group, else every OpenCL device. ``group``: the ranks (None: the group of this thread or process, if
    any), each of which calls the model with its own shard of the batch; ``shard`` cuts one. Parameters, buffers and the
    random state become those of rank 0 when this is made.

    The loss has to be a mean over the samples that the call was given, as netcl's losses are by default: the gradients
    of the ranks are weighted by their numbers of samples. They travel in buckets of ``bucket_mb`` MiB while the
    backward pass goes on. ``compression="float16"`` sends them as half numbers. ``weights``: the shares of the devices,
    or of the ranks where each has one; None: as fast as each was measured to be in the steps before (equal with
    NETCL_DETERMINISTIC).

    All other attributes are the module's: ``parameters()``, ``state_dict()`` without a prefix, ``train()`` and so on.
    An output without axes, such as a loss, is joined as the mean over all samples. BatchNorm layers take the statistics
    of their shard, unless ``convert_sync_batchnorm`` changed them. A dropout mask is that of its sample anywhere.
    """

    def __init__(
        self,
        module: Any,
        devices: Iterable[Any] | None = None,
        bucket_mb: float = 16,
        group: ProcessGroup | None = None,
        *,
        weights: Sequence[float] | None = None,
        compression: str | None = None,
    ) -> None:
        if compression not in (None, "float16"):
            raise ValueError(f"compression is None or 'float16', not {compression!r}")
        if not bucket_mb > 0:
            raise ValueError(f"bucket_mb is above 0, not {bucket_mb}")
        ranks = group or current_group()
        self.module, self.group = module, ranks if ranks is not None and ranks.size > 1 else None
        self._params: list[Tensor] = [param for param in module.parameters() if param.requires_grad]
        if not self._params:
            raise ValueError(f"{type(module).__name__} has no parameter that requires grad: there is nothing to train")
        own = self._params[0].device
        handles = [own] if devices is None and ranks is not None else DeviceManager(devices).handles
        if self.group is not None:
            _equalize(module, self.group)
        if len(handles) > 1 and self.group is not None and _synchronizes(module):
            raise UnsupportedError(
                "SyncBatchNorm works over devices or over ranks, not over both: give devices= one device"
            )
        many = self.group.size if self.group is not None and len(handles) == 1 else len(handles)
        self.shares = Shares(many, weights)
        self._bucket_bytes, self._compression = int(bucket_mb * 2**20), compression
        # The first replica on the module's device shares its tensors.
        queues = [handle.queue for handle in handles]
        home = queues.index(self._params[0].queue) if self._params[0].queue in queues else -1
        self._replicas = [Replica(module, handle, at == home) for at, handle in enumerate(handles)]
        self._cuts = False
        self._connect()

    def _connect(self) -> None:
        """Makes the group of the devices, anew after one of them failed, and the buckets."""
        members = local_groups(len(self._replicas))
        for replica, member in zip(self._replicas, members):
            replica.member = member
            local = member if member.size > 1 else None
            if local is not None or self.group is not None:
                args = (local, self.group, self._bucket_bytes, self._compression)
                replica.buckets = Buckets(replica.params, *args)

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    def __repr__(self) -> str:
        where = ", ".join(replica.handle.device_name for replica in self._replicas)
        return f"DataParallel({self.module!r} on {where}, group={self.group!r})"

    @property
    def weights(self) -> list[float]:
        """The present shares of the devices, or of the ranks where each has one."""
        return list(self.shares.weights)

    @property
    def spans(self) -> list[Span]:
        """When the buckets of the last backward pass were under way, and the pass itself; seconds of perf_counter."""
        return [span for replica in self._replicas for span in replica.spans]

    def shard(self, *arrays: Any) -> Any:
        """This rank's part of each array or tensor of a batch that all ranks hold, by the shares of the ranks."""
        if self.group is None:
            return arrays if len(arrays) > 1 else next(iter(arrays))
        self._cuts = True
        weights = self.shares.weights if len(self._replicas) == 1 else None
        parts = tuple(shard_batch(array, self.group.size, weights)[self.group.rank] for array in arrays)
        return parts if len(parts) > 1 else next(iter(parts))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = list(kwargs)
        values = [*args, *kwargs.values()]
        places = [at for at, value in enumerate(values) if isinstance(value, Tensor)]
        tensors = [values[at] for at in places]
        if not tensors or any(not t.shape or t.shape[0] != tensors[0].shape[0] for t in tensors):
            shapes = ", ".join(str(t.shape) for t in tensors)
            raise ShapeError(
                f"DataParallel takes tensors of one length on axis 0, the samples; given were {shapes or 'none'}"
            )

        def call(module: Any, parts: Sequence[Tensor]) -> Any:
            given = list(values)
            for at, part in zip(places, parts):
                given[at] = part
            return module(*given[: len(args)], **dict(zip(names, given[len(args) :])))

        run = _Run(self, call, tensors)
        if ag.is_grad_enabled():
            joined = _Parallel.apply(run, *tensors, *self._params)
        else:
            joined = run.forward(False)
        return run.shaped(joined)


class _Shard(NamedTuple):
    """What a device computed: its outputs, recorded, and the inputs whose gradients are asked for."""

    outputs: list[Tensor]
    inputs: list[Tensor]


class _Run:
    """One call: forward on all devices, and later its backward."""

    def __init__(
        self, parallel: DataParallel, call: Callable[[Any, Sequence[Tensor]], Any], tensors: list[Tensor]
    ) -> None:
        self._parallel, self._call, self._tensors = parallel, call, tensors
        self._replicas = parallel._replicas
        self._structure: Any = None
        self._count = tensors[0].shape[0]
        local = len(self._replicas) > 1
        self._sizes = shard_sizes(self._count, len(self._replicas), parallel.shares.weights if local else None)
        self._measures = parallel.shares.measures and (local or parallel._cuts)
        self._seconds = [0.0] * len(self._replicas)
        self._start, self._total = 0, self._count
        # Without a graph there is nothing to agree on: a rank may evaluate alone.
        if parallel.group is not None and ag.is_grad_enabled():
            counts = parallel.group.all_gather(np.array([self._count], np.int64))
            self._start, self._total = int(counts[: parallel.group.rank].sum()), int(counts.sum())
            self._counts = [int(count) for count in counts]

    # -- forward -------------------------------------------------------------------------------------------------------

    def forward(self, records: bool) -> tuple[Tensor, ...]:
        """The outputs of all samples, joined on the module's device."""
        parts = [shard_batch(t, len(self._replicas), self._sizes) for t in self._tensors]
        offset = tell()
        drawn = [0] * len(self._replicas)

        def run(at: int) -> _Shard | None:
            replica = self._replicas[at]
            if not self._sizes[at]:
                return None
            begun = time.perf_counter()
            replica.refresh()
            inputs = [_placed(part[at], whole, replica, records) for part, whole in zip(parts, self._tensors)]
            start = self._start + sum(self._sizes[:at])
            with ag.set_grad_enabled(records), SampleMasks(start, self._sizes[at], self._total, offset) as masks:
                result = self._call(replica.module, inputs)
            drawn[at] = masks.drawn
            outputs: list[Tensor] = []
            self._structure = _flattened(result, outputs)
            if self._measures:
                replica.handle.queue.finish()
                self._seconds[at] += time.perf_counter() - begun
            return _Shard(outputs, inputs)

        self._shards = self._each(run)
        advance(max(drawn))
        if self._parallel.module.training and not any(replica.shares for replica in self._replicas):
            self._replicas[0].give_back()
        shards = [shard for shard in self._shards if shard is not None]
        queue = self._parallel._params[0].queue
        sizes = [size for size in self._sizes if size]
        return tuple(
            _joined([shard.outputs[at] for shard in shards], sizes, queue) for at in range(len(shards[0].outputs))
        )

    def shaped(self, joined: Any) -> Any:
        """The outputs in the form that the module gave them in."""
        outputs = iter(joined if isinstance(joined, tuple) else (joined,))
        return _rebuilt(self._structure, outputs)

    def _each(self, work: Callable[[int], Any]) -> list[Any]:
        """``work`` for all devices, each in a thread of its own; here where there is but one."""
        if len(self._replicas) == 1:
            replica = self._replicas[0]
            with device(replica.handle), active_group(self._parallel.group or replica.member):
                return [work(0)]
        snapshot = dispatch.snapshot()
        errors: list[BaseException] = []

        def run(at: int) -> Any:
            replica = self._replicas[at]
            try:
                with snapshot.active(), device(replica.handle), active_group(replica.member):
                    return work(at)
            except BaseException as error:  # noqa: BLE001 - raised again once all threads have ended
                errors.append(error)
                replica.member.fail(error)
                return None

        with ThreadPoolExecutor(len(self._replicas), thread_name_prefix="netcl-device") as pool:
            results = list(pool.map(run, range(len(self._replicas))))
        if errors:
            self._parallel._connect()
            raise errors[0]
        return results

    # -- backward ------------------------------------------------------------------------------------------------------

    def backward(self, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs, and of the parameters, summed over all devices and ranks."""
        if not self._shards:
            raise RuntimeError("DataParallel: backward a second time through one call; call the model again")
        share = self._count / self._total
        bounds = np.cumsum([0, *self._sizes])

        def run(at: int) -> list[Array | None] | None:
            replica, shard = self._replicas[at], self._shards[at]
            begun = time.perf_counter()
            if replica.buckets is not None:
                replica.buckets.begin()
            for param in replica.params:
                param.grad = None
            if shard is not None:
                roots, given = [], []
                for output, grad in zip(shard.outputs, grads):
                    if grad is None or not output.requires_grad:
                        continue
                    part = grad[int(bounds[at]) : int(bounds[at + 1])] if grad.shape else grad
                    factor = share if grad.shape else share * self._sizes[at] / self._count
                    part = part.to(replica.handle.queue) if len(self._replicas) > 1 else part
                    roots.append(output)
                    given.append(part if factor == 1.0 else ops.mul(part, factor))
                if roots:
                    backward(tuple(roots), tuple(given), retain=False, create_graph=False)
            ended = time.perf_counter()
            if self._measures:
                replica.handle.queue.finish()
                self._seconds[at] += time.perf_counter() - begun
            if replica.buckets is None:
                return None
            sums = replica.buckets.finish()
            replica.spans = [*replica.buckets.spans, Span("backward", begun, ended)]
            return sums

        sums = self._each(run)[0]
        inputs = self._input_grads()
        if sums is None:
            found: list[Tensor | None] = [param.grad for param in self._replicas[0].params]
        else:
            params = self._parallel._params
            found = [
                None if total is None else Tensor.from_host(param.queue, total, param.dtype)
                for param, total in zip(params, sums)
            ]
        for replica in self._replicas:
            for param in replica.params:
                param.grad = None
        self._shards = []
        self._measured()
        return (*inputs, *found)

    def _input_grads(self) -> list[Tensor | None]:
        found: list[Tensor | None] = []
        for at, whole in enumerate(self._tensors):
            if not whole.requires_grad:
                found.append(None)
                continue
            parts = [shard.inputs[at].grad for shard in self._shards if shard is not None]
            zeros = [Tensor.zeros(shard.inputs[at].shape, whole.dtype) for shard in self._shards if shard is not None]
            given = [zero if part is None else part for part, zero in zip(parts, zeros)]
            found.append(_joined(given, [size for size in self._sizes if size], whole.queue))
        return found

    def _measured(self) -> None:
        if not self._measures:
            return
        group = self._parallel.group
        if group is None:
            self._parallel.shares.measured(self._sizes, self._seconds)
        elif len(self._replicas) == 1:
            seconds = group.all_gather(np.array(self._seconds))
            self._parallel.shares.measured(self._counts, [float(spent) for spent in seconds])


class _Parallel(ag.Function):
    """A call as one recorded op: from inputs and parameters to the joined outputs."""

    @staticmethod
    def forward(ctx: Context, run: _Run, *tensors: Tensor) -> Any:
        ctx.run = run  # type: ignore[attr-defined]
        return run.forward(True)

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        return (None, *ctx.run.backward(grads))  # type: ignore[attr-defined]


def _placed(part: Tensor, whole: Tensor, replica: Replica, records: bool) -> Tensor:
    """A shard on its device, a leaf where its gradient is asked for."""
    here = part.detach() if part.queue is replica.handle.queue else part.to(replica.handle.queue).detach()
    return ag.tensor(here, requires_grad=records and whole.requires_grad)


def _joined(parts: list[Tensor], sizes: Sequence[int], queue: Any) -> Tensor:
    """Parts on several devices as one tensor on ``queue``: one after the other, or, without axes, their mean."""
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


def _flattened(value: Any, found: list[Tensor]) -> Any:
    """The form of nested lists, tuples and dicts, whose tensors go to ``found``."""
    if isinstance(value, Tensor):
        found.append(value)
        return _Place()
    if isinstance(value, dict):
        return {key: _flattened(item, found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_flattened(item, found) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class _Place:
    """Where a tensor was."""


def _rebuilt(form: Any, tensors: Any) -> Any:
    if isinstance(form, _Place):
        return next(tensors)
    if isinstance(form, dict):
        return {key: _rebuilt(item, tensors) for key, item in form.items()}
    if isinstance(form, (list, tuple)):
        items = [_rebuilt(item, tensors) for item in form]
        return type(form)(*items) if hasattr(form, "_fields") else type(form)(items)
    return form


def _synchronizes(module: Any) -> bool:
    return any(isinstance(getattr(layer, "normalize", None), SyncBatchNorm) for layer in module.modules())


def _equalize(module: Any, group: ProcessGroup) -> None:
    """Gives all ranks the values and the random state of rank 0."""
    for _, tensor in tensors_of(module):
        group.broadcast(tensor)
    state = get_rng_state()
    numbers = np.array([state["seed"], state["offset"]], np.uint64)
    group.broadcast(numbers)
    set_rng_state({"seed": int(numbers[0]), "offset": int(numbers[1])})
