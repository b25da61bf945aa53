"""Rows of shapes that are made of others: getitem, transpose, squeeze, split and the like, by reshape, permute, flip,
index and strided_slice of a core.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np

from netcl_core_kit.dispatch import call
from netcl_core_kit.errors import ShapeError, UnsupportedError
from netcl_core_kit.gradients import view_of
from netcl_core_kit.keys import is_array, spread
from netcl_core_kit.layout import normalize_axes
from netcl_core_kit.rows import composites

__all__ = ["basic", "exactly", "mark_several", "scalars"]


def exactly(name: str, fits: bool, message: str) -> None:
    """ShapeError with ``message`` unless ``fits``."""
    if not fits:
        raise ShapeError(f"{name}: {message}")


def mark_several(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Notes in the graph that ``results`` are views that one function returns together; returns them."""
    for result in results:
        view = view_of(result)
        if getattr(view, "several", None) is False:
            view.several = True
    return results


def basic(x: Any, items: list[Any]) -> tuple[Any, list[int]]:
    """A view of x by ints, slices and None, with the axes along which it has to be reversed."""
    starts, steps, sizes, final, reverse = [], [], [], [], []
    axis = 0
    for item in items:
        if item is None:
            final.append(1)
            continue
        length = x.shape[axis]
        if isinstance(item, slice):
            try:
                start, stop, step = item.indices(length)
            except TypeError:
                whole = slice(*(None if p is None else operator.index(p) for p in (item.start, item.stop, item.step)))
                start, stop, step = whole.indices(length)
            size = len(range(start, stop, step))
            if step < 0:
                start, step = start + (size - 1) * step if size else 0, -step
                reverse.append(len(final))
            starts.append(min(start, length)), steps.append(step), sizes.append(size)
            final.append(size)
        else:
            try:
                place = operator.index(item)
            except TypeError:
                raise UnsupportedError(f"getitem: a key of {type(item).__name__} is not supported") from None
            if not -length <= place < length:
                raise IndexError(f"getitem: index {place} is out of range for axis {axis} of length {length}")
            starts.append(place % length), steps.append(1), sizes.append(1)
        axis += 1
    full = tuple(sizes) == x.shape and all(step == 1 for step in steps)
    view = x if full and len(final) == axis else call("strided_slice", x, tuple(starts), tuple(steps), tuple(sizes))
    return (call("reshape", view, tuple(final)) if tuple(final) != view.shape else view), reverse


def _getitem(x: Any, key: Any) -> Any:
    items = scalars(spread("getitem", key, x.shape))
    if any(map(is_array, items)):
        return call("index", x, items)
    view, reverse = basic(x, items)
    if reverse:
        return call("flip", view, tuple(reverse))
    return call("reshape", view, view.shape) if view is x else view


def scalars(items: list[Any]) -> list[Any]:
    """0-d integer tensors of a key as ints."""
    return [int(one.item()) if is_array(one) and one.ndim == 0 and str(one.dtype) != "bool" else one for one in items]


def _one(x: Any, axis: int) -> int:
    return normalize_axes(axis, x.ndim, "op")[0]


def _squeeze(x: Any, axis: Any = None) -> Any:
    axes = normalize_axes(axis, x.ndim, "squeeze")
    if axis is not None:
        exactly(
            "squeeze", all(x.shape[one] == 1 for one in axes), f"axes {axis} of shape {x.shape} have not length one"
        )
    gone = [one for one in axes if x.shape[one] == 1]
    return call("reshape", x, tuple(length for place, length in enumerate(x.shape) if place not in gone))


def _unsqueeze(x: Any, axis: Any) -> Any:
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = normalize_axes(given, x.ndim + len(given), "unsqueeze")
    lengths = iter(x.shape)
    return call("reshape", x, tuple(1 if place in axes else next(lengths) for place in range(x.ndim + len(given))))


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not x.ndim:
        return call("reshape", x, (1,))
    first, last = _one(x, start_dim), _one(x, end_dim)
    exactly("flatten", first <= last, f"axes {start_dim} to {end_dim}")
    return call("reshape", x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def _transpose(x: Any, axes: Any = (), *more: int) -> Any:
    given = (axes, *more) if isinstance(axes, (int, np.integer)) else tuple(axes)
    if not given:
        return call("permute", x, tuple(range(x.ndim))[::-1])
    if len(given) == 2:
        order = list(range(x.ndim))
        a, b = _one(x, given[0]), _one(x, given[1])
        order[a], order[b] = b, a
        return call("permute", x, tuple(order))
    return call("permute", x, given)


def _narrow(x: Any, axis: int, start: int, length: int) -> Any:
    axis = _one(x, axis)
    first = start + x.shape[axis] if start < 0 else start
    if length < 0 or first < 0 or first + length > x.shape[axis]:
        raise IndexError(f"narrow: positions {start} to {start + length} of an axis of {x.shape[axis]}")
    return call("getitem", x, (*(slice(None),) * axis, slice(first, first + length)))


def _split(x: Any, size: Any, axis: int = 0) -> Any:
    axis = _one(x, axis)
    length = x.shape[axis]
    if isinstance(size, (int, np.integer)):
        exactly("split", size > 0 or (size == 0 and length == 0), f"size {size}")
        sizes = [size] * (length // size) + ([length % size] if length % size else []) if size else [0]
        sizes = sizes or [0]
    else:
        sizes = list(size)
        exactly("split", sum(sizes) == length and min(sizes, default=0) >= 0, f"sizes {sizes} of an axis of {length}")
    ends = list(itertools.accumulate(sizes))
    return mark_several(tuple(_narrow(x, axis, end - part, part) for part, end in zip(sizes, ends)))


def _unbind(x: Any, axis: int = 0) -> Any:
    axis = _one(x, axis)
    return mark_several(tuple(call("getitem", x, (*(slice(None),) * axis, at)) for at in range(x.shape[axis])))


def _matrix_transpose(x: Any) -> Any:
    exactly("matrix_transpose", x.ndim >= 2, f"shape {x.shape} has fewer than two axes")
    return _transpose(x, x.ndim - 2, x.ndim - 1)


composites("widest", {
    "getitem(x: Tensor, key)": _getitem, "squeeze(x: Tensor, axis=None)": _squeeze,
    "unsqueeze(x: Tensor, axis)": _unsqueeze, "flatten(x: Tensor, start_dim=0, end_dim=-1)": _flatten,
    "transpose(x: Tensor, axes=(), *more)": _transpose, "narrow(x: Tensor, axis, start, length)": _narrow,
    "split(x: Tensor, size, axis=0)": _split, "unbind(x: Tensor, axis=0)": _unbind, "matrix_transpose(x: Tensor)": _matrix_transpose,
})  # fmt: skip
