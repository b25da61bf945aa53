"""Dropout masks of a shard that equal the masks of the same samples in the whole batch, for any split of the batch."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from netcl.core import Tensor
from netcl.core.ops_table.dispatch import OpRow, pop_hook, push_hook
from netcl.ops.random import drawing_at, get_rng_state

_PER_COUNTER = 4  # words of one Philox counter


class SampleMasks:
    """In the block, a dropout mask of ``count`` samples is rows ``start`` to ``start + count`` of the mask that
    ``total`` samples would have; the shards of one batch begin with the same ``offset`` of the generator.

    This holds for masks with a first axis over samples, or over equal groups of each sample's rows; other draws are
    unchanged. ``drawn`` counts the counters of the whole batch's masks: pass it to ``skip`` afterwards.
    """

    def __init__(self, start: int, count: int, total: int, offset: int) -> None:
        self.start: int = start
        self.count: int = count
        self.total: int = total
        self.offset: int = offset
        self.drawn: int = 0

    def __enter__(self) -> SampleMasks:
        push_hook(self, "tracer")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pop_hook(self)

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if row.name != "dropout_mask" or not self._divides(args[0]) or self._seed(args, kwargs) is not None:
            return next(row, args, kwargs)
        x = args[0]
        per_sample = x.size // self.count
        first = self.start * per_sample
        # The first element may be inside a counter: the elements before it in that counter are drawn too, and dropped.
        before = first % _PER_COUNTER
        like = Tensor.empty((before + x.size,), x.dtype, queue=x.queue) if before else x
        place = {"seed": get_rng_state()["seed"], "offset": self.offset + self.drawn + first // _PER_COUNTER}
        with drawing_at(place):
            mask = next(row, (like, *args[1:]), kwargs)
        self.drawn += -(-self.total * per_sample // _PER_COUNTER)
        return mask[before:].reshape(x.shape) if before else mask

    def _divides(self, x: Tensor) -> bool:
        return x.ndim > 0 and self.count > 0 and x.shape[0] % self.count == 0

    @staticmethod
    def _seed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return kwargs.get("seed", args[2] if len(args) > 2 else None)
