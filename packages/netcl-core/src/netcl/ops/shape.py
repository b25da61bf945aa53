"""Ops that move elements or rename axes: everything here is an alias of the same storage or one strided copy."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.backend.registry import engine_for
from netcl.core.dispatch import Domain, Space
from netcl.core.dtypes import promote
from netcl.core.errors import ShapeError
from netcl.core.expr import Expr, Index, apply
from netcl.core.layout import broadcast_shapes, contiguous_strides, normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.table import as_dtype, composite, computed, engine_of, expression

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]
Axes = Any


def sampled(function: Any, *cases: tuple[tuple[int, ...], dict[str, Any]]) -> Domain:
    """Cases (shape of the operand, attributes) on uniform numbers, with NumPy's ``function`` as the reference."""

    def samples(rng: np.random.Generator) -> Cases:
        for shape, attributes in cases:
            yield (rng.uniform(-2, 2, shape),), attributes

    return Domain(cases=samples, reference=function)


# -- the same storage --------------------------------------------------------------------------------------------------


def _resolved(shape: tuple[int, ...], wanted: Any) -> tuple[int, ...]:
    sizes = [as_index(size) for size in ((wanted,) if isinstance(wanted, (int, np.integer)) else wanted)]
    total, known = math.prod(shape), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if builtins.min(sizes, default=0) < 0 or math.prod(sizes) != total:
        raise ShapeError(
            f"reshape: {total} elements of shape {shape} do not fit shape {tuple(sizes)}; one length may be -1",
            op="reshape",
        )
    return tuple(sizes)


@computed(
    domain=sampled(
        lambda x, shape: x.reshape(shape),
        ((2, 6), {"shape": (3, -1)}),
        ((), {"shape": (1, 1)}),
        ((1,), {"shape": ()}),
        ((0, 3), {"shape": (3, 0)}),
    )
)
def reshape(x: Tensor, shape: Any) -> Tensor:
    """The same storage with another shape of the same size; one length may be -1. ShapeError names both shapes."""
    engine_of("reshape", x)
    return x._alias(Tensor, _resolved(x.shape, shape))


@composite(
    domain=sampled(lambda x, start_dim, end_dim: x.reshape(2, 12, 1), ((2, 3, 4, 1), {"start_dim": 1, "end_dim": 2}))
)
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The same storage with the axes start_dim..end_dim merged; a 0-d tensor becomes (1,)."""
    if x.ndim == 0:
        return reshape(x, (1,))  # type: ignore[no-any-return]
    (start,), (end,) = normalize_axes(start_dim, x.ndim, "flatten"), normalize_axes(end_dim, x.ndim, "flatten")
    if start > end:
        raise ShapeError(
            f"flatten: start_dim {start_dim} lies behind end_dim {end_dim} in shape {x.shape}", op="flatten"
        )
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis=None: np.squeeze(x, axis),
        ((1, 3, 1), {}),
        ((1, 3, 1), {"axis": -1}),
        ((1, 3, 1), {"axis": (0, 2)}),
    )
)
def squeeze(x: Tensor, axis: Axes = None) -> Tensor:
    """The same storage without axes of length one: all of them, or those in ``axis``, which must have length one."""
    if axis is None:
        return reshape(x, tuple(size for size in x.shape if size != 1))  # type: ignore[no-any-return]
    axes = normalize_axes(axis, x.ndim, "squeeze")
    if builtins.any(x.shape[a] != 1 for a in axes):
        raise ShapeError(
            f"squeeze: axis {axis} of shape {x.shape} is not of length one", op="squeeze", parameter="axis"
        )
    return reshape(x, tuple(size for a, size in enumerate(x.shape) if a not in axes))  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis: np.expand_dims(x, axis), ((3, 4), {"axis": 1}), ((3, 4), {"axis": -1}), ((), {"axis": (0, 1)})
    )
)
def unsqueeze(x: Tensor, axis: Axes) -> Tensor:
    """The same storage with an axis of length one at ``axis`` (several: positions in the result)."""
    axes = (int(axis),) if isinstance(axis, (int, np.integer)) else tuple(int(a) for a in axis)
    rank = x.ndim + len(axes)
    places, sizes = normalize_axes(axes, rank, "unsqueeze"), iter(x.shape)
    return reshape(x, tuple(1 if a in places else next(sizes) for a in range(rank)))  # type: ignore[no-any-return]


# -- strided copies ----------------------------------------------------------------------------------------------------


def _copied(
    x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0, out: Tensor | None = None
) -> Tensor:
    """A new tensor of ``shape`` whose element i is ``x`` at offset + i * strides."""
    result = x.engine.empty(tuple(shape), x.dtype) if out is None else out
    if 0 not in shape:
        x.engine.copy(
            x,
            result,
            shape=tuple(shape),
            source_strides=tuple(strides),
            source_offset=offset,
            out_strides=contiguous_strides(shape),
            out_offset=0,
        )
    return result


@computed(
    domain=sampled(
        np.transpose,
        ((2, 3, 4), {"axes": (2, 0, 1)}),
        ((5, 3), {"axes": (-1, 0)}),
        ((0, 2), {"axes": (1, 0)}),
        ((), {"axes": ()}),
    )
)
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A copy with the axes in the order ``axes``, each given once."""
    engine_of("permute", x)
    order = tuple(as_index(axis) for axis in axes)
    if len(order) != x.ndim:
        raise ShapeError(
            f"permute: shape {x.shape} has {x.ndim} axes, and axes {order} names {len(order)}",
            op="permute",
            parameter="axes",
        )
    normalize_axes(order, x.ndim, "permute")
    strides = contiguous_strides(x.shape)
    return _copied(x, [x.shape[axis] for axis in order], [strides[axis] for axis in order])


