"""Sliding windows with NumPy: pooling, unfolding and their gradients, one tap of the kernel at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorData

Place = tuple[Any, ...]


class _Windows(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    extent: tuple[int, ...]  # of the input
    out: tuple[int, ...]  # windows along each dimension
    include: bool
    divisor: int
    dtype: str

    @property
    def sections(self) -> bool:
        """True if the windows are sections of the extent (adaptive pooling)."""
        return 0 in self.stride

    @property
    def whole(self) -> tuple[int, ...]:
        """The padded extent, long enough for the last window (ceil_mode). For sections it is one longer than the input,
        since the kernel is as long as the longest section.
        """
        if self.sections:
            return tuple(size + 1 for size in self.extent)
        reach = [(o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(self.out, self.stride, self.dilation, self.kernel)]
        return tuple(max(low + size, r) for size, (low, _), r in zip(self.extent, self.padding, reach))

    @property
    def inner(self) -> Place:
        """The input's region in the padded extent."""
        return (Ellipsis, *(slice(low, low + size) for size, (low, _) in zip(self.extent, self.padding)))

    def taps(self) -> Iterator[tuple[Place, Place]]:
        """Yields the index of each tap, and the padded positions it reads, one for each window."""
        bounds = [_bounds(size, o) for size, o in zip(self.extent, self.out)] if self.sections else []
        for tap in product(*map(range, self.kernel)):
            if self.sections:
                meets = [np.where(first + t < last, first + t, last[-1]) for t, (first, last) in zip(tap, bounds)]
                yield (Ellipsis, *tap), (Ellipsis, *np.ix_(*meets))
                continue
            starts = [t * d for t, d in zip(tap, self.dilation)]
            place = [slice(b, b + (o - 1) * s + 1, s) for b, o, s in zip(starts, self.out, self.stride)]
            yield (Ellipsis, *tap), (Ellipsis, *place)

    def padded(self, x: Array, fill: float = 0) -> Array:
        """Returns ``x`` with its last dimensions in the padded extent."""
        result = np.full((*x.shape[: -len(self.extent)], *self.whole), fill, x.dtype)
        result[self.inner] = x
        return result

    def positions(self) -> Array:
        """Returns the flat position of each padded element in the input's plane, -1 in the padding."""
        return self.padded(np.arange(prod(self.extent)).reshape(self.extent), fill=-1)

    def counts(self) -> Array:
        """Returns the divisor of each window's sum, at least 1."""
        if self.divisor:
            return np.full(self.out, self.divisor)
        if self.sections:
            lengths = [last - first for first, last in (_bounds(size, o) for size, o in zip(self.extent, self.out))]
            return reduce(np.multiply, np.ix_(*lengths))
        counts = np.ones(self.out, np.int64)
        for axis, (size, (low, high)) in enumerate(zip(self.extent, self.padding)):
            taps = np.arange(self.kernel[axis]) * self.dilation[axis]
            position = np.arange(self.out[axis])[:, None] * self.stride[axis] - low + taps
            if self.include:
                inside = position < size + high
            else:
                inside = (position >= 0) & (position < size)
            counts = counts * inside.sum(axis=1).reshape((-1,) + (1,) * (len(self.extent) - 1 - axis))
        return np.maximum(counts, 1)

    def add(self, total: Array, place: Place, values: Array) -> None:
        """Adds the windows' values for a tap; sections may share positions."""
        if self.sections:
            np.add.at(total, place, values)
        else:
            total[place] += values


def _bounds(size: int, out: int) -> tuple[Array, Array]:
    """Returns the begin and end of each section of an axis."""
    o = np.arange(out)
    return o * size // out, -(-(o + 1) * size // out)


def _max(x: Array, out: Array, indices: Array, call: _Windows) -> None:
    values, positions = call.padded(widened(x, call.dtype)), call.positions()
    best = np.zeros(out.shape, values.dtype)
    argmax = np.full(out.shape, -1, np.int32)
    for _, place in call.taps():
        value, index = values[place], positions[place]
        # A NaN wins; the first one stays.
        better = (index >= 0) & ((argmax < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best)))
        best = np.where(better, value, best)
        argmax = np.where(better, index, argmax)
    store(out, best, call.dtype)
    indices[...] = argmax


