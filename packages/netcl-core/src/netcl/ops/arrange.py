"""Slicing, splitting, flipping, rolling and repeating tensors, and triangles: compositions of the ops of shape."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import OutOfRangeError, ShapeError, UnsupportedError
from netcl.core.expr import Expr, Index, apply
from netcl.core.layout import normalize_axes, reduced_axes
from netcl.core.ops_table.dispatch import Space
from netcl.core.storage.views import mark_several, owned
from netcl.core.tensor import Tensor
from netcl.ops.shape import (
    Axes,
    concatenate,
    expand,
    reshape,
    sampled,
    strided_scatter,
    strided_slice,
    unsqueeze,
)
from netcl.ops.table import METHOD, WRITTEN, composite, expression


def part(x: Tensor, axis: int, start: int, size: int, step: int = 1) -> Tensor:
    """Returns ``size`` positions of one axis from ``start``."""
    starts, steps, sizes = [0] * x.ndim, [1] * x.ndim, list(x.shape)
    starts[axis], steps[axis], sizes[axis] = start, step, size
    return strided_slice(x, starts, steps, sizes)  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis, start, length: x[:, start : start + length], ((3, 7), {"axis": 1, "start": 2, "length": 4})
    ),
    forms=METHOD,
)
def narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """Returns positions start..start+length of an axis; a negative start counts from the end. IndexError outside."""
    (at,) = normalize_axes(axis, x.ndim, "narrow")
    first: Any = start
    if isinstance(first, Tensor) and (first.ndim or is_floating(first.dtype) or first.dtype == "bool"):
        raise UnsupportedError(
            f"narrow: expected an int or a whole number without axes as start, got {first.dtype} of shape {first.shape}"
        )
    start, length = as_index(start), as_index(length)
    begin = start + x.shape[at] if start < 0 else start
    if length < 0 or begin < 0 or begin + length > x.shape[at]:
        raise OutOfRangeError(f"narrow: {start}..{start}+{length} leaves axis {axis} of shape {x.shape}")
    return part(x, at, begin, length)


@composite(
    domain=sampled(lambda x, size, axis: (x[:, :3], x[:, 3:6], x[:, 6:]), ((2, 7), {"size": 3, "axis": 1})),
    forms=METHOD,
)
def split(x: Tensor, size: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of ``size`` positions along ``axis`` (the last may be smaller), or parts of the given sizes."""
    (at,) = normalize_axes(axis, x.ndim, "split")
    length = x.shape[at]
    if isinstance(size, int):
        if size <= 0:
            raise ShapeError(f"split: parts of {size} positions; the size must be positive", parameter="size")
        sizes: Sequence[int] = [builtins.min(size, length - start) for start in range(0, length, size)] or [0]
    else:
        sizes = size
    if builtins.sum(sizes) != length or builtins.min(sizes, default=0) < 0:
        raise ShapeError(f"split: sizes {tuple(sizes)} do not make up axis {axis} of shape {x.shape}", parameter="size")
    parts = tuple(part(x, at, builtins.sum(sizes[:i]), width) for i, width in enumerate(sizes))
    return mark_several(parts)  # type: ignore[no-any-return]


@composite(
    domain=sampled(lambda x, chunks, axis: (x[:, :3], x[:, 3:6], x[:, 6:]), ((2, 7), {"chunks": 3, "axis": 1})),
    forms=METHOD,
)
def chunk(x: Tensor, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns at most ``chunks`` equal parts along ``axis``, the last may be smaller; of nothing so many empty ones."""
    (at,) = normalize_axes(axis, x.ndim, "chunk")
    if chunks <= 0:
        raise ShapeError(f"chunk: {chunks} parts; there must be one at least", parameter="chunks")
    if not x.shape[at]:
        return mark_several(tuple(part(x, at, 0, 0) for _ in range(chunks)))  # type: ignore[no-any-return]
    return split(x, builtins.max(1, -(-x.shape[at] // chunks)), at)  # type: ignore[no-any-return]


@composite(domain=sampled(lambda x, axis: (x[:, 0], x[:, 1]), ((3, 2), {"axis": 1})), forms=METHOD)
def unbind(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the slices along ``axis``, without it."""
    (at,) = normalize_axes(axis, x.ndim, "unbind")
    steps, rest = (1,) * x.ndim, (*x.shape[:at], *x.shape[at + 1 :])
    sizes = tuple([1 if axis == at else n for axis, n in enumerate(x.shape)])
    starts = ([i if axis == at else 0 for axis in range(x.ndim)] for i in range(x.shape[at]))
    return mark_several(tuple([strided_slice(x, start, steps, sizes, rest) for start in starts]))  # type: ignore[no-any-return]


@composite(domain=sampled(np.flip, ((2, 3, 4), {}), ((2, 3, 4), {"axis": (0, 2)}), ((0, 3), {"axis": 1})))
def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """Returns a copy in reverse order along ``axis`` (int, tuple or None for all)."""
    axes = reduced_axes(axis, x.ndim, "flip")
    back = [a in axes and x.shape[a] > 0 for a in range(x.ndim)]
    starts = [x.shape[a] - 1 if back[a] else 0 for a in range(x.ndim)]
    return owned(strided_slice(x, starts, [-1 if b else 1 for b in back], x.shape), x)  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        np.roll,
        ((5,), {"shift": 2}),
        ((3, 4), {"shift": -1}),
        ((3, 4), {"shift": (1, 6), "axis": (0, 1)}),
        ((0,), {"shift": 1}),
    )
)
def roll(x: Tensor, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """Returns a copy, elements moved ``shift`` positions along ``axis``, cyclically; None rolls the flat tensor."""
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)  # type: ignore[no-any-return]
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes", parameter="shift")
    for places, axis_of in zip(shifts, axes):
        (at,) = normalize_axes(axis_of, x.ndim, "roll")
        cut = -places % x.shape[at] if x.shape[at] else 0
        x = concatenate(part(x, at, cut, x.shape[at] - cut), part(x, at, 0, cut), axis=at)
    return x


