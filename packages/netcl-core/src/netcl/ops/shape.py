"""Ops that move elements or rename axes: each is an alias of the same storage or one strided copy."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import lru_cache
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import promote
from netcl.core.engine.product import Block, Copies
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ShapeError
from netcl.core.layout import block_of, broadcast_shapes, contiguous_strides, normalize_axes, reduced_axes
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.storage import views
from netcl.core.storage.views import Geometry, ViewStorage
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.table import METHOD, as_dtype, composite, computed, engine_of, multiplied, viewed

Axes = Any
Shape = tuple[int, ...]


def sampled(function: Any, *cases: tuple[tuple[int, ...], dict[str, Any]]) -> Domain:
    """Cases (shape of the operand, attributes) on uniform numbers, with NumPy's ``function`` as the reference."""

    def samples(rng: np.random.Generator) -> Cases:
        for shape, attributes in cases:
            yield (rng.uniform(-2, 2, shape),), attributes

    return compared(samples, function)


# -- the same storage --------------------------------------------------------------------------------------------------


def _resolved(shape: tuple[int, ...], wanted: Any) -> tuple[int, ...]:
    sizes = [as_index(size) for size in ((wanted,) if isinstance(wanted, (int, np.integer)) else wanted)]
    total, known = math.prod(shape), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if builtins.min(sizes, default=0) < 0 or math.prod(sizes) != total:
        raise ShapeError(
            f"reshape: {total} elements of shape {shape} do not fit shape {tuple(sizes)}; one length may be -1"
        )
    return tuple(sizes)


_resolved_of = lru_cache(maxsize=4096, typed=True)(_resolved)


@viewed(
    domain=sampled(
        lambda x, shape: x.reshape(shape),
        ((2, 6), {"shape": (3, -1)}),
        ((), {"shape": (1, 1)}),
        ((1,), {"shape": ()}),
        ((0, 3), {"shape": (3, 0)}),
    ),
)
def reshape(x: Tensor, shape: Any) -> Tensor:
    """Returns the storage in another shape of the same size; a length may be -1. ShapeError names both shapes."""
    engine_of("reshape", x)
    wanted = _resolved_of(x.shape, shape) if type(shape) is tuple else _resolved(x.shape, shape)
    return views.reshaped(x, wanted)  # type: ignore[no-any-return]


@computed(domain=sampled(lambda x: x, ((2, 3), {}), ((), {})))
def contiguous(x: Tensor) -> Tensor:
    """Returns the same storage if it has the elements of ``x`` in C order, else a copy."""
    engine_of("contiguous", x)
    own = views.geometry_of(x)
    return x._alias(x.shape) if own is not None and own.is_contiguous else views.copied(x, x.shape)


