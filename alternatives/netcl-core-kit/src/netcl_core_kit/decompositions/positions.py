"""Elements at positions, order and selection, over getitem, gather, index_select, sort and one_hot."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index as as_index
from typing import Any

import numpy as np

import netcl.ops as ops
from netcl.core.dtypes import is_floating, promote
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import broadcast_shapes, contiguous_strides, normalize_axes
from netcl.core.tensor import Tensor

AMP = {"quantile": "widest"}


def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions, int64, that put the elements along ``axis`` in order, as in ``sort``."""
    normalize_axes(axis, max(x.ndim, 1), "argsort")
    return ops.sort(x, axis, descending, stable)[1]


def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of rising ``boundaries`` (n,) below each element of x, or with ``right`` not above it."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries {boundaries.shape}; expected (n,)")
    return ops.searchsorted(boundaries, x, out_int32=out_int32, right=right)


def take(x: Tensor, indices: Any, axis: int | None = None) -> Any:
    """The elements at ``indices`` along ``axis``, or of the flattened tensor for None; as NumPy's take."""
    if axis is None:
        return ops.index_select(ops.reshape(x, (int(x.size),)), 0, indices)
    return ops.index_select(x, axis, indices)


def take_along_axis(x: Tensor, indices: Any, axis: int | None = -1) -> Any:
    """As NumPy's: ``gather`` with x and ``indices`` broadcast to each other off the axis; None flattens x."""
    values: Any = ops.reshape(x, (int(x.size),)) if axis is None else x
    (at,) = normalize_axes(0 if axis is None else axis, values.ndim, "take_along_axis")
    places: Any = indices if isinstance(indices, Tensor) else Tensor.from_host(x.queue, np.asarray(indices))
    if places.ndim != values.ndim:
        raise ShapeError(f"take_along_axis: indices {places.shape} for {values.shape}; as many axes")
    around = broadcast_shapes([(*t.shape[:at], 1, *t.shape[at + 1 :]) for t in (values, places)], "take_along_axis")
    wide = [(*around[:at], t.shape[at], *around[at + 1 :]) for t in (values, places)]
    values, places = (t if t.shape == shape else ops.expand(t, shape) for t, shape in zip((values, places), wide))
    return ops.gather(values, at, places)


