"""DataParallel: one model on several devices of this process and on the ranks of a group, used like a single model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.distributed.current import current_group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.training.buckets import Buckets, Span
from netcl.distributed.training.data_parallel import DeviceManager, shard_sizes, split
from netcl.distributed.training.parallel_call import ParallelCall, ParallelFunction
from netcl.distributed.training.replica_set import ReplicaSet
from netcl.distributed.training.wire import check_compression


class DataParallel:
    """Runs ``module`` on shards of the batch on several devices in parallel; its gradients are the whole batch's.

    ``devices``: selectors, handles or queues of this process; each call splits its tensors along axis 0, runs a replica
    of the module on each device, and joins the outputs on the module's own device. None: the module's device if there
    is a group, else every OpenCL device. ``group``: the ranks (None: the group of this thread or process, if any). Each
    rank calls the model with its own shard of the batch; ``shard`` splits a batch. The constructor copies parameters,
    buffers and the random state from rank 0.

    The loss must be a mean over the samples of the call, as netcl's losses are by default: the gradients of the ranks
    are weighted by their numbers of samples. They are reduced in buckets of ``bucket_mb`` MiB while the backward pass
    continues. ``weights``: the fractions of the batch for the devices, or for the ranks if each has one device; None:
    in proportion to the speed measured in the steps before (equal with NETCL_DETERMINISTIC).

    ``compression`` "float16" or "bfloat16" sends float32 gradients in that dtype, half of the bytes: each rank's addend
    is rounded, they are summed in float32, and the sum is rounded once. To first order the error of an element is
    at most u (sum of the addends' magnitudes + magnitude of the sum), with u = 2**-11 for float16, 2**-8 for bfloat16;
    several devices in each of several processes round once more. bfloat16 has the range of float32; float16 overflows
    above 65504 and rounds in steps of 2**-24 below 2**-14.

    All other attributes are the module's: ``parameters()``, ``state_dict()`` without a prefix, ``train()`` and so on.
    An output without axes, such as a loss, is joined as the mean over all samples. BatchNorm layers use the statistics
    of their shard, unless ``convert_sync_batchnorm`` changed them. A dropout mask depends on its sample, not on the
    split.
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
        check_compression(compression)
        if not bucket_mb > 0:
            raise ValueError(f"expected bucket_mb above 0, got {bucket_mb}")
        ranks = group or current_group()
        self.module: Any = module
        self.group: ProcessGroup | None = ranks if ranks is not None and ranks.size > 1 else None
        params: list[Tensor] = [param for param in module.parameters() if param.requires_grad]
        if not params:
            raise ValueError(f"{type(module).__name__} has no parameter that requires grad: there is nothing to train")
        handles = [params[0].device] if devices is None and ranks is not None else DeviceManager(devices).handles
        self._replica_set = ReplicaSet(
            module, params, handles, self.group, weights, int(bucket_mb * 2**20), compression
        )
        self._cuts = len(handles) > 1  # True if this model splits the batches itself, so that it may choose the sizes

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    def __repr__(self) -> str:
        where = ", ".join(replica.handle.device_name for replica in self._replica_set.replicas)
        return f"DataParallel({self.module!r} on {where}, group={self.group!r})"

    @property
    def weights(self) -> list[float]:
        """The current fractions of the batch for the devices, or for the ranks if each has one device."""
        return list(self._replica_set.balancer.weights)

    @property
    def balances(self) -> bool:
        """True if ``weights`` follow the speeds of the devices, which are measured in calls of the model."""
        return self._replica_set.balancer.measures

    @property
    def spans(self) -> list[Span]:
        """The time spans of the buckets of the last backward pass, and of the pass itself; seconds of perf_counter."""
        return [span for replica in self._replica_set.replicas for span in replica.spans]

    def no_sync(self) -> AbstractContextManager[None]:
        """Returns a block for gradient accumulation: gradients of calls inside it stay on their rank, and are sent, in
        sum with its own, by the first backward pass of a call outside of it.

        The call of the model must be in the block, too. Without a group of several ranks nothing changes. In the block,
        ``grad`` is this rank's, times its fraction of the samples; a gradient from before the block is on rank 0 alone
        until the next reduced pass.

            >>> from netcl import nn
            >>> from netcl.core import Tensor
            >>> model = DataParallel(nn.Linear(2, 1))
            >>> with model.no_sync():
            ...     model(Tensor.ones((4, 2))).mean().backward()
            >>> model(Tensor.ones((4, 2))).mean().backward()
        """
        return self._replica_set.local.no_sync()

    @property
    def capturable(self) -> bool:
        """True if a step with this model can be captured: on one device of this process, with gradients that do not
        pass over arrays of the host. Steps on several devices are captured by ``TrainStep``.
        """
        replicas = self._replica_set.replicas
        return len(replicas) == 1 and not isinstance(replicas[0].buckets, Buckets)

    def agree(self, count: int, repeats: bool) -> tuple[tuple[int, ...], bool]:
        """Returns the numbers of samples of all ranks (``count`` on this one), and True if ``repeats`` is True on all
        of them. All ranks call it before a step that some may replay: a captured step is for these numbers, and repeats
        no collective of Python, so that all ranks replay it or none.
        """
        if self.group is None:
            return (count,), repeats
        facts = np.asarray(self.group.all_gather(np.array([[count, int(repeats)]], np.int64)))
        return tuple(facts[:, 0].tolist()), bool(facts[:, 1].all())

    def shard(self, *arrays: Any) -> Any:
        """Returns this rank's part of each array or tensor of a batch that all ranks hold: by the weights of the ranks,
        or by their numbers of devices.
        """
        if self.group is None:
            return arrays if len(arrays) > 1 else next(iter(arrays))
        self._cuts = True
        parts = tuple(split(array, self._sizes(array))[self.group.rank] for array in arrays)
        return parts if len(parts) > 1 else next(iter(parts))

    def _sizes(self, array: Any) -> list[int]:
        """Returns the number of samples of a batch for each rank."""
        if not array.shape:
            raise ShapeError("shard: a batch needs an axis 0, this one is 0-d")
        replica_set, count = self._replica_set, array.shape[0]
        return (
            replica_set.balancer.sizes(count)
            if replica_set.one_device_per_rank
            else shard_sizes(count, len(replica_set.counts), replica_set.counts)
        )

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
            arguments = list(values)
            for at, part in zip(places, parts):
                arguments[at] = part
            return module(*arguments[: len(args)], **dict(zip(names, arguments[len(args) :])))

        run = ParallelCall(self._replica_set, call, tensors, self._cuts)
        if ag.is_grad_enabled():
            joined = ParallelFunction.apply(run, *tensors, *self._replica_set.params)
        else:
            joined = run.forward(False)
        return run.shaped(joined)
