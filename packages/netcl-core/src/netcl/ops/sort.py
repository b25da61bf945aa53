"""Ordering along an axis: sort, argsort, top-k, and order statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, AxisError, ShapeError
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import eq, isnan, lerp, logical_and, logical_or, ne, sub, where
from netcl.ops.index import gather
from netcl.ops.ranked import Ranked
from netcl.ops.reduce import amax as largest_of
from netcl.ops.reduce import argmax
from netcl.ops.scan import cummax
from netcl.ops.shape import concatenate, permute, reshape, squeeze, stack
from netcl.ops.table import METHOD, composite, computed, engine_of, floating

_LAYOUTS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((7,), 0),
    ((3, 5), -1),
    ((2, 9, 4), 1),
    ((130, 3), 0),
    ((5, 1), -1),
    ((3, 2500), -1),
    ((2**16 + 1,), 0),
    ((), 0),
    ((0, 3), 1),
)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers with distances that suffice for a difference quotient, in random order."""
    return rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape)


def _cases(rng: np.random.Generator) -> Cases:
    for shape, axis in _LAYOUTS:
        yield (_distinct(rng, shape),), {"axis": axis}
    yield (_distinct(rng, (4, 6)),), {"axis": 0, "descending": True}
    # Equal elements, which keep their order.
    for descending in (False, True):
        yield (rng.integers(-4, 4, (5, 41)),), {"axis": 1, "descending": descending}


def _order(x: Any, axis: int, descending: bool) -> Any:
    """Returns NumPy's stable order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def _sort_reference(x: Any, axis: int = -1, descending: bool = False) -> Any:
    if np.ndim(x) == 0:
        return np.asarray(x), np.asarray(0)
    order = _order(x, axis, descending)
    return np.take_along_axis(x, order, axis), order


def _last(x: Tensor, axis: int) -> Tensor:
    """Moves ``axis`` of ``x`` to the last place, or the last axis back."""
    if axis == x.ndim - 1:
        return x
    order = [a for a in range(x.ndim) if a != axis]
    return permute(x, [*order, axis])  # type: ignore[no-any-return]


def _back(x: Tensor, axis: int) -> Tensor:
    """Moves the last axis to ``axis``."""
    if axis == x.ndim - 1:
        return x
    return permute(x, [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)])  # type: ignore[no-any-return]


@computed(domain=compared(_cases, lambda x, axis=-1, descending=False: _sort_reference(x, axis, descending)[0]))
def sorted_values(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """Returns the values of ``sort``, in less time than with positions."""
    engine = engine_of("sorted_values", x)
    (at,) = normalize_axes(axis, max(x.ndim, 1), "sorted_values")
    rows = _last(x, at) if x.ndim else x._alias((1,))
    values = engine.sort("values", rows, descending=descending)
    return _back(values, at) if x.ndim else values._alias(())


def _sorted(op: str, x: Tensor, axis: int, size: int | None, descending: bool) -> Ranked:
    """Returns the first ``size`` (None: all) in order along ``axis``, and their positions; 0-d is one position."""
    engine = engine_of(op, x)
    (at,) = normalize_axes(axis, max(x.ndim, 1), op)
    rows = _last(x, at) if x.ndim else x._alias((1,))
    extent = rows.shape[-1]
    if size is not None and not 0 <= size <= extent:
        raise ShapeError(f"{op}: k {size} of {extent} elements along axis {axis} of shape {x.shape}", parameter="k")
    values, indices = engine.sort("sort", rows, size=extent if size is None else size, descending=descending)
    if x.ndim == 0 and size != 0:
        return Ranked(values._alias(()), indices._alias(()))
    return Ranked(_back(values, at), _back(indices, at))


@computed(domain=compared(_cases, _sort_reference), forms=METHOD)
def sort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Ranked:
    """Returns the elements along ``axis`` in order, and the positions they come from, int64; both of x's shape.

    NaN is the largest, -0 equals 0. Equal elements keep their order, regardless of ``stable`` and ``descending``.
    """
    return _sorted("sort", x, axis, None, descending)


@composite(
    domain=compared(
        _cases, lambda x, axis=-1, descending=False: _sort_reference(x, axis, descending)[1], gradient=False
    ),
    forms=METHOD,
)
def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the positions, int64, that put the elements along ``axis`` in order, as in ``sort``."""
    normalize_axes(axis, max(x.ndim, 1), "argsort")
    return sort(x, axis, descending, stable)[1]  # type: ignore[no-any-return]