@composite(
    domain=sampled(lambda x, start_dim, end_dim: x.reshape(2, 12, 1), ((2, 3, 4, 1), {"start_dim": 1, "end_dim": 2})),
    forms=METHOD,
)
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Returns the same storage with the axes start_dim..end_dim merged; a 0-d tensor becomes (1,)."""
    if x.ndim == 0:
        return reshape(x, (1,))  # type: ignore[no-any-return]
    (start,), (end,) = normalize_axes(start_dim, x.ndim, "flatten"), normalize_axes(end_dim, x.ndim, "flatten")
    if start > end:
        raise ShapeError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim} in shape {x.shape}")
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis=None: np.squeeze(x, axis),
        ((1, 3, 1), {}),
        ((1, 3, 1), {"axis": -1}),
        ((1, 3, 1), {"axis": (0, 2)}),
    ),
    forms=METHOD,
)
def squeeze(x: Tensor, axis: Axes = None) -> Tensor:
    """Returns the same storage without axes of length one, all of them or the ones in ``axis``; longer axes stay."""
    axes = reduced_axes(axis, x.ndim, "squeeze")
    shape = tuple(size for a, size in enumerate(x.shape) if size != 1 or a not in axes)
    return reshape(x, shape)  # type: ignore[no-any-return]


@composite(
    domain=sampled(
        lambda x, axis: np.expand_dims(x, axis), ((3, 4), {"axis": 1}), ((3, 4), {"axis": -1}), ((), {"axis": (0, 1)})
    ),
    forms=METHOD,
)
def unsqueeze(x: Tensor, axis: Axes) -> Tensor:
    """Returns the same storage with an axis of length one at ``axis`` (several: positions in the result)."""
    axes = (int(axis),) if isinstance(axis, (int, np.integer)) else tuple(int(a) for a in axis)
    rank = x.ndim + len(axes)
    positions, sizes = normalize_axes(axes, rank, "unsqueeze"), iter(x.shape)
    return reshape(x, tuple(1 if a in positions else next(sizes) for a in range(rank)))  # type: ignore[no-any-return]


# -- strided copies ----------------------------------------------------------------------------------------------------


def strided_copy(
    x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0, out: Tensor | None = None
) -> Tensor:
    """Returns a new tensor of ``shape``; its element i is ``x`` at offset + i * strides."""
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


@lru_cache(maxsize=4096, typed=True)
def _walk(shape: tuple[int, ...], how: str, args: tuple[Any, ...]) -> tuple[Geometry, bool]:
    """Returns the elements of a contiguous tensor that ``how(*args)`` names; True if they are all, in their order."""
    walk: Geometry = getattr(Geometry(shape, contiguous_strides(shape)), how)(*args)
    count = math.prod(shape)
    return walk, walk.offset == 0 and math.prod(walk.shape) == count and walk.is_contiguous and count > 0


def view(x: Tensor, how: str, *args: Any) -> Tensor:
    """Returns the elements of ``x`` that ``how(*args)`` of its Geometry names: a view, which is gathered at its first
    use; at once in a captured step.
    """
    walk, same = _walk(x.shape, how, args)
    if same:
        return x._alias(walk.shape)
    known: Geometry | None = walk
    if type(x._storage) is ViewStorage:
        own = views.geometry_of(x)
        known = own and getattr(own, how)(*args)
    elif x._storage.deferred is not None:
        x._storage.materialize()
    if known is not None and x.engine.recording is None and 0 not in walk.shape and not views.released(x):
        return views.stale(x, known)  # type: ignore[no-any-return]
    result = strided_copy(x, walk.shape, walk.strides, walk.offset)
    return views.link(result, x, known)  # type: ignore[no-any-return]


@viewed(
    domain=sampled(
        np.transpose,
        ((2, 3, 4), {"axes": (2, 0, 1)}),
        ((5, 3), {"axes": (-1, 0)}),
        ((0, 2), {"axes": (1, 0)}),
        ((), {"axes": ()}),
    ),
)
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Returns a copy with the axes in the order ``axes``, each given once."""
    engine_of("permute", x)
    order = tuple(as_index(axis) for axis in axes)
    if len(order) != x.ndim:
        raise ShapeError(
            f"permute: shape {x.shape} has {x.ndim} axes, and axes {order} names {len(order)}", parameter="axes"
        )
    normalize_axes(order, x.ndim, "permute")
    return view(x, "permuted", order)


def _transposed(x: Any, axes: Any = ()) -> Any:
    return np.swapaxes(x, *axes) if len(axes) == 2 else np.transpose(x, axes or None)


@composite(
    domain=sampled(_transposed, ((2, 3, 4), {}), ((2, 3, 4), {"axes": (0, -1)}), ((2, 3, 4), {"axes": (1, 2, 0)})),
)
def transpose(x: Tensor, axes: Any = (), *more: int) -> Tensor:
    """Returns a copy with two axes swapped, with the axes in the order of a whole permutation, or reversed if none is
    given.

    ``transpose(x)``, ``transpose(x, 0, 1)``, ``transpose(x, (2, 0, 1))``; two axes always mean a swap.
    """
    wanted: tuple[int, ...] = (int(axes), *more) if isinstance(axes, (int, np.integer)) else tuple(axes)
    return permute(x, _order(x.ndim, wanted))  # type: ignore[no-any-return]


