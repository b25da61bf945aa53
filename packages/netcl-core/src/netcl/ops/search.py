"""Ops on sorted values: binary search, histograms, and distinct elements."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating, promote
from netcl.core.engine.recording import host_read_allowed
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Const, Index, Load, Scalar, apply, cast
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import (
    add,
    div,
    eq,
    ge,
    le,
    logical_and,
    logical_not,
    maximum,
    minimum,
    mul,
    ne,
    sub,
    where,
)
from netcl.ops.index import index_select
from netcl.ops.masking import true_positions
from netcl.ops.pad import pad
from netcl.ops.reduce import amax as largest_of
from netcl.ops.reduce import amin as smallest_of
from netcl.ops.reduce import any as any_of
from netcl.ops.reduce import sum as sum_of
from netcl.ops.scan import cumsum
from netcl.ops.scatter import index_add
from netcl.ops.shape import reshape
from netcl.ops.sort import put_along_axis, sort
from netcl.ops.table import METHOD, as_dtype, composite, computed, engine_of


def _search_cases(rng: np.random.Generator) -> Cases:
    for right in (False, True):
        yield (np.sort(rng.integers(-5, 5, 9) / 2), rng.integers(-6, 6, (3, 4)) / 2), {"right": right}
        yield (np.sort(rng.integers(-5, 5, (3, 9)) / 2), rng.integers(-6, 6, (3, 4)) / 2), {"right": right}
    yield (np.sort(rng.uniform(-2, 2, 2**16 + 1)), rng.uniform(-2, 2, 1000)), {"side": "right"}
    yield (np.array([1, 3, 3, 7]), np.array([3, 8])), {"side": "left"}
    yield (np.zeros((2, 0)), np.zeros((2, 3))), {}


def _search_reference(x: Any, values: Any, right: bool = False, side: str | None = None) -> Any:
    chosen: Any = side or ("right" if right else "left")
    if x.ndim == 1:
        return np.searchsorted(x, values, chosen)
    return np.stack([np.searchsorted(row, wanted, chosen) for row, wanted in zip(x, values)])


@computed(domain=compared(_search_cases, _search_reference, gradient=False))
def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor | float,
    right: bool = False,
    side: str | None = None,
    out_int32: bool = False,
) -> Tensor:
    """Returns the number of elements of the sorted sequence before each of ``values``, a tensor or a number: int64 (or
    int32).

    Counts elements below the value (side "left"), or not above it (``right``, or side "right"); NaN is the largest. The
    sequence (n,) is for all values, (..., n) for values (..., m) with the same lengths before. Raises ShapeError if
    they differ, ValueError for another side.
    """
    needles: Tensor = _as_tensor(values, sorted_sequence)
    engine = engine_of("searchsorted", sorted_sequence, needles)
    lead, wanted = sorted_sequence.shape[:-1], needles.shape[:-1]
    if sorted_sequence.ndim == 0 or sorted_sequence.ndim > 1 and (needles.ndim == 0 or lead != wanted):
        raise ShapeError(
            f"searchsorted: a sequence {sorted_sequence.shape} for values {needles.shape}; expected (n,), or (..., n) "
            "for (..., m)"
        )
    if side not in (None, "left", "right") or right and side == "left":
        raise ArgumentError(f"searchsorted: expected side left or right, in agreement with right={right}, got {side!r}")
    dtype = promote(sorted_sequence.dtype, needles.dtype)
    rows, needles = as_dtype(sorted_sequence, dtype), as_dtype(needles, dtype)
    positions = engine.sort("search", rows, needles, right=right or side == "right")
    return as_dtype(positions, "int32") if out_int32 else positions


def _as_tensor(values: Any, beside: Any) -> Any:
    """A number as a tensor on the device of another operand; other objects as they are."""
    if isinstance(values, (int, float)) and isinstance(beside, Tensor):
        return beside.engine.tensor(np.asarray(values), promote(beside.dtype, type(values)))
    return values


@composite(
    domain=compared(
        lambda rng: (
            ((v, s), attributes)
            for (s, v), attributes in _search_cases(rng)
            if s.ndim == 1 and "side" not in attributes
        ),
        lambda x, edges, right=False: np.searchsorted(edges, x, "right" if right else "left"),
        gradient=False,
    )
)
def bucketize(x: Tensor | float, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Returns the number of rising ``boundaries`` (n,) below each element of x, a tensor or one number, or with
    ``right`` not above it: int64, or int32 with ``out_int32``; x's shape.
    """
    x = _as_tensor(x, boundaries)
    engine_of("bucketize", x, boundaries)
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries {boundaries.shape}; expected (n,)")
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)  # type: ignore[no-any-return]