@composite(domain=sampled(np.tile, ((2, 3), {"reps": (2, 1, 2)}), ((3,), {"reps": 2}), ((2, 3), {"reps": (4,)})))
def tile(x: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Returns ``x`` repeated reps[a] times along each axis a, as a whole; missing axes are added in front."""
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = builtins.max(x.ndim, len(counts))
    counts, sizes = (1,) * (rank - len(counts)) + counts, (1,) * (rank - x.ndim) + x.shape
    if builtins.min(counts, default=0) < 0:
        raise ShapeError(f"tile: reps {counts} must not be negative", parameter="reps")
    apart = expand(
        reshape(x, tuple(n for size in sizes for n in (1, size))), tuple(n for pair in zip(counts, sizes) for n in pair)
    )
    return owned(reshape(apart, tuple(count * size for count, size in zip(counts, sizes))), x)  # type: ignore[no-any-return]


@composite(domain=sampled(np.repeat, ((2, 3), {"repeats": 2, "axis": 1}), ((2, 3), {"repeats": 3})))
def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Returns every element ``repeats`` times in a row along ``axis``; None repeats the flattened tensor's."""
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, 0)  # type: ignore[no-any-return]
    (at,) = normalize_axes(axis, x.ndim, "repeat")
    if repeats < 0:
        raise ShapeError(f"repeat: {repeats} repeats must not be negative", parameter="repeats")
    before, behind = x.shape[: at + 1], x.shape[at + 1 :]
    apart = expand(unsqueeze(x, at + 1), (*before, repeats, *behind))
    return owned(reshape(apart, (*before[:-1], before[-1] * repeats, *behind)), x)  # type: ignore[no-any-return]


def _below(space: Space, diagonal: int) -> Expr:
    if space.rank < 2:
        raise ShapeError(f"{space.op}: expected a matrix or a stack of them, got {space.rank} dimensions")
    return apply("sub", Index(space.rank - 1), Index(space.rank - 2)) - diagonal


def _zero_of(x: Expr) -> Any:
    """Returns 0, or False for bool, which the result keeps."""
    return False if x.dtype == "bool" else 0


_TRIANGLES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((4, 3), {}),
    ((2, 3, 4), {"diagonal": 1}),
    ((3, 3), {"diagonal": -1}),
)


@expression(domain=sampled(lambda x, diagonal=0: np.tril(x, diagonal), *_TRIANGLES), forms=WRITTEN)
def tril(x: Expr, diagonal: int = 0, *, space: Space) -> Expr:
    """Returns the lower triangle of the last two axes up to the given diagonal, zero above it; in the dtype of x."""
    return apply("where", _below(space, diagonal) <= 0, x, _zero_of(x))


@expression(domain=sampled(lambda x, diagonal=0: np.triu(x, diagonal), *_TRIANGLES), forms=WRITTEN)
def triu(x: Expr, diagonal: int = 0, *, space: Space) -> Expr:
    """Returns the upper triangle of the last two axes from the given diagonal on, zero below it; in the dtype of x."""
    return apply("where", _below(space, diagonal) >= 0, x, _zero_of(x))


@composite(
    domain=sampled(
        lambda x, diagonal=0: np.diag(x, diagonal),
        ((3,), {}),
        ((3,), {"diagonal": -1}),
        ((3, 4), {"diagonal": 1}),
        ((4, 3), {}),
    ),
    forms=METHOD,
)
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """Returns the diagonal of a matrix as a vector, or the square matrix with a vector on its diagonal."""
    right, down = builtins.max(diagonal, 0), builtins.max(-diagonal, 0)
    if x.ndim == 1:
        n = x.shape[0] + right + down
        return reshape(strided_scatter(x, (n * n,), (down * n + right,), (n + 1,)), (n, n))  # type: ignore[no-any-return]
    if x.ndim != 2:
        raise ShapeError(f"diag: expected a vector or a matrix, got shape {x.shape}")
    rows, columns = x.shape
    length = builtins.max(0, builtins.min(rows - down, columns - right))
    flat = reshape(x, (-1,))
    return owned(strided_slice(flat, (down * columns + right,), (columns + 1,), (length,)), x)  # type: ignore[no-any-return]