@lru_cache(maxsize=1024, typed=True)
def _order(ndim: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the order of the axes of a transpose by ``wanted``."""
    order = list(range(ndim))
    if not wanted:
        order.reverse()
    elif len(wanted) == 2:
        first, second = (normalize_axes(axis, builtins.max(ndim, 1), "transpose")[0] for axis in wanted)
        if ndim:
            order[first], order[second] = order[second], order[first]
    else:
        order = list(wanted)
    return tuple(order)


@viewed(
    domain=sampled(
        np.broadcast_to, ((3, 1), {"shape": (2, 3, 4)}), ((), {"shape": (2, 2)}), ((1, 3), {"shape": (0, 3)})
    ),
    forms="x.broadcast_to",
)
def expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns a copy broadcast to ``shape`` by NumPy's rules; -1 keeps a length."""
    engine_of("expand", x)
    wanted = [as_index(size) for size in shape]
    lead = len(wanted) - x.ndim
    sizes = tuple(x.shape[a - lead] if size == -1 and a >= lead else size for a, size in enumerate(wanted))
    if lead < 0 or builtins.min(sizes, default=0) < 0 or broadcast_shapes((x.shape, sizes), "expand") != sizes:
        raise ShapeError(f"expand: shape {x.shape} does not broadcast to {tuple(wanted)}", parameter="shape")
    return view(x, "expanded", sizes)


broadcast_to = expand


@viewed(
    domain=sampled(
        lambda x, size, stride, storage_offset=0: np.lib.stride_tricks.as_strided(
            x.reshape(-1)[storage_offset:].copy(), size, [x.itemsize * step for step in stride]
        ),
        ((3, 4), {"size": (2, 3), "stride": (5, 2), "storage_offset": 1}),
        ((9,), {"size": (4, 3), "stride": (2, 1)}),
        ((2, 3), {"size": (), "stride": (), "storage_offset": 5}),
        ((2, 3), {"size": (2, 2), "stride": (0, 3)}),
    ),
)
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0) -> Tensor:
    """The elements of ``x`` in C order at storage_offset + i * stride: a view of shape ``size``.

    Raises ShapeError for steps that are negative or of another number than the lengths, and outside of ``x``.
    """
    engine_of("as_strided", x)
    shape, steps, offset = tuple(map(as_index, size)), tuple(map(as_index, stride)), as_index(storage_offset)
    last = offset + builtins.sum((length - 1) * step for length, step in zip(shape, steps))
    if len(shape) != len(steps) or builtins.min((*shape, *steps, offset), default=0) < 0:
        raise ShapeError(
            f"as_strided: expected as many lengths as steps, none negative, got size {shape}, stride {steps} and "
            f"storage_offset {offset}"
        )
    if 0 not in shape and last >= x.size:
        raise ShapeError(
            f"as_strided: size {shape}, stride {steps} and storage_offset {offset} reach element {last} of {x.size}"
        )
    return view(contiguous(x), "strided", shape, steps, offset)


def _windows_reference(x: Any, axis: int, size: int, step: int) -> Any:
    every = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return every[(slice(None),) * (axis % x.ndim) + (slice(None, None, step),)]


@viewed(
    domain=sampled(
        _windows_reference,
        ((2, 7), {"axis": 1, "size": 3, "step": 1}),
        ((7, 2), {"axis": 0, "size": 3, "step": 2}),
        ((2, 5, 2), {"axis": -2, "size": 1, "step": 3}),
    ),
)
def windows(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Returns windows of ``size`` elements along ``axis``, one at every ``step`` positions, in a new last axis: a view.

    Raises ShapeError for windows that are longer than the axis and for a step that is not positive.
    """
    engine_of("unfold", x)
    (at,) = normalize_axes(axis, x.ndim, "unfold")
    length = x.shape[at]
    if not 0 <= size <= length or step <= 0:
        raise ShapeError(f"unfold: windows of {size} elements, {step} apart, along an axis of length {length}")
    return view(x, "windows", at, size, step)


def _slice_reference(x: Any, starts: Any, steps: Any, sizes: Any, shape: Any = None) -> Any:
    grids = [start + step * np.arange(size) for start, step, size in zip(starts, steps, sizes)]
    block = x[np.ix_(*grids)] if grids else x
    return block if shape is None else block.reshape(shape)


@viewed(
    domain=sampled(
        _slice_reference,
        ((5, 6), {"starts": (4, 1), "steps": (-2, 2), "sizes": (3, 2)}),
        ((5, 6), {"starts": (0, 0), "steps": (1, 1), "sizes": (0, 6)}),
        ((), {"starts": (), "steps": (), "sizes": ()}),
        ((5, 6), {"starts": (2, 1), "steps": (1, 2), "sizes": (1, 2), "shape": (2, 1)}),
    ),
)
def strided_slice(
    x: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int], shape: Sequence[int] | None = None
) -> Tensor:
    """Returns the block of ``x`` at starts + i * steps, i < sizes, one each per axis, in ``shape``, which differs from
    ``sizes`` in axes of length 1 alone. Its gradient is ``strided_scatter``.
    """
    engine_of("strided_slice", x)
    return view(x, "sliced", tuple(starts), tuple(steps), tuple(sizes), None if shape is None else tuple(shape))


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
def strided_scatter(
    x: Tensor, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], value: float = 0.0
) -> Tensor:
    """Returns a tensor of ``shape`` full of ``value`` that holds ``x`` at starts + i * steps. Its gradient is
    ``strided_slice``.
    """
    engine = engine_of("strided_scatter", x)
    return engine.scatter_block(x, shape=tuple(shape), starts=starts, steps=steps, value=value)


def write_slice(x: Tensor, target: Tensor, starts: Sequence[int], steps: Sequence[int]) -> None:
    """Writes ``x`` into ``target`` at starts + i * steps; it is not an op of the table."""
    if x.size:
        strides, offset = block_of(target.shape, starts, steps)
        x.engine.copy(
            x,
            target,
            shape=x.shape,
            source_strides=contiguous_strides(x.shape),
            source_offset=0,
            out_strides=strides,
            out_offset=offset,
        )


@computed(domain=sampled(lambda x: x, ((2, 3), {}), ((), {}), ((0, 2), {})))
def transfer(x: Tensor, queue: Any = None) -> Tensor:
    """Returns a copy of x on another queue (None: the active device's), perhaps through the host, for ``Tensor.to``."""
    engine_of("transfer", x)
    return engine_for(queue).receive(x)


def _concatenate_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (4, 3))), {}
    yield tuple(rng.uniform(-2, 2, (2, n, 2)) for n in (1, 0, 3)), {"axis": 1}
    yield (rng.uniform(-2, 2, 5),), {"axis": -1}