def _transposed(x: Any, axes: Any = ()) -> Any:
    return np.swapaxes(x, *axes) if len(axes) == 2 else np.transpose(x, axes or None)


@composite(
    domain=sampled(_transposed, ((2, 3, 4), {}), ((2, 3, 4), {"axes": (0, -1)}), ((2, 3, 4), {"axes": (1, 2, 0)}))
)
def transpose(x: Tensor, axes: Any = (), *more: int) -> Tensor:
    """A copy with two axes swapped, with the axes in the order of a whole permutation, or reversed when none is given.

    ``transpose(x)``, ``transpose(x, 0, 1)``, ``transpose(x, (2, 0, 1))``; two axes always mean a swap.
    """
    wanted: tuple[int, ...] = (int(axes), *more) if isinstance(axes, (int, np.integer)) else tuple(axes)
    order = list(range(x.ndim))
    if not wanted:
        order.reverse()
    elif len(wanted) == 2:
        one, two = (normalize_axes(axis, x.ndim, "transpose")[0] for axis in wanted)
        order[one], order[two] = order[two], order[one]
    else:
        order = list(wanted)
    return permute(x, order)  # type: ignore[no-any-return]


@computed(
    domain=sampled(
        np.broadcast_to, ((3, 1), {"shape": (2, 3, 4)}), ((), {"shape": (2, 2)}), ((1, 3), {"shape": (0, 3)})
    )
)
def expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A copy broadcast to ``shape`` by NumPy's rules; -1 keeps a length."""
    engine_of("expand", x)
    wanted = [as_index(size) for size in shape]
    lead = len(wanted) - x.ndim
    sizes = tuple(x.shape[a - lead] if size == -1 and a >= lead else size for a, size in enumerate(wanted))
    if lead < 0 or builtins.min(sizes, default=0) < 0 or broadcast_shapes((x.shape, sizes), "expand") != sizes:
        raise ShapeError(
            f"expand: shape {x.shape} does not broadcast to {tuple(wanted)}", op="expand", parameter="shape"
        )
    strides = [0 if size == 1 else stride for size, stride in zip(x.shape, contiguous_strides(x.shape))]
    return _copied(x, sizes, [0] * lead + strides)


broadcast_to = expand


def _slice_reference(x: Any, starts: Any, steps: Any, sizes: Any) -> Any:
    grids = [start + step * np.arange(size) for start, step, size in zip(starts, steps, sizes)]
    return x[np.ix_(*grids)] if grids else x