def _max_grad(grad: Array, indices: Array, out: Array, call: _Windows) -> None:
    values, positions = widened(grad, call.dtype), call.positions()
    total = np.zeros((*out.shape[: -len(call.extent)], *call.whole), values.dtype)
    for _, place in call.taps():
        index = positions[place]
        call.add(total, place, np.where((indices == index) & (index >= 0), values, 0))
    store(out, total[call.inner], call.dtype)


def _avg(x: Array, out: Array, call: _Windows) -> None:
    values = call.padded(widened(x, call.dtype))
    total = np.zeros(out.shape, values.dtype)
    for _, place in call.taps():
        total += values[place]
    store(out, total / call.counts().astype(values.dtype), call.dtype)


def _avg_grad(grad: Array, out: Array, call: _Windows) -> None:
    values = widened(grad, call.dtype)
    values = values / call.counts().astype(values.dtype)
    total = np.zeros((*out.shape[: -len(call.extent)], *call.whole), values.dtype)
    for _, place in call.taps():
        call.add(total, place, values)
    store(out, total[call.inner], call.dtype)


def _im2col(x: Array, out: Array, call: _Windows) -> None:
    padded = call.padded(x)
    rank = len(call.kernel)
    # (N, windows..., C, taps...)
    columns = out.reshape(x.shape[0], *call.out, x.shape[1], *call.kernel)
    for tap, place in call.taps():
        columns[tap] = np.moveaxis(padded[place], 1, 1 + rank)


def _col2im(x: Array, out: Array, call: _Windows) -> None:
    rank = len(call.kernel)
    values = widened(x, call.dtype).reshape(out.shape[0], *call.out, out.shape[1], *call.kernel)
    total = np.zeros((*out.shape[:2], *call.whole), values.dtype)
    for tap, place in call.taps():
        total[place] += np.moveaxis(values[tap], 1 + rank, 1)
    store(out, total[call.inner], call.dtype)


_FUNCTIONS = {"avg": _avg, "avg_grad": _avg_grad, "im2col": _im2col, "col2im": _col2im}


def window(
    engine: Any,
    kind: str,
    x: TensorData,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    shape: Sequence[int] | None = None,
    indices: TensorData | None = None,
    count_include_pad: bool = True,
    divisor: int = 0,
) -> Any:
    """Windows over the last ``len(kernel)`` dimensions of ``x``.

    ``max`` gives (values, int32 places in the plane; -1 if a window contains padding only), ``avg`` the mean (the sum
    by ``divisor``, if that is not 0), both of the output size that ``shape`` names or the floor formula; ``im2col``
    gives (N * windows, C * taps). ``max_grad`` (with ``indices``), ``avg_grad`` and ``col2im`` give the gradient in
    ``shape``, the input's. A NaN is the maximum. For a stride of 0, pooling divides an axis into sections: window o is
    floor(o * size / out) to ceil((o + 1) * size / out), and ``kernel`` the longest of them.
    """
    rank = len(kernel)
    backward = kind in ("max_grad", "avg_grad", "col2im")
    image = tuple(shape) if backward and shape is not None else x.shape
    if kind in ("max_grad", "avg_grad"):
        windows = x.shape[-rank:]
    elif kind in ("max", "avg") and shape is not None:
        windows = tuple(shape[-rank:])
    else:
        sizes = zip(image[-rank:], kernel, stride, padding, dilation)
        windows = tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)
    pairs = tuple((low, high) for low, high in padding)
    options = count_include_pad, divisor, x.dtype
    call = _Windows(tuple(kernel), tuple(stride), pairs, tuple(dilation), image[-rank:], windows, *options)
    if kind == "im2col":
        result: tuple[int, ...] = (image[0] * prod(windows), image[1] * prod(kernel))
    else:
        result = image if backward else (*image[:-rank], *windows)
    out = engine.empty(result, x.dtype)
    if kind == "max":
        positions = engine.empty(result, "int32")
        if out.size:
            engine.launch(_max, x.array, out.array, positions.array, call)
        return out, positions
    if out.size and kind == "max_grad":
        assert indices is not None
        engine.launch(_max_grad, x.array, indices.array, out.array, call)
    elif out.size:
        engine.launch(_FUNCTIONS[kind], x.array, out.array, call)
    return out
