"""Describes the problems of kernels as plain data: a strided contraction, and the geometry of a convolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

Levels = tuple[int, int, int, int]
Triple = tuple[int, int, int]
_FAR = 2**31


@dataclass(frozen=True)
class Contraction:
    """out[z][i][j] = sum over k of A[z][i][k] * B[z][k][j], everything strided, strides and offsets in elements.

    The reduced index k and the column index j count through four levels, outermost first; z through two. A's row i is
    at ``i * a_row``. With ``accumulate`` the sums are added to ``out``, which then has the computing type; with
    ``partial``, ``out`` holds partial sums in the computing type.
    """

    m: int
    k: Levels
    n: Levels
    a_row: int
    a_k: Levels
    b_k: Levels
    b_n: Levels
    out_row: int
    out_n: Levels
    batch: tuple[int, int] = (1, 1)
    a_batch: tuple[int, int] = (0, 0)
    b_batch: tuple[int, int] = (0, 0)
    out_batch: tuple[int, int] = (0, 0)
    a_offset: int = 0
    b_offset: int = 0
    out_offset: int = 0
    accumulate: bool = False
    partial: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Caches the hash: each call of a product looks up several caches by its contraction."""
        return hash(tuple(vars(self).values()))

    @property
    def empty(self) -> bool:
        """True if there is nothing to write."""
        return self.m == 0 or prod(self.n) == 0 or prod(self.batch) == 0


@dataclass(frozen=True)
class Geometry:
    """A convolution in three spatial dimensions; missing ones are in front with extent one."""

    batch: int
    channels: int
    filters: int
    groups: int
    size: Triple
    kernel: Triple
    out: Triple
    stride: Triple
    dilation: Triple
    padding: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Caches the hash, as Contraction does."""
        return hash(tuple(vars(self).values()))

    @property
    def sparse(self) -> bool:
        """True if it is pointwise and skips elements of the images."""
        alone = self.kernel == (1, 1, 1) and max(self.stride) > 1 and 0 not in (*self.out, self.batch)
        return alone and not any(low or high for low, high in self.padding)


@lru_cache(maxsize=1024)
def dense_steps(c: Contraction, words: int = 1) -> tuple[int, int, int, int] | None:
    """Returns the steps of A and B along k, and of B and ``out`` along n; None if an index has gaps, a step is
    negative, or an offset within a matrix exceeds 32 bits, counted in words (``words`` per element).
    """
    steps = []
    for extents, strides in ((c.k, c.a_k), (c.k, c.b_k), (c.n, c.b_n), (c.n, c.out_n)):
        levels = [(extent, step) for extent, step in zip(extents, strides) if extent != 1] or [(1, 0)]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(levels)):
            return None
        steps.append(levels[-1][1])
    a_k, b_k, b_n, out_n = steps
    m, k, n = c.m, prod(c.k), prod(c.n)
    far = max(m * c.a_row + k * a_k, n * b_n + k * b_k, m * c.out_row + n * out_n)
    if far * words >= _FAR or c.partial or min(c.a_row, c.out_row, *steps) < 0:
        return None
    return a_k, b_k, b_n, out_n


class SegmentedRows(NamedTuple):
    """A contraction without gaps, except that the index k jumps: after each ``segment`` of it come ``a_jump`` and
    ``b_jump`` elements of A's and B's memory that k skips.
    """

    dense: Contraction
    segment: int
    a_jump: int = 0
    b_jump: int = 0

    @property
    def jumps(self) -> bool:
        """True if there are gaps."""
        return bool(self.a_jump or self.b_jump)


@lru_cache(maxsize=1024)
def segmented(c: Contraction) -> SegmentedRows | None:
    """Returns ``c`` with the gaps of the index k as jumps between segments; None if other indices or several levels
    have gaps.

    An example is the sum over all pixels of images with several channels: the pixels of an image are a segment.
    """
    if dense_steps(c) is not None:
        return SegmentedRows(c, max(prod(c.k), 1))
    levels = [(extent, a, b) for extent, a, b in zip(c.k, c.a_k, c.b_k) if extent != 1]
    gaps = {at for at, (outer, inner) in enumerate(pairwise(levels), 1) for which in (1, 2)
            if outer[which] != inner[0] * inner[which]}  # fmt: skip
    if len(gaps) != 1:
        return None
    (gap,) = gaps
    segment, (_, a_step, b_step) = prod(level[0] for level in levels[gap:]), levels[-1]
    a_jump, b_jump = (levels[gap - 1][1] - segment * a_step, levels[gap - 1][2] - segment * b_step)
    places = [prod(c.k[level + 1 :]) for level in range(4)]
    dense = replace(c, a_k=tuple(a_step * n for n in places), b_k=tuple(b_step * n for n in places))  # type: ignore[arg-type]
    far = prod(c.k) // segment * max(a_jump, b_jump) + prod(c.k) * max(a_step, b_step)
    if min(a_jump, b_jump) < 0 or dense_steps(dense) is None or far >= _FAR:
        return None
    return SegmentedRows(dense, segment, a_jump, b_jump)


@lru_cache(maxsize=1024)
def has_short_offsets(c: Contraction) -> bool:
    """True if every offset within a matrix has at most 32 bits."""
    rows = c.m * max(c.a_row, c.out_row)
    levels = ((c.k, c.a_k), (c.k, c.b_k), (c.n, c.b_n), (c.n, c.out_n))
    return rows + sum(n * abs(step) for extents, steps in levels for n, step in zip(extents, steps)) < _FAR