def _histogram_cases(rng: np.random.Generator) -> Cases:
    # Away from the edges, which are rounded.
    x = (rng.integers(0, 40, (7, 31)) + 0.5) / 10
    yield (x,), {"bins": 4, "range": (0.0, 4.0)}
    yield (x,), {"bins": 4, "range": (1.0, 3.0), "density": True}
    yield (np.append(x, [0.0, 4.0]),), {"bins": 8}
    yield (x,), {"bins": [0.0, 0.4, 2.0, 3.0]}
    yield (np.zeros(3),), {"bins": 2}
    yield (np.zeros(0),), {"bins": 2}
    yield (rng.integers(0, 5, 100),), {"bins": 5, "range": (-0.5, 4.5)}


@computed(domain=compared(_histogram_cases, lambda x, **kw: np.histogram(x, **kw), gradient=False), forms=METHOD)
def histogram(
    x: Tensor,
    bins: Any = 10,
    range: Sequence[float] | None = None,
    density: bool = False,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the number of elements of x in each bin, int64 (bins,), or the sum of their ``weight``, in the dtype of
    x; and the edges of the bins, (bins + 1,), floating.

    ``bins`` is a number of bins of equal width over ``range`` (None: from the smallest to the largest element), or a
    rising sequence of edges. A bin includes its lower edge, the last one both; NaN and elements outside are not
    counted. ``density``: counts / (their sum * width) instead. Raises ValueError for no bins or a range that does not
    rise, and at the next host read if the range comes from elements that are not finite.
    """
    engine = engine_of("histogram", x)
    dtype = x.dtype if is_floating(x.dtype) else "float32"
    if weight is not None:
        column = reshape(as_dtype(x, dtype), (x.size, 1))
        counts, edges = histogram_grid(column, weight, [bins], range, density)
        return counts, edges
    if isinstance(bins, Tensor) or np.ndim(bins):
        edges = as_dtype(bins, dtype) if isinstance(bins, Tensor) else engine.tensor(np.asarray(bins, "float64"), dtype)
        if edges.ndim != 1 or edges.size < 2:
            raise ShapeError(f"histogram: edges {edges.shape}; expected one axis of two or more")
    else:
        edges = _edges(engine, as_dtype(x, dtype), as_index(bins), range, dtype)
    counts = engine.sort("count", as_dtype(x, dtype), edges)
    if not density:
        return counts, edges
    count = edges.size - 1
    exact = as_dtype(edges, promote(dtype, "float32"))
    width = sub(part(exact, 0, 1, count), part(exact, 0, 0, count))
    return as_dtype(div(counts, mul(width, sum_of(counts))), dtype), edges


def _edges(engine: Any, x: Tensor, bins: int, range: Sequence[float] | None, dtype: str) -> Tensor:
    """Returns bins + 1 numbers in even steps, on the device; half a step to each side if all elements are equal."""
    if bins < 1:
        raise ArgumentError(f"histogram: expected a number from 1 or a sequence of edges as bins, got {bins}")
    if range is None and x.size:
        low, high = (function(x)._alias((1,)) for function in (smallest_of, largest_of))
    else:
        bounds = (0.0, 1.0) if range is None else tuple(float(bound) for bound in range)
        if len(bounds) != 2 or not -math.inf < bounds[0] <= bounds[1] < math.inf:
            raise ArgumentError(f"histogram: range {range} is (lowest, highest), both finite")
        low, high = engine.empty((1,), dtype), engine.empty((1,), dtype)
        engine.fill(low, bounds[0])
        engine.fill(high, bounds[1])
    wide = "float64" if dtype == "float64" else "float32"
    first, last = (cast(Load(slot, dtype), wide) for slot in (0, 1))
    if range is None and x.size:
        finite = apply("isfinite", first) & apply("isfinite", last)
        message = "histogram: the range of the elements is not finite; pass range="
        first = apply("require", finite, first, Const(engine.flag_code(message, ValueError), "int32"), 0)
    place, count = cast(Index(0), wide), Scalar("bins", wide)
    half = apply("where", apply("eq", first, last), 0.5, 0.0)
    first, last = first - half, last + half
    edge = cast(apply("where", apply("eq", place, count), last, first + (last - first) * (place / count)), dtype)
    return engine.run((edge,), (low, high), {"bins": bins}, shapes=((bins + 1,),))[0]  # type: ignore[no-any-return]


def _grid_cases(rng: np.random.Generator) -> Cases:
    # Away from the edges, which are rounded.
    x = (rng.integers(0, 40, (60, 2)) + 0.5) / 10
    yield (x,), {"bins": (4, 5), "range": (0.0, 4.0, 1.0, 3.0)}
    yield (x,), {"bins": 4, "range": (0.0, 4.0, 0.0, 4.0), "density": True}
    yield (x,), {"bins": [np.array([0.0, 0.4, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])]}
    yield (x, rng.uniform(0.5, 2, 60)), {"bins": (2, 2), "range": (0.0, 4.0, 0.0, 4.0)}
    yield (np.append(x, [[0.0, 0.0], [4.0, 4.0]], 0),), {"bins": 8}


def _grid_reference(x: Any, weight: Any = None, bins: Any = 10, range: Any = None, density: bool = False) -> Any:
    bounds = None if range is None else list(zip(range[::2], range[1::2]))
    bins = [bins] * x.shape[-1] if isinstance(bins, int) else bins
    counted, edges = np.histogramdd(x, bins, bounds, density=density, weights=weight)
    return counted, *edges


@composite(name="histogram_grid", domain=compared(_grid_cases, _grid_reference, gradient=False))
def histogram_grid(
    x: Tensor, weight: Tensor | None = None, bins: Any = 10, range: Any = None, density: bool = False
) -> tuple[Tensor, ...]:
    """Returns the histogram of ``histogramdd``, followed by the edges of each axis."""
    op = "histogramdd"
    engine = engine_of(op, x, weight)
    if not is_floating(x.dtype):
        raise DTypeError(f"histogram_grid: expected floating dtypes, got {x.dtype}; convert with astype")
    if x.ndim < 2 or x.shape[-1] == 0:
        raise ShapeError(f"{op}: x {x.shape}; expected (..., D), D from 1")
    x, count = x.detach(), x.shape[-1]
    rows = reshape(x, (x.size // count, count))
    each = [bins] * count if isinstance(bins, (int, np.integer)) else list(bins)
    bounds: list[Any] = [None] * count if range is None else [tuple(range[2 * d : 2 * d + 2]) for d in _numbers(count)]
    if len(each) != count or (range is not None and len(range) != 2 * count):
        raise ShapeError(f"{op}: {len(each)} bins and range {range} for {count} axes")
    edges, flat, inside = [], None, None
    for d, (number, bound) in enumerate(zip(each, bounds)):
        column = reshape(part(rows, 1, d, 1), (rows.shape[0],))
        if isinstance(number, Tensor) or np.ndim(number):
            limit = number if isinstance(number, Tensor) else engine.tensor(np.asarray(number, "float64"), x.dtype)
            edge = as_dtype(limit.detach(), x.dtype)
            if edge.ndim != 1 or edge.size < 2:
                raise ShapeError(f"{op}: edges {edge.shape}; expected one axis of two or more")
        else:
            edge = _edges(engine, column, as_index(number), bound, x.dtype)
        last = edge.size - 2
        place = sub(searchsorted(edge, column, right=True), 1)
        here = logical_and(ge(column, part(edge, 0, 0, 1)), le(column, part(edge, 0, last + 1, 1)))
        place = minimum(maximum(place, 0), last)  # the last bin includes its upper edge
        flat = place if flat is None else add(mul(flat, last + 1), place)
        inside = here if inside is None else logical_and(inside, here)
        edges.append(edge)
    sizes = tuple(edge.size - 1 for edge in edges)
    total = math.prod(sizes)
    ones = engine.tensor(np.ones(rows.shape[0]), x.dtype)
    amount = ones if weight is None else as_dtype(reshape(weight.detach(), (rows.shape[0],)), x.dtype)
    counts = index_add(engine.zeros((total + 1,), x.dtype), 0, where(inside, flat, total), amount)
    histogram = reshape(part(counts, 0, 0, total), sizes)
    if density:
        volume: Any = sum_of(histogram)
        for d, edge in enumerate(edges):
            width = sub(part(edge, 0, 1, sizes[d]), part(edge, 0, 0, sizes[d]))
            volume = mul(volume, reshape(width, (-1,) + (1,) * (count - d - 1)))
        histogram = div(histogram, volume)
    return (histogram, *edges)


_numbers = builtins.range
_FEW_TESTED = 32


def _member_cases(rng: np.random.Generator) -> Cases:
    x = rng.integers(-9, 9, (4, 5)).astype(np.float64)
    yield (x, rng.integers(-9, 9, 6).astype(np.float64)), {}
    yield (x, rng.integers(-9, 9, (2, 3)).astype(np.float64)), {"invert": True}
    yield (x, rng.integers(-9, 9, 300).astype(np.float64) * 3), {}
    yield (x, np.zeros(0)), {}


@composite(
    domain=compared(_member_cases, lambda x, tested, invert=False: np.isin(x, tested, invert=invert), gradient=False)
)
def isin(
    elements: Tensor | float, test_elements: Tensor | float, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Returns True for each element that equals one of ``test_elements``, of any shape, or with ``invert`` for each
    other one. One of both may be a number. NaN equals nothing. ``assume_unique`` changes nothing.
    """
    op = "isin"
    if isinstance(elements, Tensor):
        x, engine = elements.detach(), elements.engine
    elif isinstance(test_elements, Tensor):
        engine = test_elements.engine
        x = engine.tensor(np.asarray(elements), promote(test_elements.dtype, type(elements)))
    else:
        raise TypeError("isin: elements or test_elements is a tensor")
    if isinstance(test_elements, Tensor):
        tested = test_elements.detach()
    else:
        tested = engine.tensor(np.asarray(test_elements), promote(x.dtype, type(test_elements)))
    engine_of(op, x, tested)
    dtype = promote(x.dtype, tested.dtype)
    x, tested = as_dtype(x, dtype), as_dtype(reshape(tested, (-1,)), dtype)
    if not tested.size:
        members = engine.zeros(x.shape, "bool")
    elif tested.size <= _FEW_TESTED:
        members = any_of(eq(reshape(x, (*x.shape, 1)), tested), x.ndim)
    else:
        ranked = engine.sort("values", tested)
        place = minimum(searchsorted(ranked, x), ranked.size - 1)
        members = eq(reshape(index_select(ranked, 0, reshape(place, (-1,))), x.shape), x)
    return logical_not(members) if invert else members  # type: ignore[no-any-return]


def _unique_cases(rng: np.random.Generator) -> Cases:
    x = rng.integers(-3, 4, (4, 9)) / 2
    yield (x,), {}
    yield (x,), {"return_inverse": True}
    yield (x,), {"return_counts": True}
    yield (rng.integers(0, 300, 5000),), {"return_inverse": True, "return_counts": True}
    yield (rng.random(20) > 0.5,), {"return_inverse": True}
    yield (np.zeros((0, 2)),), {"return_inverse": True, "return_counts": True}
    yield (np.full((), 2.5),), {"return_counts": True}


def _unique_reference(x: Any, return_inverse: bool = False, return_counts: bool = False) -> Any:
    unique_of: Any = np.unique
    results = unique_of(x, return_inverse=return_inverse, return_counts=return_counts)
    if return_inverse:
        results = (results[0], results[1].reshape(x.shape), *results[2:])
    return results


@composite(domain=compared(_unique_cases, _unique_reference, gradient=False))
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """Returns the distinct elements of x in order, regardless of ``sorted``: (n,).

    With the position of each element of x among them (``return_inverse``: x's shape, int64) and the number of its
    occurrences (``return_counts``: (n,), int64). Every NaN is distinct, as in PyTorch. The first of equal elements gets
    the gradient. One host read, for n; Raises
    CaptureError while a step is captured.
    """
    engine = engine_of("unique", x)
    host_read_allowed(engine)
    count = x.size
    flat = reshape(x, (count,))
    wanted = [name for name, needed in (("inverse", return_inverse), ("counts", return_counts)) if needed]
    elements = None if flat.requires_grad else engine.sort("unique", flat, wanted=wanted)
    if elements is not None:
        results = [
            reshape(element, x.shape) if name == "inverse" else element
            for name, element in zip(["", *wanted], elements)
        ]
        return tuple(results) if wanted else results[0]
    order = None
    if return_inverse or flat.requires_grad:  # only a sort with positions has a gradient
        values, order = sort(flat)
    else:
        values = engine.sort("unstable", flat)
    if count == 0:
        empty = engine.empty((0,), "int64")
        results = [
            values,
            *([empty._alias(x.shape)] if return_inverse else []),
            *([empty] if return_counts else []),
        ]
        return tuple(results) if len(results) > 1 else values
    listed = ["first"] if return_counts or values.requires_grad else []
    distinct, *starts = engine.sort("runs", values, wanted=listed)
    results = [index_select(values, 0, starts[0]) if values.requires_grad else distinct]
    if return_inverse:
        other = ne(part(values, 0, 1, count - 1), part(values, 0, 0, count - 1))
        rank = pad(cumsum(other, 0), (1, 0))
        results.append(reshape(put_along_axis(rank, order, 0, (count,)), x.shape))
    if return_counts:
        ends = pad(part(starts[0], 0, 1, distinct.size - 1), (0, 1), value=count)
        results.append(sub(ends, starts[0]))
    return tuple(results) if len(results) > 1 else results[0]


def _consecutive(x: Any, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None) -> Any:
    rows = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    starts = [i for i in range(len(rows)) if i == 0 or (rows[i] != rows[i - 1]).any()]
    values = rows[starts] if axis is None else np.moveaxis(rows[starts], 0, axis)
    inverse = np.searchsorted(starts, np.arange(len(rows)), "right") - 1
    counts = np.diff([*starts, len(rows)])
    results = [values]
    results += [inverse.reshape(x.shape) if axis is None else inverse] if return_inverse else []
    results += [counts] if return_counts else []
    return tuple(results) if len(results) > 1 else values


def _consecutive_cases(rng: np.random.Generator) -> Cases:
    x = rng.integers(0, 2, (4, 9)) / 2
    yield (x,), {}
    yield (x,), {"return_inverse": True, "return_counts": True}
    yield (np.repeat(x, 2, 1),), {"axis": 1, "return_inverse": True, "return_counts": True}
    yield (np.repeat(x, [2, 1, 1, 3], 0),), {"axis": 0, "return_counts": True}


@composite(domain=compared(_consecutive_cases, _consecutive, gradient=False), forms=METHOD)
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along
    ``axis``.

    With the position of each element (or slice) among them and the number in each run, int64. One host read, for n;
    raises CaptureError while a step is captured.
    """
    engine = engine_of("unique_consecutive", x)
    host_read_allowed(engine)
    if axis is None:
        rows, at = reshape(x, (x.size,)), 0
    else:
        rows, (at,) = x, normalize_axes(axis, x.ndim, "unique_consecutive")
    count = rows.shape[at]
    if count == 0:
        empty = engine.empty((0,), "int64")
        inverse = empty._alias(x.shape) if axis is None else empty
        results = [rows, *([inverse] if return_inverse else []), *([empty] if return_counts else [])]
        return tuple(results) if len(results) > 1 else rows
    other = ne(part(rows, at, 1, count - 1), part(rows, at, 0, count - 1))
    if rows.ndim > 1:
        other = any_of(other, tuple(a for a in range(rows.ndim) if a != at))
    starts = pad(add(true_positions("unique_consecutive", other), 1), (1, 0))
    results = [index_select(rows, at, starts)]
    if return_inverse:
        rank = pad(cumsum(other, 0), (1, 0))
        results.append(reshape(rank, x.shape) if axis is None else rank)
    if return_counts:
        ends = pad(part(starts, 0, 1, starts.size - 1), (0, 1), value=count)
        results.append(sub(ends, starts))
    return tuple(results) if len(results) > 1 else results[0]