@lru_cache(maxsize=4096)
def _blocks(shapes: tuple[Shape, ...], at: int) -> tuple[Shape, tuple[Block, ...]]:
    """Returns the shape of tensors that are joined along the axis ``at``, and its blocks that are copies of them."""
    first = shapes[0]
    for shape in shapes:
        if (*shape[:at], *shape[at + 1 :]) != (*first[:at], *first[at + 1 :]) or len(shape) != len(first):
            raise ShapeError(f"cat: shapes {' and '.join(map(str, shapes))} differ beyond axis {at}")
    whole = (*first[:at], builtins.sum(shape[at] for shape in shapes), *first[at + 1 :])
    strides, start, blocks = contiguous_strides(whole), 0, []
    for shape in shapes:
        blocks.append(Block(shape, contiguous_strides(shape), 0, strides, start))
        start += shape[at] * strides[at]
    return whole, tuple(blocks)


def _copies(*tensors: Tensor, axis: int = 0) -> Copies | None:
    """Returns the copies that a call of ``concatenate`` is; None with conversions or empty tensors."""
    first = tensors[0]
    if any(x.dtype != first.dtype or not x.size for x in tensors):
        return None
    (at,) = normalize_axes(axis, first.ndim, "cat")
    whole, blocks = _blocks(tuple([x.shape for x in tensors]), at)
    return Copies(whole, first.dtype, blocks)


@multiplied(_copies, domain=compared(_concatenate_cases, lambda *xs, axis=0: np.concatenate(xs, axis)))
def concatenate(*tensors: Tensor, axis: int = 0) -> Tensor:
    """Returns the tensors concatenated along ``axis``; all other lengths must be equal. dtypes are promoted."""
    if not tensors:
        raise ShapeError("cat: there is no tensor to join")
    engine = engine_of("cat", *tensors)
    (at,) = normalize_axes(axis, tensors[0].ndim, "cat")
    whole, blocks = _blocks(tuple([x.shape for x in tensors]), at)
    dtype = promote(*(x.dtype for x in tensors))
    result = engine.empty(whole, dtype)
    for x, block in zip(tensors, blocks):
        if x.size:
            engine.copy(as_dtype(x, dtype), result, **block._asdict())
    return result  # type: ignore[no-any-return]


# cat and stack take a list, so their gradients are tested by concatenate's row.
_LISTS = compared(
    lambda rng: iter([(([rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (2, 3))],), {"axis": 1})]),
    np.concatenate,
    gradient=False,
)


@composite(domain=_LISTS)
def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Returns the tensors of a list concatenated along ``axis``; all other lengths must be equal. An empty tensor of
    one axis is left out next to tensors of more axes.
    """
    whole = [x for x in tensors if x.shape != (0,)]
    if len(whole) == len(tensors) or not whole or whole[0].ndim == 1:
        return concatenate(*tensors, axis=axis)  # type: ignore[no-any-return]
    return concatenate(*whole, axis=axis).astype(promote(*(x.dtype for x in tensors)))  # type: ignore[no-any-return]


@composite(domain=compared(_LISTS.cases, np.stack, gradient=False))
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Returns the tensors of a list, all of one shape, along a new axis."""
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(f"stack: shapes {' and '.join(str(x.shape) for x in tensors)} are not one shape")
    (at,) = normalize_axes(axis, tensors[0].ndim + 1 if tensors else 1, "stack")
    rows_table = views.rows_of_one(tensors) if at == 0 and tensors and tensors[0].engine.recording is None else None
    if rows_table is not None:
        table, rows = rows_table
        positions = table.engine.tensor(np.asarray(rows), "int64")
        taken = table.engine.index("take", table, positions, axis=0, op="stack")
        return taken._alias((len(rows), *tensors[0].shape))  # type: ignore[no-any-return]
    if tensors and at < tensors[0].ndim:
        shape = tensors[0].shape
        return reshape(concatenate(*tensors, axis=at), (*shape[:at], len(tensors), *shape[at:]))  # type: ignore[no-any-return]
    return concatenate(*(unsqueeze(x, at) for x in tensors), axis=at)  # type: ignore[no-any-return]