@computed(
    domain=sampled(
        _slice_reference,
        ((5, 6), {"starts": (4, 1), "steps": (-2, 2), "sizes": (3, 2)}),
        ((5, 6), {"starts": (0, 0), "steps": (1, 1), "sizes": (0, 6)}),
        ((), {"starts": (), "steps": (), "sizes": ()}),
    )
)
def strided_slice(x: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The block of ``x`` at starts + i * steps, i < sizes, one of each per axis. Its gradient is ``strided_place``."""
    engine_of("strided_slice", x)
    strides = contiguous_strides(x.shape)
    offset = builtins.sum(start * stride for start, stride in zip(starts, strides))
    return _copied(x, sizes, [step * stride for step, stride in zip(steps, strides)], offset)


def _place_reference(x: Any, shape: Any, starts: Any, steps: Any, value: float = 0.0) -> Any:
    out = np.full(shape, value, dtype=np.float64)
    out[np.ix_(*[start + step * np.arange(size) for start, step, size in zip(starts, steps, x.shape)])] = x
    return out


@computed(
    domain=sampled(
        _place_reference,
        ((3, 2), {"shape": (5, 6), "starts": (4, 1), "steps": (-2, 2)}),
        ((2,), {"shape": (4,), "starts": (1,), "steps": (1,), "value": 1.5}),
    )
)
def strided_place(
    x: Tensor, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], value: float = 0.0
) -> Tensor:
    """A tensor of ``shape`` full of ``value`` that holds ``x`` at starts + i * steps. Its gradient is
    ``strided_slice``.
    """
    engine = engine_of("strided_place", x)
    result = engine.empty(tuple(shape), x.dtype)
    engine.fill(result, value)
    place(x, result, starts, steps)
    return result


def place(x: Tensor, target: Tensor, starts: Sequence[int], steps: Sequence[int]) -> None:
    """Writes ``x`` into ``target`` at starts + i * steps; not an op of the table."""
    if x.size:
        strides = contiguous_strides(target.shape)
        x.engine.copy(
            x,
            target,
            shape=x.shape,
            source_strides=contiguous_strides(x.shape),
            source_offset=0,
            out_strides=tuple(step * stride for step, stride in zip(steps, strides)),
            out_offset=builtins.sum(start * stride for start, stride in zip(starts, strides)),
        )


@computed(domain=sampled(lambda x: x, ((2, 3), {}), ((), {}), ((0, 2), {})))
def transfer(x: Tensor, queue: Any = None) -> Tensor:
    """A copy of x on another queue, by way of the host where that is another device's; None is the active device.
    ``Tensor.to`` calls it.
    """
    engine_of("transfer", x)
    return engine_for(queue).receive(x)


def _concatenate_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (4, 3))), {}
    yield tuple(rng.uniform(-2, 2, (2, n, 2)) for n in (1, 0, 3)), {"axis": 1}
    yield (rng.uniform(-2, 2, 5),), {"axis": -1}


@computed(domain=Domain(cases=_concatenate_cases, reference=lambda *xs, axis=0: np.concatenate(xs, axis)))
def concatenate(*tensors: Tensor, axis: int = 0) -> Tensor:
    """The tensors one behind the other along ``axis``; all other lengths must be equal. dtypes are promoted."""
    if not tensors:
        raise ShapeError("cat: there is no tensor to join", op="cat")
    engine = engine_of("cat", *tensors)
    first = tensors[0].shape
    (at,) = normalize_axes(axis, len(first), "cat")
    for x in tensors:
        if (*x.shape[:at], *x.shape[at + 1 :]) != (*first[:at], *first[at + 1 :]) or x.ndim != len(first):
            raise ShapeError(
                f"cat: shapes {' and '.join(str(t.shape) for t in tensors)} differ beyond axis {axis}", op="cat"
            )
    dtype = promote(*(x.dtype for x in tensors))
    result = engine.empty((*first[:at], builtins.sum(x.shape[at] for x in tensors), *first[at + 1 :]), dtype)
    start, ones = 0, [1] * len(first)
    for x in tensors:
        place(as_dtype(x, dtype), result, [start if a == at else 0 for a in range(len(first))], ones)
        start += x.shape[at]
    return result


# cat and stack take a list, so their gradients are tested by concatenate's row.
_LISTS = Domain(
    gradient=False,
    cases=lambda rng: iter([(([rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (2, 3))],), {"axis": 1})]),
    reference=np.concatenate,
)


@composite(domain=_LISTS)
def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors of a list one behind the other along ``axis``; all other lengths must be equal."""
    return concatenate(*tensors, axis=axis)  # type: ignore[no-any-return]


@composite(domain=Domain(gradient=False, cases=_LISTS.cases, reference=np.stack))
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors of a list, all of one shape, along a new axis."""
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(f"stack: shapes {' and '.join(str(x.shape) for x in tensors)} are not one shape", op="stack")
    return concatenate(*(unsqueeze(x, axis) for x in tensors), axis=axis)  # type: ignore[no-any-return]


# -- compositions of these ---------------------------------------------------------------------------------------------


def part(x: Tensor, axis: int, start: int, size: int, step: int = 1) -> Tensor:
    """``size`` positions of one axis from ``start``."""
    starts, steps, sizes = [0] * x.ndim, [1] * x.ndim, list(x.shape)
    starts[axis], steps[axis], sizes[axis] = start, step, size
    return strided_slice(x, starts, steps, sizes)  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis, start, length: x[:, start : start + length], ((3, 7), {"axis": 1, "start": 2, "length": 4})
    )
)
def narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The positions start..start+length of one axis; a negative start counts from the end. IndexError outside of it."""
    (at,) = normalize_axes(axis, x.ndim, "narrow")
    begin = start + x.shape[at] if start < 0 else start
    if length < 0 or begin < 0 or begin + length > x.shape[at]:
        raise IndexError(f"narrow: {start}..{start}+{length} leaves axis {axis} of shape {x.shape}")
    return part(x, at, begin, length)


@composite(domain=sampled(lambda x, size, axis: (x[:, :3], x[:, 3:6], x[:, 6:]), ((2, 7), {"size": 3, "axis": 1})))
def split(x: Tensor, size: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of ``size`` positions along ``axis`` (the last may be smaller), or parts of the given sizes."""
    (at,) = normalize_axes(axis, x.ndim, "split")
    length = x.shape[at]
    if isinstance(size, int):
        if size <= 0:
            raise ShapeError(
                f"split: parts of {size} positions; the size must be positive", op="split", parameter="size"
            )
        sizes: Sequence[int] = [builtins.min(size, length - start) for start in range(0, length, size)] or [0]
    else:
        sizes = size
    if builtins.sum(sizes) != length or builtins.min(sizes, default=0) < 0:
        raise ShapeError(
            f"split: sizes {tuple(sizes)} do not make up axis {axis} of shape {x.shape}", op="split", parameter="size"
        )
    return tuple(part(x, at, builtins.sum(sizes[:i]), one) for i, one in enumerate(sizes))


@composite(domain=sampled(lambda x, chunks, axis: (x[:, :3], x[:, 3:6], x[:, 6:]), ((2, 7), {"chunks": 3, "axis": 1})))
def chunk(x: Tensor, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` equal parts along ``axis``, the last may be smaller."""
    (at,) = normalize_axes(axis, x.ndim, "chunk")
    if chunks <= 0:
        raise ShapeError(f"chunk: {chunks} parts; there must be one at least", op="chunk", parameter="chunks")
    return split(x, builtins.max(1, -(-x.shape[at] // chunks)), at)  # type: ignore[no-any-return]


@composite(domain=sampled(lambda x, axis: (x[:, 0], x[:, 1]), ((3, 2), {"axis": 1})))
def unbind(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``axis``, without it."""
    (at,) = normalize_axes(axis, x.ndim, "unbind")
    return tuple(squeeze(part(x, at, i, 1), at) for i in range(x.shape[at]))


@composite(domain=sampled(np.flip, ((2, 3, 4), {}), ((2, 3, 4), {"axis": (0, 2)}), ((0, 3), {"axis": 1})))
def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """A copy in reverse order along ``axis`` (int, tuple or None for all)."""
    axes = normalize_axes(axis, x.ndim, "flip")
    back = [a in axes and x.shape[a] > 0 for a in range(x.ndim)]
    starts = [x.shape[a] - 1 if back[a] else 0 for a in range(x.ndim)]
    return strided_slice(x, starts, [-1 if b else 1 for b in back], x.shape)  # type: ignore[no-any-return]


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
    """A copy whose elements have moved ``shift`` places along ``axis``, around the end; None rolls the flattened
    tensor.
    """
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)  # type: ignore[no-any-return]
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes", op="roll", parameter="shift")
    for places, one in zip(shifts, axes):
        (at,) = normalize_axes(one, x.ndim, "roll")
        cut = -places % x.shape[at] if x.shape[at] else 0
        x = concatenate(part(x, at, cut, x.shape[at] - cut), part(x, at, 0, cut), axis=at)
    return x


@composite(domain=sampled(np.tile, ((2, 3), {"reps": (2, 1, 2)}), ((3,), {"reps": 2}), ((2, 3), {"reps": (4,)})))
def tile(x: Tensor, reps: int | Sequence[int]) -> Tensor:
    """``x`` repeated reps[a] times along each axis a, as a whole; missing axes are put before."""
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = builtins.max(x.ndim, len(counts))
    counts, sizes = (1,) * (rank - len(counts)) + counts, (1,) * (rank - x.ndim) + x.shape
    if builtins.min(counts, default=0) < 0:
        raise ShapeError(f"tile: reps {counts} must not be negative", op="tile", parameter="reps")
    apart = expand(
        reshape(x, tuple(n for size in sizes for n in (1, size))), tuple(n for pair in zip(counts, sizes) for n in pair)
    )
    return reshape(apart, tuple(count * size for count, size in zip(counts, sizes)))  # type: ignore[no-any-return]


@composite(domain=sampled(np.repeat, ((2, 3), {"repeats": 2, "axis": 1}), ((2, 3), {"repeats": 3})))
def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Every element ``repeats`` times in a row along ``axis``; None repeats the flattened tensor's."""
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, 0)  # type: ignore[no-any-return]
    (at,) = normalize_axes(axis, x.ndim, "repeat")
    if repeats < 0:
        raise ShapeError(f"repeat: {repeats} repeats must not be negative", op="repeat", parameter="repeats")
    before, behind = x.shape[: at + 1], x.shape[at + 1 :]
    apart = expand(unsqueeze(x, at + 1), (*before, repeats, *behind))
    return reshape(apart, (*before[:-1], before[-1] * repeats, *behind))  # type: ignore[no-any-return]


def _below(space: Space, diagonal: int) -> Expr:
    if space.rank < 2:
        raise ShapeError(f"{space.op}: needs a matrix or a stack of them, not {space.rank} dimensions", op=space.op)
    return apply("sub", Index(space.rank - 1), Index(space.rank - 2)) - diagonal


_TRIANGLES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((4, 3), {}),
    ((2, 3, 4), {"diagonal": 1}),
    ((3, 3), {"diagonal": -1}),
)


@expression(domain=sampled(lambda x, diagonal=0: np.tril(x, diagonal), *_TRIANGLES))
def tril(x: Expr, diagonal: int = 0, *, space: Space) -> Expr:
    """The lower triangle of the last two axes up to the given diagonal, zero above it."""
    return apply("where", _below(space, diagonal) <= 0, x, 0)


@expression(domain=sampled(lambda x, diagonal=0: np.triu(x, diagonal), *_TRIANGLES))
def triu(x: Expr, diagonal: int = 0, *, space: Space) -> Expr:
    """The upper triangle of the last two axes from the given diagonal on, zero below it."""
    return apply("where", _below(space, diagonal) >= 0, x, 0)


@composite(
    domain=sampled(
        lambda x, diagonal=0: np.diag(x, diagonal),
        ((3,), {}),
        ((3,), {"diagonal": -1}),
        ((3, 4), {"diagonal": 1}),
        ((4, 3), {}),
    )
)
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix as a vector, or the square matrix with a vector on its diagonal."""
    right, down = builtins.max(diagonal, 0), builtins.max(-diagonal, 0)
    if x.ndim == 1:
        n = x.shape[0] + right + down
        return reshape(strided_place(x, (n * n,), (down * n + right,), (n + 1,)), (n, n))  # type: ignore[no-any-return]
    if x.ndim != 2:
        raise ShapeError(f"diag: needs a vector or a matrix, not shape {x.shape}", op="diag")
    rows, columns = x.shape
    length = builtins.max(0, builtins.min(rows - down, columns - right))
    return strided_slice(reshape(x, (-1,)), (down * columns + right,), (columns + 1,), (length,))  # type: ignore[no-any-return]