def _topk_cases(rng: np.random.Generator) -> Cases:
    yield (_distinct(rng, (9,)),), {"k": 3}
    yield (_distinct(rng, (3, 5)),), {"k": 5, "axis": 0 - 1, "largest": False}
    yield (_distinct(rng, (2, 70, 3)),), {"k": 4, "axis": 1}
    yield (_distinct(rng, (2, 5000)),), {"k": 10}
    yield (_distinct(rng, (66, 20)),), {"k": 4}
    yield (_distinct(rng, (2, 3)),), {"k": 0}
    yield (_distinct(rng, ()),), {"k": 1}
    yield (rng.integers(-4, 4, (5, 41)),), {"k": 7, "axis": 1}


def _topk_reference(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    if np.ndim(x) == 0:
        return np.asarray(x), np.asarray(0)
    return tuple(np.take(part, np.arange(k), axis) for part in _sort_reference(x, axis, largest))


@computed(domain=compared(_topk_cases, _topk_reference), forms=METHOD)
def topk(x: Tensor, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Ranked:
    """Returns the ``k`` largest (or smallest) along ``axis`` and their positions, int64: x's shape with k for the axis.

    In order, regardless of ``sorted``; the earlier of equal elements first; NaN is the largest. Raises ShapeError if k
    exceeds the axis.
    """
    return _sorted("topk", x, axis, as_index(k), largest)


def _put_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (3, 4)), np.argsort(rng.random((3, 6)))[:, :4]), {"axis": 1, "shape": (3, 6)}
    yield (rng.uniform(-2, 2, (5, 2)), np.argsort(rng.random((5, 2)), 0)), {"axis": 0, "shape": (5, 2)}


def _put_reference(x: Any, index: Any, axis: int, shape: Any) -> Any:
    out = np.zeros(shape)
    np.put_along_axis(out, index, x, axis)
    return out


@computed(domain=compared(_put_cases, _put_reference))
def put_along_axis(x: Tensor, index: Tensor, axis: int, shape: Any) -> Tensor:
    """Zeros of ``shape`` with x[.., i, ..] at [.., index[.., i, ..], ..] along ``axis``; no position occurs twice,
    int64.

    The gradient of ``sort`` and ``topk``. Raises ShapeError if x and index differ in shape, or from ``shape`` off the
    axis.
    """
    engine = engine_of("put_along_axis", x, index)
    wanted = tuple(as_index(size) for size in shape)
    (at,) = normalize_axes(axis, max(len(wanted), 1), "put_along_axis")
    beside = [size for a, size in enumerate(wanted) if a != at] == [size for a, size in enumerate(x.shape) if a != at]
    if x.shape != index.shape or len(wanted) != x.ndim or not beside:
        raise ShapeError(f"put_along_axis: x {x.shape} and index {index.shape} along axis {axis} of {wanted}")
    if not wanted:
        return x._alias(())
    return _back(engine.sort("put", _last(x, at), _last(index, at), size=wanted[at]), at)


def _kth_cases(rng: np.random.Generator) -> Cases:
    yield (_distinct(rng, (7,)),), {"k": 3}
    yield (_distinct(rng, (4, 5)),), {"k": 1, "axis": 0}
    yield (_distinct(rng, (2, 3, 4)),), {"k": 3, "axis": 1, "keepdims": True}
    yield (rng.integers(-9, 9, (3, 5000)),), {"k": 2000}


