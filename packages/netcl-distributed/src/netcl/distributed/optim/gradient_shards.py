"""GradientShards: each gradient is reduced to the rank that owns its parameter, while the backward pass continues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from netcl import ops
from netcl.core import Tensor
from netcl.distributed.captured import refuse_capture
from netcl.distributed.flat import flatten_tensors
from netcl.distributed.group import ProcessGroup
from netcl.distributed.training.no_sync import NoSync
from netcl.distributed.work import Work


class _Bucket(NamedTuple):
    owner: int
    places: tuple[int, ...]


class GradientShards(NoSync):
    """The means over the ranks of the gradients of ``params``; mean number i is stored on rank ``owners[i]`` alone.

    A bucket holds parameters of one owner, device and dtype, ``nbytes`` at most if there is more than one. It is
    reduced to its owner when all of its gradients are known and the bucket before it has been sent; ``grad`` of its
    parameters becomes None then. A parameter without a gradient counts as zero if another rank has one.
    """

    def __init__(self, params: Sequence[Tensor], owners: Sequence[int], group: ProcessGroup, nbytes: int) -> None:
        self._params, self._group = list(params), group
        self._buckets = _packed(self._params, owners, nbytes)
        self._bucket_of = {place: at for at, bucket in enumerate(self._buckets) for place in bucket.places}
        self._held: dict[int, Tensor] = {}  # the means on their owner, summed over backward passes
        self.reduced: bool = False  # True if ``grad`` of the owned parameters is complete, for the next step
        self._begin()
        self._hooks = [
            param.register_post_accumulate_grad_hook(partial(self._take, place))
            for place, param in enumerate(self._params)
        ]

    def remove(self) -> None:
        """Ends the reduction: later backward passes leave their gradients in ``grad``."""
        for hook in self._hooks:
            hook.remove()

    def _begin(self) -> None:
        self._given: set[int] = set()
        self._grads: dict[int, Tensor] = {}
        self._missing = [len(bucket.places) for bucket in self._buckets]
        self._sent: list[tuple[_Bucket, Tensor, Work]] = []

    def _take(self, place: int, param: Tensor) -> None:
        """Takes a gradient out of ``grad``; sends the buckets that are complete."""
        if not self.synchronizes or param.grad is None:
            return
        if self.reduced:
            raise RuntimeError(
                "a backward pass after reduce_gradients(): the gradients are complete; call step() or zero_grad() first"
            )
        if not self._given:
            refuse_capture(
                param, "sharded gradients are sent by Python code, which a replay does not run; step eagerly"
            )
        if place in self._given:  # a second pass: its gradients are added
            self._flush()
        self._given.add(place)
        self._grads[place], param.grad = param.grad, None
        self._missing[self._bucket_of[place]] -= 1
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._send()

    def _send(self) -> None:
        """Sends the next bucket."""
        bucket = self._buckets[len(self._sent)]
        parts = []
        for place in bucket.places:
            param, grad = self._params[place], self._grads.pop(place, None)
            parts.append(Tensor.zeros(param.shape, param.dtype, queue=param.queue) if grad is None else grad)
        flat = flatten_tensors(parts, self._params[bucket.places[0]])
        # Devices that exchange tensors themselves have no sum for one rank alone; the others drop theirs.
        work = (
            self._group.reduce(flat, bucket.owner, "mean", async_op=True)
            if self._group._exchange_for(flat, "mean") is None
            else self._group.all_reduce(flat, "mean", async_op=True)
        )
        self._sent.append((bucket, flat, work))

    def _flush(self) -> None:
        """Sends the remaining buckets, waits for all, and adds the means to the held ones."""
        while len(self._sent) < len(self._buckets):
            self._send()
        used = np.array([place in self._given for place in range(len(self._params))], np.int32)
        self._group.all_reduce(used, "max")
        for bucket, flat, work in self._sent:
            work.wait()
            start = 0
            for place in bucket.places if bucket.owner == self._group.rank else ():
                param = self._params[place]
                if used[place]:
                    mean = ops.reshape(flat[start : start + param.size], param.shape)
                    self._held[place] = ops.add(self._held[place], mean) if place in self._held else mean
                start += param.size
        self._begin()

    def finish(self) -> None:
        """Completes the reduction: afterwards the owner of a parameter has the mean in ``grad``, other ranks None."""
        if self.reduced:
            return
        self.synchronizes, outer = True, self.synchronizes
        for place, param in enumerate(self._params):  # gradients of passes inside ``no_sync`` alone
            self._take(place, param)
        self.synchronizes = outer
        self._flush()
        for place, param in enumerate(self._params):
            param.grad = self._held.pop(place, None)
        self.reduced = True

    def drop(self) -> None:
        """Drops all gradients, also of a pass without a step."""
        if self._given:
            self._flush()
        self._held = {}
        self.reduced = False


def _packed(params: Sequence[Tensor], owners: Sequence[int], nbytes: int) -> list[_Bucket]:
    """Returns the buckets in the order of a backward pass: by their first layer, last first."""
    groups: dict[tuple[int, int, str], list[list[int]]] = {}
    left: dict[tuple[int, int, str], int] = {}
    for place in range(len(params) - 1, -1, -1):
        param = params[place]
        key = (owners[place], id(param.queue), param.dtype)
        buckets = groups.setdefault(key, [])
        if not buckets or param.nbytes > left[key]:
            buckets.append([])
            left[key] = nbytes
        buckets[-1].append(place)
        left[key] -= param.nbytes
    packed = [_Bucket(key[0], tuple(places)) for key, buckets in groups.items() for places in buckets]
    return sorted(packed, key=lambda bucket: -bucket.places[-1])
