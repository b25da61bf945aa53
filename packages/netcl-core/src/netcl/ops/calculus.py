"""Integrals and derivatives of sampled functions: the trapezoidal rule, and differences of neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, cast, div, mul, sub
from netcl.ops.reduce import sum as sum_of
from netcl.ops.scan import cumsum
from netcl.ops.shape import cat, reshape
from netcl.ops.table import composite, engine_of

# -- integrals ---------------------------------------------------------------------------------------------------------


def _areas(op: str, y: Tensor, x: Tensor | None, dx: float, axis: int) -> tuple[Tensor, int]:
    """Returns the areas between neighbors along an axis, and the axis."""
    engine_of(op, y, x)
    (at,) = normalize_axes(axis, y.ndim, op)
    count = max(y.shape[at] - 1, 0)
    first = min(1, y.shape[at])
    if x is None and not is_floating(y.dtype):
        y = cast(y, dtype="float32")
    pairs = add(part(y, at, 0, count), part(y, at, first, count))
    if x is None:
        return mul(pairs, dx / 2), at
    if dx != 1:
        raise TypeError(f"{op}: expected either x or dx, got both")
    points: Tensor = x
    if x.ndim == 1:
        if x.shape[0] != y.shape[at]:
            raise ShapeError(f"{op}: x {x.shape} for axis {axis} of y {y.shape}", parameter="x")
        points = reshape(x, (-1,) + (1,) * (y.ndim - at - 1))
    elif x.ndim < y.ndim:
        points = reshape(x, (1,) * (y.ndim - x.ndim) + x.shape)
    along = at - y.ndim + points.ndim
    if points.ndim == 0 or points.ndim > y.ndim or points.shape[along] != y.shape[at]:
        raise ShapeError(f"{op}: x {x.shape} does not fit axis {axis} of y {y.shape}", parameter="x")
    widths = sub(part(points, along, first, count), part(points, along, 0, count))
    return mul(mul(pairs, widths), 0.5), at


def _integral_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (3, 7)),), {}
    yield (rng.uniform(-2, 2, (3, 7)),), {"dx": 0.3, "axis": 0}
    yield (rng.uniform(-2, 2, (3, 7)), np.sort(rng.uniform(-2, 2, 7))), {}
    yield (rng.uniform(-2, 2, (3, 7)), rng.uniform(-2, 2, (3, 7))), {"axis": 0}
    yield (rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, 2)), {"axis": 0}
    yield (rng.uniform(-2, 2, (3, 1)),), {}


def _areas_reference(y: Any, x: Any, dx: float, axis: int) -> Any:
    if x is None:
        widths: Any = dx
    else:
        widths = np.diff(np.expand_dims(x, 1) if x.ndim == 1 and axis == 0 else x, axis=axis)
    return widths * (np.take(y, range(1, y.shape[axis]), axis) + np.take(y, range(y.shape[axis] - 1), axis)) / 2


@composite(
    amp="float32",
    domain=compared(_integral_cases, lambda y, x=None, dx=1.0, axis=-1: _areas_reference(y, x, dx, axis).sum(axis)),
)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, axis: int = -1) -> Tensor:
    """Returns the integral of y along ``axis`` by the trapezoidal rule, for samples at x or at the distance ``dx``;
    integers give float32, but for no samples. x is a vector for the axis, or broadcasts to y.
    """
    areas, at = _areas("trapezoid", y, x, dx, axis)
    total = sum_of(areas, at)
    return total if y.shape[at] else cast(total, dtype=y.dtype)  # type: ignore[no-any-return]


@composite(
    amp="float32",
    domain=compared(_integral_cases, lambda y, x=None, dx=1.0, axis=-1: _areas_reference(y, x, dx, axis).cumsum(axis)),
)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, axis: int = -1) -> Tensor:
    """Returns integrals of y along ``axis`` from the first to each other sample, as ``trapezoid``: one element less."""
    areas, at = _areas("cumulative_trapezoid", y, x, dx, axis)
    return cumsum(areas, at)  # type: ignore[no-any-return]


# -- derivatives -------------------------------------------------------------------------------------------------------


def _gradient_cases(rng: np.random.Generator) -> Cases:
    places = [np.array([0.0, 0.5, 2.0, 2.25]), np.array([-1.0, 0.0, 0.5, 2.0, 4.0])]
    for attributes in (
        {}, {"axis": 1, "edge_order": 2}, {"spacing": 0.5}, {"spacing": (0.5, 2.0)}, {"spacing": places},
        {"spacing": places, "edge_order": 2}, {"axis": (0,), "spacing": places[:1]},
    ):  # fmt: skip
        yield (rng.uniform(-2, 2, (4, 5)),), attributes


def _gradient_reference(x: Any, spacing: Any = 1, axis: Any = None, edge_order: int = 1) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    steps = [spacing] * len(axes) if isinstance(spacing, (int, float)) else list(spacing)
    differences: Any = np.gradient
    return tuple(differences(x, step, axis=at, edge_order=edge_order) for step, at in zip(steps, axes))


@composite(amp="float32", domain=compared(_gradient_cases, _gradient_reference))
def gradient(x: Tensor, *, spacing: Any = 1, axis: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Returns the derivatives of samples x along each of the axes (None: all), from neighbors: one tensor for each
    axis.

    ``spacing``: the distance of samples (None: 1), one distance for each axis, or the coordinates along each axis.
    Central differences within, of second order; at the ends one-sided ones of ``edge_order`` 1 or 2. Raises ShapeError
    for an axis of fewer than edge_order + 1 samples.
    """
    op = "gradient"
    engine = engine_of(op, x)
    if spacing is None:
        spacing = 1
    if not is_floating(x.dtype):
        x = cast(x, dtype="float32")
    axes = normalize_axes(tuple(range(x.ndim)) if axis is None else axis, x.ndim, op)
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: expected edge_order 1 or 2, got {edge_order!r}")
    if isinstance(spacing, (int, float)):
        steps: Sequence[Any] = [spacing] * len(axes)
    else:
        steps = [spacing] if isinstance(spacing, Tensor) and spacing.ndim == 1 else list(spacing)
    if len(steps) != len(axes):
        raise ShapeError(f"gradient: {len(steps)} spacings for {len(axes)} axes", op=op, parameter="spacing")
    slopes = []
    for at, step in zip(axes, steps):
        if x.shape[at] < edge_order + 1:
            raise ShapeError(f"gradient: axis {at} of {x.shape} has fewer than {edge_order + 1} samples", op=op)
        if np.ndim(step) == 0 and not isinstance(step, Tensor):
            slopes.append(_even(x, at, float(step), edge_order))
            continue
        places = step if isinstance(step, Tensor) else engine.tensor(np.asarray(step, np.float64), x.dtype)
        if places.shape != (x.shape[at],):
            raise ShapeError(f"gradient: coordinates {places.shape} for axis {at} of {x.shape}", op=op)
        column = reshape(cast(places, dtype=x.dtype), (-1,) + (1,) * (x.ndim - at - 1))
        slopes.append(_uneven(x, at, column, edge_order))
    return tuple(slopes)


