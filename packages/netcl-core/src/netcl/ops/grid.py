"""Sampling images at the positions of a grid, and the grids of affine maps.

The neighbors of a position are gathered tap by tap: their rows in the image and their weights are expressions over the
grid, so gradients of any order, by image and by grid, follow from the parts' gradients.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any, NamedTuple

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Expr, Index, Scalar, apply, reduce
from netcl.core.expr import cast as cast_expr
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import compared
from netcl.ops.elementwise import cast
from netcl.ops.index import index_select
from netcl.ops.linalg import matmul
from netcl.ops.shape import expand, permute, reshape
from netcl.ops.table import OpFunction, composite, engine_of, expression

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75


# -- one axis, as expressions ------------------------------------------------------------------------------------------


class _Axis(NamedTuple):
    """Coordinates of an axis.

    ``span`` is the number of pixels from -1 to 1, ``edge`` is 1 if the first begins half a pixel before its center,
    else 0. Both are launch scalars, so that sizes are no part of a kernel.
    """

    c: Expr
    span: Expr
    edge: Expr
    mode: str
    padding: str

    @property
    def last(self) -> Expr:
        """The last pixel."""
        return self.span - self.edge

    def within(self, pixel: Expr) -> Expr:
        """Returns a position clamped to the border (with gradient zero), after mirroring at it for ``reflection``."""
        if self.padding == "reflection":
            low, turn = self.edge * -0.5, self.span * 2.0
            away = apply("mod", apply("abs", pixel - low), turn)
            mirrored = apply("where", away > self.span, turn - away, away) + low
            pixel = apply("where", self.span > 0.0, mirrored, 0.0)
        # NaN is the first pixel.
        return apply("where", pixel > 0.0, apply("where", pixel >= self.last, self.last, pixel), 0.0)

    @property
    def pixel(self) -> Expr:
        """The position in pixels."""
        pixel = ((self.c + 1.0) * self.span - self.edge) * 0.5
        return pixel if self.padding == "zeros" or self.mode == "bicubic" else self.within(pixel)

    def weight(self, digit: Expr) -> Expr:
        """Returns the weight of neighbor number ``digit``."""
        pixel = self.pixel
        t = pixel - apply("stop_gradient", apply("floor", pixel))
        if self.mode == "bilinear":
            return apply("where", apply("eq", digit, 0), 1.0 - t, t)
        near = [((_CUBIC + 2.0) * s - (_CUBIC + 3.0)) * s * s + 1.0 for s in (t, 1.0 - t)]
        far = [((_CUBIC * s - 5.0 * _CUBIC) * s + 8.0 * _CUBIC) * s - 4.0 * _CUBIC for s in (t + 1.0, 2.0 - t)]
        low = apply("where", apply("eq", digit, 0), far[0], near[0])
        return apply("where", digit <= 1, low, apply("where", apply("eq", digit, 2), near[1], far[1]))

    def neighbor(self, digit: Expr) -> tuple[Expr, Expr]:
        """Returns whether neighbor number ``digit`` is inside the image, and its index (int32)."""
        if self.mode == "nearest":
            pixel = apply("round", self.pixel)
        else:
            pixel = apply("floor", self.pixel) + cast_expr(digit, self.c.dtype)
        if self.mode == "bicubic":
            pixel = pixel - 1.0
            pixel = pixel if self.padding == "zeros" else self.within(pixel)
        inside = (pixel >= 0.0) & (pixel <= self.last)
        return inside, cast_expr(apply("where", inside, pixel, 0.0), "int32")


def _digit(axis: int, n: int, taps: int) -> Expr:
    """Returns the neighbor along ``axis`` that tap number Index(0) refers to."""
    return apply("mod", apply("floor_divide", Index(0), taps ** (n - 1 - axis)), taps)


# -- the same in NumPy, for the references -----------------------------------------------------------------------------


def _np_within(pixel: Any, size: int, padding: str, align: bool) -> Any:
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(pixel)
        turns, away = np.divmod(abs(pixel - low), span)
        pixel = np.where(turns % 2 == 0, away, span - away) + low
    return np.nan_to_num(np.clip(pixel, 0, size - 1))


def _np_taps(coordinates: Sequence[Any], sizes: Sequence[int], mode: str, padding: str, align: bool) -> tuple[Any, Any]:
    """Returns (flat positions, -1 outside; weights) of the neighbors, both (taps, N, P)."""
    taps = []
    count = _TAPS[mode]
    for number in range(count ** len(sizes)):
        shape = coordinates[0].shape
        flat = np.zeros(shape, np.int64) + np.arange(shape[0])[:, None]
        weight, inside = np.ones(shape), np.ones(shape, bool)
        for axis, (c, size) in enumerate(zip(coordinates, sizes)):
            k = number // count ** (len(sizes) - 1 - axis) % count
            pixel = (c + 1) / 2 * (size - 1) if align else ((c + 1) * size - 1) / 2
            pixel = pixel if padding == "zeros" or mode == "bicubic" else _np_within(pixel, size, padding, align)
            t = pixel - np.floor(pixel)
            at = np.rint(pixel) if mode == "nearest" else np.floor(pixel) + k
            if mode == "bilinear":
                weight = weight * (t if k else 1 - t)
            elif mode == "bicubic":
                at = at - 1 if padding == "zeros" else _np_within(at - 1, size, padding, align)
                d, a = abs(t + 1 - k), _CUBIC
                far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                weight = weight * np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, far)
            inside &= (at >= 0) & (at <= size - 1)
            flat = flat * size + np.where(inside, at, 0).astype(np.int64)
        taps.append((np.where(inside, flat, -1), weight))
    return np.stack([flat for flat, _ in taps]), np.stack([weight for _, weight in taps])


def _coordinates(rng: np.random.Generator, shape: tuple[int, ...], size: int, align: bool, reach: float = 1.6) -> Any:
    """Coordinates up to beyond the image, with positions away from pixel centers, halves and reflections."""
    pixels = rng.integers(round(-reach), round(size - 1 + reach), shape) + rng.choice([0.2, 0.3, 0.7, 0.8], shape)
    return pixels * 2 / (size - 1) - 1 if align else (pixels * 2 + 1) / size - 1


# -- rows, weights, sums -----------------------------------------------------------------------------------------------


_CONFIGURATIONS: tuple[tuple[str, str, bool, tuple[int, ...]], ...] = (
    ("bilinear", "zeros", False, (4, 5)),
    ("bilinear", "reflection", True, (3, 4, 5)),
    ("bicubic", "border", False, (4, 5)),
)


def _scalars(sizes: Sequence[int], align: bool) -> dict[str, float]:
    """Returns the launch scalars of the rows below: spans of the axes, and the edge."""
    edge = 0.0 if align else 1.0
    return {"edge": edge, **{f"span{axis}": size - 1 + edge for axis, size in enumerate(sizes)}}


def _split_cases(rng: np.random.Generator) -> Cases:
    for mode, padding, align, sizes in _CONFIGURATIONS:
        shape = (_TAPS[mode] ** len(sizes), 2, 3)
        each = [np.broadcast_to(_coordinates(rng, shape[1:], size, align), shape).copy() for size in sizes]
        yield tuple(each), {"mode": mode, "padding": padding, **_scalars(sizes, align)}


def _described(mode: str, padding: str, edge: float, **spans: float) -> tuple[list[int], str, str, bool]:
    sizes = [round(span - edge + 1) for span in spans.values()]
    return sizes, mode, padding, edge == 0


def _weight_reference(*coordinates: Any, **attributes: Any) -> Any:
    taps = coordinates[0].shape[0]
    each = [_np_taps([c[tap] for c in coordinates], *_described(**attributes))[1][tap] for tap in range(taps)]
    return np.stack(each)


def _index_reference(*coordinates: Any, **attributes: Any) -> Any:
    return _np_taps([c[0] for c in coordinates], *_described(**attributes))[0].astype(np.int32)


def _of_neighbors(
    name: str, doc: str, value: Callable[[Sequence[tuple[_Axis, Expr]], bool], Expr], amp: str, domain: Domain
) -> OpFunction:
    """Makes a row over coordinates (taps, N, P) for each axis: ``value`` of its axes, each with the number of its
    neighbor, and of ``wide``.
    """

    def builder(
        c0: Expr,
        c1: Expr,
        c2: Expr | None = None,
        mode: str = "bilinear",
        padding: str = "zeros",
        edge: float = 1.0,
        span0: float = 1.0,
        span1: float = 1.0,
        span2: float = 1.0,
        wide: bool = False,
    ) -> Expr:
        coordinates: Any = [(c, span) for c, span in ((c0, span0), (c1, span1), (c2, span2)) if c is not None]
        axes = [_Axis(c, span, edge, mode, padding) for c, span in coordinates]  # type: ignore[arg-type]
        return value([(axis, _digit(k, len(axes), _TAPS[mode])) for k, axis in enumerate(axes)], wide)

    builder.__doc__ = doc
    return expression(name=name, amp=amp, domain=domain)(builder)


def _weights(axes: Sequence[tuple[_Axis, Expr]], wide: bool) -> Expr:
    return fold(operator.mul, [axis.weight(digit) for axis, digit in axes])


def _rows(axes: Sequence[tuple[_Axis, Expr]], wide: bool) -> Expr:
    whole = "int64" if wide else "int32"
    flat, met = cast_expr(Index(1), whole), []
    for axis, digit in axes:
        inside, at = axis.neighbor(digit)
        flat = flat * cast_expr(axis.last + 1.0, whole) + cast_expr(at, whole)
        met.append(inside)
    return apply("where", fold(operator.and_, met), flat, -1)


grid_weight: OpFunction = _of_neighbors(
    "grid_weight",
    """Returns the weights of the neighbors of positions, for ``grid_sample``: coordinates (taps, N, P) for each axis.

    -1 to 1 covers ``span`` pixels, beginning half a pixel before the first center (``edge`` 1) or at it (0).""",
    _weights,
    "float32",
    compared(_split_cases, _weight_reference),
)
grid_index: OpFunction = _of_neighbors(
    "grid_index",
    """Returns the neighbors of positions as rows of the batch of images flattened to (N * pixels, C), -1 outside: int32
    (int64 if ``wide``), for ``grid_sample``; arguments as for ``grid_weight``.""",
    _rows,
    "widest",
    compared(_split_cases, _index_reference, gradient=False),
)


def _sum_cases(rng: np.random.Generator) -> Cases:
    index = rng.integers(-1, 2, (4, 2, 3, 1)).astype(np.int32)
    yield (rng.uniform(-1, 1, (4, 2, 3, 5)), index, rng.uniform(-1, 1, (4, 2, 3, 1))), {}


def _without_taps(shape: tuple[int, ...], operands: Any, attributes: Any) -> tuple[int, ...]:
    return shape[1:]


@expression(
    amp="float32",
    shapes=_without_taps,
    domain=compared(_sum_cases, lambda rows, index, weight: (rows * (index >= 0) * weight).sum(0)),
)
def grid_sum(rows: Expr, index: Expr, weight: Expr | None = None) -> Expr:
    """Returns the weighted sum over the neighbors (axis 0) of rows (taps, N, P, C); a negative index means zero."""
    known = apply("where", index >= 0, rows, 0)
    if weight is not None:  # of an outside neighbor NaN if the position is not finite
        known = apply("where", index >= 0, known * weight, weight * 0.0)
    return reduce("sum", known, (0,))


# -- the ops -----------------------------------------------------------------------------------------------------------


def _sample_cases(rng: np.random.Generator) -> Cases:
    for mode, padding, align, sizes in (
        *_CONFIGURATIONS,
        ("bilinear", "zeros", True, (5, 4)),
        ("nearest", "reflection", False, (3, 4, 3)),
        ("bicubic", "border", True, (5, 4)),
    ):
        out = (3, 2) if len(sizes) == 2 else (2, 1, 2)
        grid = [_coordinates(rng, (2, *out), size, align) for size in reversed(sizes)]
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
        yield (rng.uniform(-1, 1, (2, 3, *sizes)), np.stack(grid, -1)), attributes
    yield (rng.uniform(-1, 1, (1, 2, 3, 3)), np.zeros((1, 0, 2, 2))), {}


def _sample_reference(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Any:
    n = x.ndim - 2
    flat = grid.reshape(grid.shape[0], -1, n) if grid.size else grid.reshape(grid.shape[0], 0, n)
    index, weight = _np_taps([flat[..., n - 1 - d] for d in range(n)], x.shape[2:], mode, padding_mode, align_corners)
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])[index] * (index >= 0)[..., None]
    return np.moveaxis((rows * weight[..., None]).sum(0), 1, 2).reshape(*x.shape[:2], *grid.shape[1:-1])


def _check(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in _TAPS or (mode == "bicubic" and x.ndim == 5):
        raise ArgumentError(f"grid_sample: expected mode bilinear, nearest or (4 dimensions) bicubic, got {mode!r}")
    if padding_mode not in _PADDINGS:
        raise ArgumentError(
            f"grid_sample: expected one of {', '.join(_PADDINGS)} as padding_mode, got {padding_mode!r}"
        )
    n = x.ndim - 2
    if n not in (2, 3) or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != n:
        raise ShapeError(
            f"grid_sample: x {x.shape}, grid {grid.shape}; expected x (N, C, H, W) with grid (N, H', W', 2), or "
            "x (N, C, D, H, W) with grid (N, D', H', W', 3)"
        )
    if 0 in x.shape[2:]:
        raise ShapeError(f"grid_sample: x {x.shape} has no spatial elements")
    if not (is_floating(x.dtype) and is_floating(grid.dtype)):
        raise DTypeError(f"grid_sample: expected floating dtypes, got {x.dtype} and {grid.dtype}")


@composite(amp="float32", domain=compared(_sample_cases, _sample_reference))
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Returns x (N, C, H, W) at the positions grid (N, H', W', 2): (N, C, H', W'); with a third axis also in 3-D.

    ``grid`` has (x, y[, z]) from -1 to 1: the edges of the outer pixels, with ``align_corners`` their centers.
    ``mode``: bilinear (in 3-D trilinear), nearest, bicubic (a = -0.75, 2-D). Positions outside read ``zeros``, the
    ``border``, or the image mirrored at its border (``reflection``). Raises ShapeError, which names the shapes.
    """
    engine_of("grid_sample", x, grid)
    _check(x, grid, mode, padding_mode)
    n, (batch, channels) = x.ndim - 2, x.shape[:2]
    sizes, out = x.shape[2:], grid.shape[1:-1]
    points, taps = math.prod(out), _TAPS[mode] ** n
    exact = cast(grid, dtype="float32") if grid.dtype in ("float16", "bfloat16") else grid
    flat = reshape(exact, (batch, points, n))
    each = []
    for axis in range(n):  # the grid has the last axis first
        c = reshape(part(flat, 2, n - 1 - axis, 1), (1, batch, points))
        each.append(c if taps == 1 else expand(c, (taps, batch, points)))
    attributes: dict[str, Any] = {"mode": mode, "padding": padding_mode, **_scalars(sizes, align_corners)}
    index = grid_index(*each, wide=batch * math.prod(sizes) >= 2**31, **attributes)
    pixels = reshape(permute(x, (0, *range(2, n + 2), 1)), (batch * math.prod(sizes), channels))
    rows = index_select(pixels, 0, index)
    index = reshape(index, (taps, batch, points, 1))
    if mode == "nearest":
        total = grid_sum(rows, index)
    else:
        total = grid_sum(rows, index, reshape(grid_weight(*each, **attributes), (taps, batch, points, 1)))
    result = reshape(permute(total, (0, 2, 1)), (batch, channels, *out))
    return result if result.dtype == x.dtype else cast(result, dtype=x.dtype)  # type: ignore[no-any-return]


