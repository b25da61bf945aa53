"""The positions of the elements of sparse tensors, on the host, and what products need of them on a device.

A pattern never changes. Its order by rows and that of its transpose are computed once, and uploaded once for each
device.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

Array = np.ndarray[Any, Any]
Parts = tuple[list[Any], list[Any]]

_MOST = 2**31 - 1  # elements, rows and columns that 32 bits count


class Pattern:
    """Positions ``indices`` (axes, count), int64, of elements among ``sizes``; ``coalesced``: sorted and distinct."""

    def __init__(self, sizes: tuple[int, ...], indices: Array, coalesced: bool) -> None:
        self.sizes: tuple[int, ...] = sizes
        self.indices: Array = np.ascontiguousarray(indices, dtype=np.int64)
        self.coalesced: bool = coalesced
        self._placed: WeakKeyDictionary[Any, Parts] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.sizes, self.indices, self.coalesced)

    @property
    def count(self) -> int:
        """The number of elements."""
        return int(self.indices.shape[1])

    @cached_property
    def linear(self) -> Array:
        """The positions in row-major order of ``sizes``, int64."""
        if math.prod(self.sizes) > 2**63 - 1:
            raise OverflowError(f"positions in a sparse tensor of sizes {self.sizes} do not fit 64 bits")
        steps = [math.prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes))]
        return np.asarray(np.array(steps, np.int64) @ self.indices, dtype=np.int64)

    @cached_property
    def merged(self) -> tuple[Pattern, Array]:
        """The sorted and distinct positions, and for each element here its number among them."""
        if self.coalesced:
            return self, np.arange(self.count)
        places, inverse = np.unique(self.linear, return_inverse=True)
        split = np.unravel_index(places, self.sizes) if self.sizes else ()
        indices = np.array(split, np.int64).reshape(len(self.sizes), len(places))
        return Pattern(self.sizes, indices, True), inverse.reshape(-1)

    def permuted(self, axes: tuple[int, ...]) -> Pattern:
        """The pattern with its axes in another order; its elements keep their order, so that it is not coalesced."""
        same = axes == tuple(range(len(axes)))
        return Pattern(tuple(self.sizes[a] for a in axes), self.indices[list(axes)], same and self.coalesced)

    @cached_property
    def starts(self) -> Array:
        """Of a matrix sorted by rows: the number of elements before each row, and that of all, int64."""
        counts = np.bincount(self.indices[0], minlength=self.sizes[0])
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    @cached_property
    def by_rows(self) -> tuple[Array, Array, Array]:
        """Starts of rows, columns and rows, int32, of a matrix sorted by rows."""
        if max(self.count, *self.sizes) > _MOST:
            raise OverflowError(f"a product counts rows and elements by 32 bits: {self.sizes}, {self.count} elements")
        rows, columns = self.indices.astype(np.int32)
        return self.starts.astype(np.int32), columns, rows

    @cached_property
    def by_columns(self) -> tuple[Array, Array, Array, Array, Array]:
        """``by_rows`` of the transpose, the order of its elements among those here, and the inverse of that order."""
        order = np.argsort(self.indices[1], kind="stable")
        turned = Pattern(self.sizes[::-1], self.indices[::-1, order], True)
        inverse = np.empty_like(order)
        inverse[order] = np.arange(self.count)
        return (*turned.by_rows, order.astype(np.int32), inverse.astype(np.int32))

    def on(self, engine: Any, turned: bool) -> Parts:
        """``by_rows`` and, if ``turned``, ``by_columns`` as tensors of ``engine``, uploaded at the first call."""
        placed = self._placed.get(engine)
        if placed is None or turned and not placed[1]:
            here = placed[0] if placed else _uploaded(engine, self.by_rows)
            placed = self._placed[engine] = here, _uploaded(engine, self.by_columns) if turned else []
        return placed


def _uploaded(engine: Any, parts: tuple[Array, ...]) -> list[Any]:
    return [engine.tensor(part, "int32", persistent=True) for part in parts]
