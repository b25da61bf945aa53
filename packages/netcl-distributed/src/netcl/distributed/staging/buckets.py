"""StagedBuckets: gradients that leave for the other ranks in buckets during the backward pass and are summed on the
devices; a captured step repeats it without Python for each gradient.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

from netcl.core import Tensor
from netcl.core.expr import Expr
from netcl.core.ops_table.dispatch import evaluate_each
from netcl.distributed.group import ProcessGroup
from netcl.distributed.reductions import Array
from netcl.distributed.staging.exchange import Delivery, StagedExchange
from netcl.distributed.staging.sums import sum_of_ranks
from netcl.distributed.training.buckets import GradientBuckets, Span
from netcl.runtime.staging import Pending, host_call, order_after, packed_tensors

_AHEAD = 8  # buckets that the host may be ahead of the device
_PAUSE_S = 5e-5


class _Bucket:
    """Room for the gradients of the parameters ``places``: one tensor, and a part of it for each gradient. ``others``
    and ``other_parts`` are the same for the gradients of each of ``ranks`` other ranks.
    """

    def __init__(self, params: Sequence[Tensor], places: Sequence[int], dtype: str, queue: Any, ranks: int) -> None:
        self.places = tuple(places)
        shapes = [params[place].shape for place in places]
        self.flat, self.parts = packed_tensors(shapes, dtype, queue)
        room = [packed_tensors(shapes, dtype, queue) for _ in range(ranks)]
        self.others = [flat for flat, _ in room]
        self.other_parts = [parts for _, parts in room]

    @property
    def written(self) -> list[Tensor]:
        """The parts that an exchange writes."""
        return [part for parts in (self.parts, *self.other_parts) for part in parts]


class StagedBuckets(GradientBuckets):
    """Buckets that are summed over the ranks of ``group`` by ``exchange``. Each is one tensor; multi-tensor apply
    copies the gradients into it. Later work of the queue runs after the sums; ``finish`` does not wait for the device.

    ``compression`` (float16 or bfloat16): float32 gradients are rounded to it on the way, and summed in float32. The
    ranks agree on the parameters with a gradient after each backward pass, unless ``use_is_known`` is set: then they
    are as after the last one.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        exchange: StagedExchange,
        group: ProcessGroup,
        nbytes: int,
        compression: str | None,
    ) -> None:
        super().__init__(params, nbytes)
        self._exchange, self._group = exchange, group
        ranks = group.size - 1 if exchange.gathers else 0
        self._buckets = [
            _Bucket(params, places, self._on_the_way(params[places[0]].dtype, compression), exchange.queue, ranks)
            for places in self._groups
        ]
        # Written by every host call, so that a captured step keeps their order.
        self._order = Tensor.zeros((1,), queue=exchange.queue, persistent=True)
        self._deliveries: list[Delivery] = []
        self._left: list[float] = []
        self._marks: deque[Pending] = deque()
        self._use: Array | None = None
        self.use_is_known: bool = False
        self.begin()

    @staticmethod
    def _on_the_way(dtype: str, compression: str | None) -> str:
        return compression if compression is not None and dtype == "float32" else dtype

    def _sums(self, used: Array) -> list[Tensor | None]:
        if self._use is None or not self.use_is_known:
            self._group.all_reduce(used, "max")
            self._use = used
        used = self._use
        sums: list[Tensor | None] = [None] * len(self._params)
        for number, bucket in enumerate(self._buckets):
            # The sums of a bucket are computed while the next ones are under way.
            host_call(partial(self._arrive, number), (), (*bucket.written, self._order))
            there = [at for at, place in enumerate(bucket.places) if used[place]]
            ranks = self._exchange.in_rank_order(bucket.parts, bucket.other_parts)
            dtypes = bucket.flat.dtype, self._params[bucket.places[0]].dtype
            # The parts of the tensor have the sums themselves if the exchange does not gather.
            outputs = sum_of_ranks(len(bucket.others) + 1, dtypes[0], target=dtypes[1])
            parts = [bucket.parts] if not bucket.others else ranks
            for at, (total,) in zip(there, _each(outputs, [tuple(each[at] for each in parts) for at in there])):
                sums[bucket.places[at]] = total
        return sums

    def _send(self, at: int) -> None:
        """Fills a bucket, and lets it leave."""
        bucket = self._buckets[at]
        dtypes = self._params[bucket.places[0]].dtype, bucket.flat.dtype
        there = [(self._given[place], part) for place, part in zip(bucket.places, bucket.parts) if place in self._given]
        _each(sum_of_ranks(1, dtypes[0], target=dtypes[1]), [(grad,) for grad, _ in there], [(p,) for _, p in there])
        for place, part in zip(bucket.places, bucket.parts):
            if place not in self._given:
                part.engine.fill(part, 0)
        host_call(partial(self._leave, bucket, at == 0), (), (*bucket.written, self._order))

    def _leave(self, bucket: _Bucket, first: bool, reads: Any, out: Any) -> None:
        if first:
            self._deliveries, self._left = [], []
        ready = self._exchange.mark()
        self._left.append(time.perf_counter())
        exchange = self._exchange
        self._deliveries.append(
            exchange.all_gather(bucket.flat, bucket.others, ready)
            if exchange.gathers
            else exchange.all_reduce(bucket.flat, "sum", ready)
        )
        # A replay would otherwise run ahead until the driver's queue is full, and wait in the driver.
        self._marks.append(ready)
        while len(self._marks) > _AHEAD:
            oldest = self._marks.popleft()
            while not oldest.done():
                time.sleep(_PAUSE_S)

    def _arrive(self, number: int, reads: Any, out: Any) -> None:
        if number == 0:
            self.spans = []
        delivery = self._deliveries[number]
        order_after(self._exchange.queue, delivery.enqueued())
        self.spans.append(Span(f"bucket {number}", self._left[number], delivery.ended))


def _each(
    outputs: tuple[Expr, ...], inputs: list[tuple[Tensor, ...]], out: list[tuple[Tensor, ...]] | None = None
) -> list[tuple[Any, ...]]:
    if not inputs:
        return []
    return evaluate_each(outputs, inputs) if out is None else evaluate_each(outputs, inputs, out=out)
