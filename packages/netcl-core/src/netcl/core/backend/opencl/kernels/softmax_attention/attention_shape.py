"""The sizes of an attention problem, as the kernels of attention take them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from netcl.core.storage.data import TensorData


class AttentionShape(NamedTuple):
    """q (samples, heads, queries, width), k and v (samples, heads / shared, keys, width or values)."""

    samples: int
    heads: int
    shared: int
    queries: int
    keys: int
    width: int
    values: int
    mask: tuple[int, ...] | None
    seen: bool  # True if the mask is boolean
    causal: bool

    @property
    def masked(self) -> int:
        """0: no mask; 1: boolean mask; 2: additive mask."""
        return 0 if self.mask is None else 1 if self.seen else 2

    def mask_steps(self) -> tuple[int, int, int]:
        """Returns the strides of the mask from one sample, head and query to the next."""
        if self.mask is None:
            return (0, 0, 0)
        mask = (1,) * (4 - len(self.mask)) + self.mask
        steps = [0 if mask[axis] == 1 else prod(mask[axis + 1 :]) for axis in range(3)]
        return steps[0], steps[1], steps[2]


def shape_of(q: TensorData, k: TensorData, v: TensorData, mask: TensorData | None, causal: bool) -> AttentionShape:
    """Returns the sizes of q (..., heads, queries, width), k and v, and of a mask that broadcasts to the scores."""
    heads, kept = (x.shape[-3] if x.ndim > 2 else 1 for x in (q, k))
    seen = mask is not None and mask.dtype == "bool"
    return AttentionShape(
        prod(q.shape[:-3]), heads, heads // kept, q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1],
        None if mask is None else mask.shape, seen, causal,
    )  # fmt: skip