def embedding(indices: Any, weight: Tensor, padding_idx: int | None = None) -> Any:
    """The rows of weight (num, dim) at ``indices`` (...): (..., dim). The row ``padding_idx`` gets no gradient."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight {weight.shape}; expected (num, dim)")
    count = weight.shape[0]
    if not isinstance(indices, Tensor) and np.size(indices) and np.min(indices) < 0:
        raise IndexError(f"embedding: index {np.min(indices)} is negative; rows are 0..{count - 1}")
    if padding_idx is not None and not -count <= padding_idx < count:
        raise IndexError(f"embedding: padding_idx {padding_idx} is out of range for {count} rows")
    places: Any = indices if isinstance(indices, Tensor) else Tensor.from_host(weight.queue, np.asarray(indices))
    # index_select counts negative positions from the end; here they are out of range.
    rows: Any = ops.index_select(weight, 0, ops.where(ops.lt(places, 0), count, places))
    if padding_idx is None:
        return rows
    padded = ops.reshape(ops.eq(places, padding_idx % count), (*places.shape, 1))
    return ops.where(padded, rows.detach(), rows)


def unravel_index(indices: Tensor, shape: Any) -> Any:
    """The positions along each axis of a tensor of ``shape`` at the flat positions ``indices``."""
    if is_floating(indices.dtype) or indices.dtype == "bool":
        raise DTypeError(f"unravel_index: expected whole numbers as indices, got {indices.dtype}")
    sizes = tuple(as_index(size) for size in ((shape,) if isinstance(shape, int) else shape))
    steps = contiguous_strides(sizes)
    return tuple(ops.mod(ops.floor_divide(indices, step), size) for size, step in zip(sizes, steps))


def permutation(x: Tensor | int, axis: int = 0) -> Any:
    """x with its slices along ``axis`` in a random order; of an int n a random order of 0 .. n - 1, as ``randperm``."""
    if not isinstance(x, Tensor):
        return ops.randperm(x)
    if x.ndim == 0:
        raise ShapeError("permutation: a tensor without axes has nothing to put in another order")
    (at,) = normalize_axes(axis, x.ndim, "permutation")
    return ops.index_select(x, at, ops.randperm(x.shape[at], queue=x.queue))


def isin(
    elements: Tensor | float, test_elements: Tensor | float, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """True for each element that equals one of ``test_elements``, or with ``invert`` for each other one."""
    tensors = [one for one in (elements, test_elements) if isinstance(one, Tensor)]
    if not tensors:
        raise TypeError("isin: elements or test_elements is a tensor")
    x, tested = (
        one.detach()
        if isinstance(one, Tensor)
        else Tensor.from_host(tensors[0].queue, np.asarray(one), promote(tensors[0].dtype, type(one)))
        for one in (elements, test_elements)
    )
    dtype = promote(x.dtype, tested.dtype)
    x, tested = x.astype(dtype), ops.reshape(tested.astype(dtype), (int(tested.size),))
    found = ops.any(ops.eq(ops.reshape(x, (*x.shape, 1)), tested), x.ndim)
    return ops.logical_not(found) if invert else found


def masked_select(x: Tensor, mask: Tensor) -> Any:
    """The elements of x where the mask is true, (n,), in order; the two broadcast to each other."""
    if mask.dtype != "bool":
        raise DTypeError(f"masked_select: the mask is bool, not {mask.dtype}")
    shape = broadcast_shapes((x.shape, mask.shape), "masked_select")
    places = ops.nonzero(ops.reshape(mask if mask.shape == shape else ops.expand(mask, shape), (math.prod(shape),)))
    flat = ops.reshape(x if x.shape == shape else ops.expand(x, shape), (math.prod(shape),))
    return ops.index_select(flat, 0, ops.reshape(places, (-1,)) if places.shape[0] else np.zeros(0, np.int64))


def index_add(x: Tensor, axis: int, index: Any, source: Tensor, alpha: float = 1) -> Any:
    """x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
    (at,) = normalize_axes(axis, x.ndim, "index_add")
    places: Any = index if isinstance(index, Tensor) else Tensor.from_host(x.queue, np.asarray(index))
    expected = (*x.shape[:at], places.shape[0] if places.ndim else 1, *x.shape[at + 1 :])
    if places.ndim > 1 or source.shape != expected:
        raise ShapeError(f"index_add: index {places.shape}, source {source.shape}; expected {expected}")
    column = ops.reshape(places, (-1,) + (1,) * (x.ndim - at - 1))
    values = source if alpha == 1 else ops.mul(source, alpha)
    return ops.scatter_add(x, at, ops.expand(column, source.shape), values)


# The place below, and the share of the place above, of a position between two elements.
_PLACES: dict[str, Callable[[float], tuple[int, float]]] = {
    "linear": lambda place: (math.floor(place), place - math.floor(place)),
    "lower": lambda place: (math.floor(place), 0.0),
    "higher": lambda place: (math.ceil(place), 0.0),
    "nearest": lambda place: (round(place), 0.0),
    "midpoint": lambda place: (math.floor(place), 0.0 if place == math.floor(place) else 0.5),
}


def quantile(x: Tensor, q: Any, axis: int | None = None, keepdims: bool = False, interpolation: str = "linear") -> Any:
    """The ``q``-th quantile (a number in [0, 1], or several: then stacked) along ``axis`` or of all elements."""
    if not is_floating(x.dtype):
        raise DTypeError(f"quantile: expected floating dtypes, got {x.dtype}; convert with astype")
    flat = axis is None or not x.ndim
    values: Any = ops.reshape(x, (int(x.size),)) if flat else x
    (at,) = normalize_axes(0 if axis is None or flat else axis, values.ndim, "quantile")
    extent = values.shape[at]
    several = np.ndim(q) > 0
    wanted = [float(each) for each in (q if several else [q])]
    if interpolation not in _PLACES or not all(0 <= each <= 1 for each in wanted):
        raise ValueError(f"quantile: q {q} in [0, 1], interpolation one of {', '.join(_PLACES)}, not {interpolation!r}")
    if extent == 0:
        raise ShapeError(f"quantile: no elements along axis {axis} of shape {x.shape}")
    values = ops.sort(values, at)[0]
    largest = ops.narrow(values, at, extent - 1, 1)
    found = []
    for each in wanted:
        place, weight = _PLACES[interpolation](each * (extent - 1))
        value = ops.narrow(values, at, place, 1)
        if weight:
            value = ops.lerp(value, ops.narrow(values, at, place + 1, 1), weight)
        value = ops.where(ops.ne(largest, largest), largest, value)
        if axis is None:
            value = ops.reshape(value, (1,) * x.ndim if keepdims else ())
        elif not keepdims and x.ndim:
            value = ops.squeeze(value, at)
        found.append(value)
    return ops.stack(found) if several else found[0]