def _kth_reference(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    kth = tuple(np.take(part, [k - 1], axis) for part in _sort_reference(x, axis))
    return kth if keepdims else tuple(np.squeeze(part, axis) for part in kth)


def _kth_index_cases(rng: np.random.Generator) -> Cases:
    yield (_distinct(rng, (4, 5)), rng.integers(0, 4, (1, 5))), {"axis": 0}
    yield (rng.integers(-9, 9, (3, 5000)), rng.integers(0, 5000, (3, 1))), {"axis": 1}


@computed(
    domain=compared(
        _kth_index_cases,
        lambda x, position, axis: np.take_along_axis(np.argsort(x, axis, kind="stable"), position, axis),
        gradient=False,
    )
)
def kth_index(x: Tensor, position: Tensor, axis: int = -1) -> Tensor:
    """Returns the index along ``axis`` of the element that ``sort`` puts at ``position``: both int64, 1 on the axis."""
    engine = engine_of("kth_index", x, position)
    (at,) = normalize_axes(axis, max(x.ndim, 1), "kth_index")
    if not x.ndim:
        return position
    expected = tuple(1 if a == at else size for a, size in enumerate(x.shape))
    if position.shape != expected:
        raise ShapeError(f"kth_index: position {position.shape} for x {x.shape}; expected {expected}")
    return _back(engine.sort("kth", _last(x, at), _last(position, at)), at)


@composite(domain=compared(_kth_cases, _kth_reference), forms=METHOD)
def kthvalue(x: Tensor, k: int, axis: int = -1, keepdims: bool = False) -> Ranked:
    """Returns the ``k``-th smallest along ``axis``, from 1, and its position, int64. ShapeError unless k is in 1..n."""
    engine = engine_of("kthvalue", x)
    (at,) = normalize_axes(axis, max(x.ndim, 1), "kthvalue")
    if x.ndim and not x.shape[at]:
        raise AxisError(f"kthvalue: no elements along axis {axis} of shape {x.shape}")
    if not 1 <= as_index(k) <= (x.shape[at] if x.ndim else 1):
        raise ShapeError(f"kthvalue: k {k} along axis {axis} of shape {x.shape}", parameter="k")
    position = engine.empty(x.shape and (*x.shape[:at], 1, *x.shape[at + 1 :]), "int64")
    engine.fill(position, as_index(k) - 1)
    return _picked(x, kth_index(x, position, at), at, keepdims)


def _picked(x: Tensor, indices: Tensor, axis: int, keepdims: bool) -> Ranked:
    if x.ndim == 0:
        return Ranked(x, indices)
    values = gather(x, axis, indices)
    return Ranked(values, indices) if keepdims else Ranked(squeeze(values, axis), squeeze(indices, axis))


def _median_cases(rng: np.random.Generator) -> Cases:
    yield (_distinct(rng, (7,)),), {}
    yield (_distinct(rng, (3, 4)),), {}
    yield (_distinct(rng, (4, 5)),), {"axis": 0}
    yield (_distinct(rng, (2, 3, 4)),), {"axis": -1, "keepdims": True}
    yield (rng.integers(-4, 4, (5, 6)),), {"axis": 1}


def _median_reference(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    if axis is None:
        return np.sort(x, None)[(x.size - 1) // 2]
    return _kth_reference(x, (x.shape[axis] - 1) // 2 + 1, axis, keepdims)


@composite(domain=compared(_median_cases, _median_reference), forms=METHOD)
def median(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor | Ranked:
    """Returns the median along ``axis`` and its position, int64; for None only the median of all elements.

    For an even number the lower of the two in the middle, as in PyTorch. A NaN is the median of its row, and of
    no elements at all. Raises ShapeError for no elements along an axis. Equal elements share the gradient of the median
    of all.
    """
    if axis is None and not x.size and is_floating(x.dtype):
        nothing = x.engine.empty((), x.dtype)
        x.engine.fill(nothing, math.nan)
        return nothing  # type: ignore[no-any-return]
    if axis is None:
        value: Tensor = median(reshape(x, (x.size,)), 0)[0]
        if x.requires_grad:  # the elements that are equal to it share the gradient
            value = value.detach()
            equal = logical_or(eq(x, value), logical_and(isnan(x), isnan(value)))
            value = largest_of(where(equal, x, -math.inf))
        return reshape(value, (1,) * x.ndim) if keepdims else value
    (at,) = normalize_axes(axis, max(x.ndim, 1), "median")
    extent = x.shape[at] if x.ndim else 1
    if extent == 0:
        raise AxisError(f"median: no elements along axis {axis} of shape {x.shape}")
    if not x.ndim or not is_floating(x.dtype):
        return kthvalue(x, (extent - 1) // 2 + 1, at, keepdims)  # type: ignore[no-any-return]
    # NaN is the largest, so a row that contains one has it at the end.
    largest = largest_of(x, at, keepdims=True)
    position = where(ne(largest, largest), extent - 1, (extent - 1) // 2)
    return _picked(x, kth_index(x, position, at), at, keepdims)


def _modes(x: Any, axis: int = -1) -> tuple[Any, Any]:
    def most_frequent(row: Any) -> Any:
        elements, counts = np.unique(row, return_counts=True)
        return elements[counts.argmax()]

    values = np.apply_along_axis(most_frequent, axis, x)
    return values, np.apply_along_axis(lambda row: np.flatnonzero(row == most_frequent(row))[-1], axis, x)


def _mode_cases(rng: np.random.Generator) -> Cases:
    yield (np.floor(rng.uniform(0, 3, (4, 7))),), {}
    yield (np.floor(rng.uniform(0, 3, (5, 2))),), {"axis": 0}


@composite(domain=compared(_mode_cases, _modes, gradient=False), forms=METHOD)
def mode(x: Tensor, axis: int = -1, keepdims: bool = False) -> Ranked:
    """Returns the most frequent element along ``axis``, the smallest of several such, and the last of its positions,
    int64.

    Raises ShapeError for no elements.
    """
    (at,) = normalize_axes(axis, max(x.ndim, 1), "mode")
    extent = x.shape[at] if x.ndim else 1
    if extent == 0:
        raise AxisError(f"mode: no elements along axis {axis} of shape {x.shape}")
    ordered = sort(x, at)
    if not x.ndim:
        return ordered  # type: ignore[no-any-return]
    # Equal elements are a run of the ordered ones: the first position at which a run is longest is the end of that run.
    here = x.engine.tensor(np.arange(extent).reshape([-1 if a == at else 1 for a in range(x.ndim)]), "int64")
    changed = ne(part(ordered.values, at, 1, extent - 1), part(ordered.values, at, 0, extent - 1))
    begins = concatenate(ne(part(here, at, 0, 1), part(ordered.indices, at, 0, 1) * 0), changed, axis=at)
    begin = cummax(where(begins, here, 0), at).values
    ends = argmax(sub(here, begin), at, True)
    modes = Ranked(gather(ordered.values, at, ends), gather(ordered.indices, at, ends))
    return modes if keepdims else Ranked(squeeze(modes.values, at), squeeze(modes.indices, at))


def _quantile_cases(rng: np.random.Generator) -> Cases:
    yield (_distinct(rng, (7,)),), {"q": 0.3}
    yield (_distinct(rng, (3, 4)),), {"q": (0.0, 0.25, 1.0)}
    yield (_distinct(rng, (4, 5)),), {"q": 0.6, "axis": 0}
    yield (_distinct(rng, (2, 3, 4)),), {"q": [0.1, 0.9], "axis": -1, "keepdims": True}
    yield (_distinct(rng, (3, 4)),), {"q": 0.55, "axis": 1, "interpolation": "higher"}


def _quantile_reference(x: Any, q: Any, axis: Any = None, keepdims: bool = False, interpolation: str = "linear") -> Any:
    method: Any = interpolation
    return np.quantile(x, q, axis=axis, keepdims=keepdims, method=method)


_PLACES: dict[str, Callable[[float], tuple[int, float]]] = {
    "linear": lambda place: (math.floor(place), place - math.floor(place)),
    "lower": lambda place: (math.floor(place), 0.0),
    "higher": lambda place: (math.ceil(place), 0.0),
    "nearest": lambda place: (round(place), 0.0),
    "midpoint": lambda place: (math.floor(place), 0.5 if place % 1 else 0.0),
}


@composite(domain=compared(_quantile_cases, _quantile_reference), forms=METHOD)
def quantile(
    x: Tensor, q: Any, axis: int | None = None, keepdims: bool = False, interpolation: str = "linear"
) -> Tensor:
    """Returns the ``q``-th quantile (a number in [0, 1], or several: then stacked in front) along ``axis`` or of all
    elements.

    Between two elements by ``interpolation``: linear, lower, higher, nearest (the even one of two) or midpoint.
    Floating dtypes; NaN if a row contains one. Raises ValueError for another q or interpolation, ShapeError for no
    elements.
    """
    (x,) = floating("quantile", x)
    rank = x.ndim
    if axis is None or not rank:
        x, at = reshape(x, (x.size,)), 0
    else:
        (at,) = normalize_axes(axis, rank, "quantile")
    extent = x.shape[at]
    several = np.ndim(q) > 0
    wanted = [float(each) for each in (q if several else [q])]
    if interpolation not in _PLACES or not all(0 <= each <= 1 for each in wanted):
        raise ArgumentError(
            f"quantile: expected q in [0, 1] and interpolation of {', '.join(_PLACES)}, got {q} and {interpolation!r}"
        )
    if extent == 0:
        raise ShapeError(f"quantile: no elements along axis {axis} of shape {x.shape}")
    values = sorted_values(x, at)
    largest = part(values, at, extent - 1, 1)
    quantiles = []
    for each in wanted:
        place, weight = _PLACES[interpolation](each * (extent - 1))
        value = part(values, at, place, 1)
        if weight:
            value = lerp(value, part(values, at, place + 1, 1), weight)
        quantiles.append(where(ne(largest, largest), largest, value))
    if axis is None or not rank:
        quantiles = [reshape(value, (1,) * rank if keepdims else ()) for value in quantiles]
    elif not keepdims:
        quantiles = [squeeze(value, at) for value in quantiles]
    return stack(quantiles) if several else quantiles[0]  # type: ignore[no-any-return]