def _even(x: Tensor, at: int, step: float, edge_order: int) -> Tensor:
    n = x.shape[at]

    def sample(i: int) -> Tensor:
        return part(x, at, i % n, 1)

    if edge_order == 1:
        first, last = sub(sample(1), sample(0)), sub(sample(-1), sample(-2))
    else:
        first = sub(mul(sub(sample(1), sample(0)), 2.0), mul(sub(sample(2), sample(0)), 0.5))
        last = sub(mul(sub(sample(-1), sample(-2)), 2.0), mul(sub(sample(-1), sample(-3)), 0.5))
    within = mul(sub(part(x, at, min(2, n), max(n - 2, 0)), part(x, at, 0, max(n - 2, 0))), 0.5)
    return div(cat([first, within, last], at), step)  # type: ignore[no-any-return]


def _uneven(x: Tensor, at: int, places: Tensor, edge_order: int) -> Tensor:
    """Returns, with distances h before and k after a sample: (h^2 (f+ - f) + k^2 (f - f-)) / (h k (h + k))."""
    n = x.shape[at]
    steps = sub(part(places, 0, 1, n - 1), part(places, 0, 0, n - 1))
    rises = sub(part(x, at, 1, n - 1), part(x, at, 0, n - 1))
    slopes = div(rises, steps)
    if n == 2:
        return cat([slopes, slopes], at)  # type: ignore[no-any-return]
    before, after = part(steps, 0, 0, n - 2), part(steps, 0, 1, n - 2)
    left, right = part(slopes, at, 0, n - 2), part(slopes, at, 1, n - 2)
    both = add(before, after)
    within = div(add(mul(before, right), mul(after, left)), both)
    first, last = part(slopes, at, 0, 1), part(slopes, at, n - 2, 1)
    if edge_order == 2:

        def edge(near: int, far: int) -> Tensor:
            """Returns the slope of the parabola through three samples, at the outer one."""
            h, k = part(steps, 0, near, 1), part(steps, 0, far, 1)
            turn = div(sub(part(slopes, at, near, 1), part(slopes, at, far, 1)), add(h, k))
            return add(part(slopes, at, near, 1), mul(turn, h))  # type: ignore[no-any-return]

        first, last = edge(0, 1), edge(n - 2, n - 3)
    return cat([first, within, last], at)  # type: ignore[no-any-return]
