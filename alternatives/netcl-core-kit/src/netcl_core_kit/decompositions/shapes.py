"""Functions that join, split and arrange elements, over reshape, permute, expand, cat, getitem and pad."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

import netcl.ops as ops
from netcl.core.errors import ShapeError
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.tensor import Tensor

AMP: dict[str, str] = {}


def _one(axis: int, rank: int, op: str) -> int:
    return normalize_axes(axis, rank, op)[0]


def _part(x: Tensor, axis: int, start: int, length: int) -> Any:
    return ops.getitem(x, (slice(None),) * axis + (slice(start, start + length),))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """x with the axes start_dim..end_dim merged; a 0-d tensor becomes (1,)."""
    if x.ndim == 0:
        return ops.reshape(x, (1,))
    start, end = _one(start_dim, x.ndim, "flatten"), _one(end_dim, x.ndim, "flatten")
    if start > end:
        raise ShapeError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim} in shape {x.shape}")
    return ops.reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def squeeze(x: Tensor, axis: Any = None) -> Any:
    """x without axes of length one: all of them, or ``axis``, which must have length one."""
    axes = [a for a in range(x.ndim) if x.shape[a] == 1] if axis is None else normalize_axes(axis, x.ndim, "squeeze")
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError(f"squeeze: axis {axis} of shape {x.shape} is not of length one")
    return ops.reshape(x, tuple(size for a, size in enumerate(x.shape) if a not in axes))


def unsqueeze(x: Tensor, axis: Any) -> Any:
    """x with axes of length one at ``axis``, positions in the result."""
    axes = (int(axis),) if isinstance(axis, (int, np.integer)) else tuple(int(a) for a in axis)
    rank, sizes = x.ndim + len(axes), iter(x.shape)
    places = normalize_axes(axes, rank, "unsqueeze")
    return ops.reshape(x, tuple(1 if a in places else next(sizes) for a in range(rank)))


def transpose(x: Tensor, axes: Any = (), *more: int) -> Any:
    """x with two axes swapped, its axes permuted, or reversed if none is given."""
    wanted = (int(axes), *more) if isinstance(axes, (int, np.integer)) else tuple(axes)
    order = list(range(x.ndim))
    if len(wanted) == 2:
        one, two = (_one(axis, x.ndim, "transpose") for axis in wanted)
        order[one], order[two] = order[two], order[one]
        return ops.permute(x, order)
    return ops.permute(x, wanted or order[::-1])


def matrix_transpose(x: Tensor) -> Any:
    """x with its last two axes swapped. Raises ShapeError for fewer than two."""
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs a matrix or a stack of them, not shape {x.shape}")
    return ops.permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Any:
    """The tensors of a list, all of one shape, along a new axis."""
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(f"stack: shapes {' and '.join(str(x.shape) for x in tensors)} are not one shape")
    at = _one(axis, tensors[0].ndim + 1 if tensors else 1, "stack")
    return ops.cat([ops.unsqueeze(x, at) for x in tensors], at)


def narrow(x: Tensor, axis: int, start: int, length: int) -> Any:
    """The positions start..start+length of one axis. Raises IndexError outside of the axis."""
    at = _one(axis, x.ndim, "narrow")
    begin = start + x.shape[at] if start < 0 else start
    if length < 0 or begin < 0 or begin + length > x.shape[at]:
        raise IndexError(f"narrow: {start}..{start}+{length} leaves axis {axis} of shape {x.shape}")
    return _part(x, at, begin, length)


def split(x: Tensor, size: int | Sequence[int], axis: int = 0) -> Any:
    """Parts of ``size`` positions along ``axis`` (the last may be smaller), or parts of the given sizes."""
    at = _one(axis, x.ndim, "split")
    length = x.shape[at]
    if isinstance(size, int):
        if size <= 0:
            raise ShapeError(f"split: parts of {size} positions; the size must be positive", parameter="size")
        sizes = [min(size, length - start) for start in range(0, length, size)] or [0]
    else:
        sizes = [int(one) for one in size]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise ShapeError(f"split: sizes {sizes} do not make up axis {axis} of shape {x.shape}")
    return tuple(_part(x, at, sum(sizes[:i]), one) for i, one in enumerate(sizes))


def chunk(x: Tensor, chunks: int, axis: int = 0) -> Any:
    """At most ``chunks`` equal parts along ``axis``; the last may be smaller."""
    at = _one(axis, x.ndim, "chunk")
    if chunks <= 0:
        raise ShapeError(f"chunk: {chunks} parts; there must be one at least", parameter="chunks")
    return ops.split(x, max(1, -(-x.shape[at] // chunks)), at)


def unbind(x: Tensor, axis: int = 0) -> Any:
    """The slices along ``axis``, without it."""
    at = _one(axis, x.ndim, "unbind")
    return tuple(ops.getitem(x, (slice(None),) * at + (i,)) for i in range(x.shape[at]))


def roll(x: Tensor, shift: int | Sequence[int], axis: Any = None) -> Any:
    """The elements moved ``shift`` positions along ``axis``, cyclically; None rolls the flattened tensor."""
    if axis is None:
        return ops.reshape(ops.roll(ops.reshape(x, (-1,)) if x.size else x, shift, 0), x.shape) if x.ndim else x
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes", parameter="shift")
    result: Any = x
    for places, one in zip(shifts, axes):
        at = _one(one, x.ndim, "roll")
        cut = -places % x.shape[at] if x.shape[at] else 0
        result = ops.cat([_part(result, at, cut, x.shape[at] - cut), _part(result, at, 0, cut)], at)
    return result


def tile(x: Tensor, reps: int | Sequence[int]) -> Any:
    """x repeated reps[a] times along each axis a, as a whole; missing axes are added in front."""
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(x.ndim, len(counts))
    counts, sizes = (1,) * (rank - len(counts)) + counts, (1,) * (rank - x.ndim) + x.shape
    if min(counts, default=0) < 0:
        raise ShapeError(f"tile: reps {counts} must not be negative", parameter="reps")
    apart = ops.reshape(x, tuple(n for size in sizes for n in (1, size)))
    wide = ops.expand(apart, tuple(n for pair in zip(counts, sizes) for n in pair))
    return ops.clone(ops.reshape(wide, tuple(count * size for count, size in zip(counts, sizes))))


def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Any:
    """Every element ``repeats`` times in a row along ``axis``; None repeats those of the flattened tensor."""
    if axis is None:
        return ops.repeat(ops.reshape(x, (-1,)), repeats, 0)
    at = _one(axis, x.ndim, "repeat")
    if repeats < 0:
        raise ShapeError(f"repeat: {repeats} repeats must not be negative", parameter="repeats")
    before, behind = x.shape[: at + 1], x.shape[at + 1 :]
    wide = ops.expand(ops.unsqueeze(x, at + 1), (*before, repeats, *behind))
    return ops.clone(ops.reshape(wide, (*before[:-1], before[-1] * repeats, *behind)))


def diag(x: Tensor, diagonal: int = 0) -> Any:
    """The diagonal of a matrix as a vector, or the square matrix with a vector on its diagonal."""
    right, down = max(diagonal, 0), max(-diagonal, 0)
    if x.ndim == 1:
        n = x.shape[0]
        # n rows of n + 1 elements, the first of each of the vector, are n * n elements with the vector on the diagonal.
        rows = ops.pad(ops.reshape(x, (n, 1)), ((0, 0), (0, n)))
        square = ops.reshape(ops.getitem(ops.reshape(rows, (-1,)), slice(0, n * n)), (n, n))
        return ops.pad(square, ((down, right), (right, down)))
    if x.ndim != 2:
        raise ShapeError(f"diag: needs a vector or a matrix, not shape {x.shape}")
    length = max(0, min(x.shape[0] - down, x.shape[1] - right))
    places = (np.arange(length) + down) * x.shape[1] + np.arange(length) + right
    return ops.index_select(ops.reshape(x, (-1,)), 0, places.astype(np.int64))


def _each(function: Callable[[Tensor], Any], x: Any, more: tuple[Tensor, ...]) -> Any:
    operands = (x, *more) if more else x
    return tuple(map(function, operands)) if isinstance(operands, (list, tuple)) else function(x)


def atleast_1d(x: Tensor, *more: Tensor) -> Any:
    """Returns x, of shape (1,) if it is 0-d; of several tensors, or a list, a tuple of them."""
    return _each(lambda t: t if t.ndim else ops.reshape(t, (1,)), x, more)


def atleast_2d(x: Tensor, *more: Tensor) -> Any:
    """Returns x with two axes or more: (n,) gives (1, n); several as in ``atleast_1d``."""
    return _each(lambda t: t if t.ndim > 1 else ops.reshape(t, (1,) * (2 - t.ndim) + t.shape), x, more)


def atleast_3d(x: Tensor, *more: Tensor) -> Any:
    """Returns x with three axes or more: (n,) gives (1, n, 1), (m, n) gives (m, n, 1); several as in ``atleast_1d``."""

    def widened(t: Tensor) -> Any:
        return t if t.ndim > 2 else ops.reshape(t, (*t.shape, 1) if t.ndim == 2 else (1, int(t.size), 1))

    return _each(widened, x, more)


def _given(op: str, tensors: Sequence[Tensor]) -> list[Any]:
    if not tensors:
        raise ShapeError(f"{op}: no tensors are given")
    return list(tensors)


def hstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors of a list joined along axis 1, or along axis 0 if they have one axis or none."""
    given = [ops.atleast_1d(x) for x in _given("hstack", tensors)]
    return ops.cat(given, 0 if given[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors of a list joined along axis 0; vectors are rows."""
    return ops.cat([ops.atleast_2d(x) for x in _given("vstack", tensors)], 0)


def dstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors of a list joined along axis 2, as ``atleast_3d`` gives them."""
    return ops.cat([ops.atleast_3d(x) for x in _given("dstack", tensors)], 2)


def column_stack(tensors: Sequence[Tensor]) -> Any:
    """The tensors of a list joined along axis 1; vectors are columns."""
    given = _given("column_stack", tensors)
    return ops.cat([x if x.ndim > 1 else ops.reshape(x, (int(x.size), 1)) for x in given], 1)


def block_diag(*tensors: Tensor) -> Any:
    """The matrix with the tensors as blocks along its diagonal and zeros elsewhere; vectors are rows."""
    blocks = [ops.atleast_2d(x) for x in _given("block_diag", tensors)]
    if any(x.ndim > 2 for x in blocks):
        raise ShapeError(f"block_diag: needs matrices, not shapes {[x.shape for x in tensors]}")
    width, start, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        rows.append(ops.pad(block, (start, width - start - block.shape[1])))
        start += block.shape[1]
    return ops.cat(rows, 0)


def broadcast_tensors(*tensors: Tensor) -> Any:
    """Each tensor expanded to the shape that all broadcast to; raises ShapeError if they do not."""
    given: Any = tensors
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = given[0]
    shape = broadcast_shapes([x.shape for x in given], "broadcast_tensors") if given else ()
    return tuple(x if x.shape == shape else ops.expand(x, shape) for x in given)


def diff(x: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Any:
    """x[i + 1] - x[i] along ``axis``, ``n`` times; for bool, True where they differ."""
    at = _one(axis, x.ndim, "diff")
    if as_index(n) < 0:
        raise ValueError(f"diff: n is the number of differences, not {n}")
    parts = [one for one in (prepend, x, append) if one is not None]
    result: Any = ops.cat(parts, at) if len(parts) > 1 else x
    for _ in range(min(as_index(n), result.shape[at])):
        length = max(result.shape[at] - 1, 0)
        later, earlier = _part(result, at, min(1, result.shape[at]), length), _part(result, at, 0, length)
        result = ops.ne(later, earlier) if x.dtype == "bool" else ops.sub(later, earlier)
    return result


def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """x turned ``k`` times by 90 degrees in the plane of the two axes ``dims``, from the first towards the second."""
    axes = tuple(_one(axis, x.ndim, "rot90") for axis in dims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ShapeError(f"rot90: dims {tuple(dims)} are not two axes of shape {x.shape}", parameter="dims")
    turns = as_index(k) % 4
    if turns % 2 == 0:
        return ops.flip(x, axes) if turns else ops.clone(x)
    order = list(range(x.ndim))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return ops.flip(ops.permute(x, order), axes[0] if turns == 1 else axes[1])


def cartesian_prod(*tensors: Tensor) -> Any:
    """All tuples of one element of each vector, the last vector fastest: (n, number of tensors)."""
    given = _given("cartesian_prod", tensors)
    if any(x.ndim != 1 for x in given):
        raise ShapeError(f"cartesian_prod: needs vectors, not shapes {[x.shape for x in given]}")
    if len(given) == 1:
        return ops.clone(given[0])
    places = np.indices([x.shape[0] for x in given]).reshape(len(given), -1)
    return ops.stack([ops.index_select(x, 0, place) for x, place in zip(given, places)], 1)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of ``r`` elements of the vector x, in the order of `itertools`: (n, r)."""
    if x.ndim != 1 or as_index(r) < 0:
        raise ShapeError(f"combinations: needs a vector and r from 0, not {x.shape} and r {r}")
    if r == 0:
        return ops.getitem(x, slice(0, 0))
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(chosen(range(x.shape[0]), as_index(r))), np.int64).reshape(-1, as_index(r))
    return ops.index_select(x, 0, places)


def channel_shuffle(x: Tensor, groups: int) -> Any:
    """The channels of x (N, C, spatial...) in another order: channel g C / groups + i becomes i groups + g."""
    if x.ndim < 3 or not isinstance(groups, (int, np.integer)) or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: x {x.shape}, groups {groups!r}; expected (N, C, spatial...) and a divisor of C",
            parameter="groups",
        )
    n, c, *rest = x.shape
    apart = ops.reshape(x, (n, int(groups), c // int(groups), *rest))
    return ops.reshape(ops.permute(apart, (0, 2, 1, *range(3, apart.ndim))), x.shape)


def _moved(x: Tensor, lead: list[int], apart: tuple[int, ...], order: tuple[int, ...], shape: list[int]) -> Any:
    axes = (*range(len(lead)), *(len(lead) + axis for axis in order))
    return ops.reshape(ops.permute(ops.reshape(x, (*lead, *apart)), axes), shape)


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Any:
    """Channels to pixels: (..., C r^2, H, W) gives (..., C, H r, W r)."""
    r = as_index(upscale_factor)
    if r < 1 or x.ndim < 3 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: x {x.shape}, upscale_factor {r}; expected (..., C * {r}^2, H, W)")
    *lead, c, h, w = x.shape
    c //= r * r
    return _moved(x, lead, (c, r, r, h, w), (0, 3, 1, 4, 2), [*lead, c, h * r, w * r])


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Any:
    """Pixels to channels, the inverse of ``pixel_shuffle``: (..., C, H r, W r) gives (..., C r^2, H, W)."""
    r = as_index(downscale_factor)
    if r < 1 or x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: x {x.shape}, downscale_factor {r}; expected (..., C, H * {r}, W * {r})")
    *lead, c, h, w = x.shape
    h, w = h // r, w // r
    return _moved(x, lead, (c, h, r, w, r), (0, 2, 4, 1, 3), [*lead, c * r * r, h, w])
