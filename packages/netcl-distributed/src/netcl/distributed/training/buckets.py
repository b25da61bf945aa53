"""Gradient buckets: gradients are reduced in buckets, the last layers' first, while the backward pass continues."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.distributed.group import ProcessGroup
from netcl.distributed.reductions import Array
from netcl.distributed.training.bucket_memory import BucketMemory
from netcl.distributed.training.wire import compress, decompress
from netcl.distributed.work import Work

if TYPE_CHECKING or "staging" in LEVELS:
    from netcl.distributed.staging.locked_memory import locked_memory


class Span(NamedTuple):
    """The start and end of something, in seconds of ``time.perf_counter``."""

    name: str
    begun: float
    ended: float


def packed(params: Sequence[Tensor], nbytes: int) -> list[list[int]]:
    """Returns the indices of the parameters, last first, in buckets of one dtype and at most ``nbytes``.

    The buckets of the first layers are smaller, ``nbytes / 16`` and twice as much for each one after it: they leave at
    the end of the backward pass, when nothing is left that would hide them.
    """
    buckets: list[list[int]] = []
    bytes_left, dtype = 0, ""
    limit = nbytes // 16
    for place, param in enumerate(params):
        if not buckets or param.dtype != dtype or param.nbytes > bytes_left:
            buckets.append([])
            bytes_left, dtype = limit, param.dtype
            limit = min(2 * limit, nbytes)
        buckets[-1].append(place)
        bytes_left -= param.nbytes
    return [bucket[::-1] for bucket in reversed(buckets)]


class GradientBuckets:
    """The gradients of ``params`` in one backward pass, in buckets of adjacent parameters of one dtype and at most
    ``nbytes``.

    A bucket is sent when all of its gradients are known and the previous one has been sent, so that all ranks send them
    in one order. A parameter without a gradient counts as zero if another rank has one.
    """

    def __init__(self, params: Sequence[Tensor], nbytes: int) -> None:
        self._params = params
        self._groups = packed(params, nbytes)
        self._bucket_of = {place: at for at, places in enumerate(self._groups) for place in places}
        self.spans: list[Span] = []

    def begin(self) -> None:
        """Drops the gradients of the last backward pass."""
        self._missing = [len(places) for places in self._groups]
        self._given: dict[int, Tensor] = {}
        self._next = 0

    def add(self, place: int, grad: Tensor) -> None:
        """Adds the gradient of parameter number ``place``; sends the buckets that are complete with it."""
        self._given[place] = grad
        self._missing[self._bucket_of[place]] -= 1
        while self._next < len(self._groups) and not self._missing[self._next]:
            self._send_next()

    def finish(self) -> Sequence[Array | Tensor | None]:
        """Sends the remaining buckets; returns the sums, None for a parameter without a gradient on any rank."""
        while self._next < len(self._groups):
            self._send_next()
        sums = self._sums(np.array([place in self._given for place in range(len(self._params))], np.int32))
        self._given = {}
        return sums

    def _send_next(self) -> None:
        self._next += 1
        self._send(self._next - 1)

    def _send(self, at: int) -> None:
        """Sends one bucket."""
        raise TypeError(f"{type(self).__name__} must define _send(at)")

    def _sums(self, used: Array) -> Sequence[Array | Tensor | None]:
        """Returns the sums of all buckets; ``used`` is 1 for a parameter with a gradient on this rank, else 0."""
        raise TypeError(f"{type(self).__name__} must define _sums(used)")


class Buckets(GradientBuckets):
    """Buckets that are summed on the host, over the devices of ``local`` and then over the ranks of ``group``.

    ``compression`` "float16" or "bfloat16" sends float32 gradients in that dtype, summed in float32. With several
    devices, the first one receives the sums; with one, gradients and sums pass through page-locked memory if the driver
    locks some. Sums are tensors where the memory is page-locked, else arrays that are valid until ``begin``.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        local: ProcessGroup | None,
        group: ProcessGroup | None,
        nbytes: int,
        compression: str | None,
    ) -> None:
        thread = local or group
        if thread is None:
            raise ValueError("buckets need a group to go to")
        super().__init__(params, nbytes)
        self._local, self._thread = local, thread
        self._group = group if local is None or local.rank == 0 else None
        self._compression = compression
        locked = locked_memory(params, self._groups) if local is None and "staging" in LEVELS else None
        self._memory: BucketMemory = BucketMemory(params, self._groups) if locked is None else locked
        self.begin()

    def begin(self) -> None:
        self._memory.reuse()
        super().begin()
        self._works: list[Work] = []
        self._transfers: dict[int, Any] = {}
        self.spans = []

    def add(self, place: int, grad: Tensor) -> None:
        self._transfers[place] = self._memory.receive(place, grad)  # begins the copy to the host
        super().add(place, grad)

    def _send(self, at: int) -> None:
        self._works.append(self._thread.submit(lambda: self._summed(at), f"bucket {at}"))

    def _sums(self, used: Array) -> list[Array | Tensor | None]:
        self._reduce(used, "max")
        sums: list[Array | Tensor | None] = [None] * len(self._params)
        for places, work in zip(self._groups, self._works):
            work.wait()
            for place in places:
                if used[place]:
                    sums[place] = self._memory.send_back(place)
        self._transfers = {}
        return sums

    def _summed(self, at: int) -> None:
        """Sums one bucket; runs in the group's thread."""
        begun = time.perf_counter()
        for place in self._groups[at]:
            self._memory.arrive(place, self._transfers.get(place))
        flat = self._memory.flats[at]
        if self._compression is not None and flat.dtype == np.float32:
            short = compress(flat, self._compression)
            self._reduce(short, "sum")
            decompress(short, flat)
        else:
            self._reduce(flat, "sum")
        self.spans.append(Span(f"bucket {at}", begun, time.perf_counter()))

    def _reduce(self, flat: Array, op: str) -> None:
        if self._local is not None:
            self._local.reduce(flat, 0, op)
        if self._group is not None:
            self._group.all_reduce(flat, op)