def _affine_reference(theta: Any, size: Any, align_corners: bool = False) -> Any:
    axes = [np.linspace(-1, 1, s) if align_corners and s > 1 else (2 * np.arange(s) + 1) / s - 1 for s in size[2:]]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
    return np.einsum("...k,nik->n...i", points, theta)


def _affine_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (2, 2, 3)),), {"size": (2, 3, 4, 5)}
    yield (rng.uniform(-1, 1, (1, 2, 3)),), {"size": (1, 1, 3, 1), "align_corners": True}
    yield (rng.uniform(-1, 1, (2, 3, 4)),), {"size": (2, 1, 2, 3, 4)}


@composite(amp="float32", domain=compared(_affine_cases, _affine_reference))
def affine_grid(theta: Tensor, size: Any, align_corners: bool = False) -> Tensor:
    """Returns the grid (N, H, W, 2) for ``grid_sample`` of the affine maps theta (N, 2, 3), for images of ``size`` (N,
    C, H, W); of theta (N, 3, 4) and (N, C, D, H, W) the grid (N, D, H, W, 3).

    grid[n, h, w] = theta[n] @ (x_w, y_h, 1), where x and y run from -1 to 1 over the pixels' centers, or with
    ``align_corners`` from the first center to the last. Raises ShapeError, which names the shapes.
    """
    engine = engine_of("affine_grid", theta)
    wanted = tuple(int(extent) for extent in size)
    n = len(wanted) - 2
    if n not in (2, 3) or theta.shape != (wanted[0], n, n + 1) or min(wanted[2:]) < 1:
        raise ShapeError(
            f"affine_grid: theta {theta.shape} for size {wanted}; expected theta (N, 2, 3) and size (N, C, H, W), or "
            "theta (N, 3, 4) and size (N, C, D, H, W)"
        )
    if not is_floating(theta.dtype):
        raise DTypeError(f"affine_grid: expected floating dtypes, got {theta.dtype}")
    exact = cast(theta, dtype="float32") if theta.dtype in ("float16", "bfloat16") else theta
    unit: Any = apply("where", apply("eq", Index(n), n), 1.0, 0.0)
    points = cast_expr(unit, exact.dtype)
    for axis in range(n):
        # pixel = 2 i / steps + start, from the center of the first pixel
        steps, start = Scalar(f"steps{axis}", exact.dtype), Scalar(f"start{axis}", exact.dtype)
        along = cast_expr(Index(axis), exact.dtype) * 2.0 / steps + start
        points = apply("where", apply("eq", Index(n), n - 1 - axis), along, points)
    scalars: dict[str, float | int] = {}
    for axis, extent in enumerate(wanted[2:]):
        inner = align_corners and extent > 1
        scalars[f"steps{axis}"] = float(extent - 1 if inner else extent)
        scalars[f"start{axis}"] = -1.0 if inner else 1.0 / extent - 1.0
    no_inputs: list[Tensor] = []
    base = engine.run((points,), no_inputs, scalars, shapes=((*wanted[2:], n + 1),))[0]
    grid = matmul(reshape(base, (1, math.prod(wanted[2:]), n + 1)), exact, transpose_b=True)
    grid = reshape(grid, (wanted[0], *wanted[2:], n))
    return grid if grid.dtype == theta.dtype else cast(grid, dtype=theta.dtype)  # type: ignore[no-any-return]
