"""Indexing with brackets: ``x[key]`` copies, ``x[key] = value`` writes in place, both by NumPy's rules.

Ints, slices with any step, Ellipsis and None are one strided copy. One array or tensor of whole numbers selects along
its axis, wherever its values are; boolean masks and several arrays are worked out on the host.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.core.dispatch import Domain
from netcl.core.errors import ShapeError, UnsupportedError
from netcl.core.expr import Load, apply
from netcl.core.host import to_storage
from netcl.core.layout import aligned, broadcast_shapes, contiguous_strides
from netcl.core.tensor import Tensor
from netcl.ops.index import index_select
from netcl.ops.shape import reshape, strided_slice
from netcl.ops.table import as_dtype, composite, computed, engine_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Block:
    """What a key of ints, slices, Ellipsis and None selects: start, step and size per axis, and the shape that it has
    then.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[int | None, ...]  # for each axis of ``shape`` the axis of the tensor; None for a new one


def _spread(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """The key as one entry per axis, with Nones between; lists become arrays."""
    items = [_as_array(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = builtins.sum(_consumed(item) for item in items)
    if used > len(shape):
        raise IndexError(f"getitem: {used} indices for shape {shape} with {len(shape)} axes")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("getitem: an index holds one ellipsis at most")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (len(shape) - used), *items[at + 1 :]]


def _as_array(item: Any) -> Any:
    """A list as an array; the empty one, which NumPy would call float64, of whole numbers."""
    if not isinstance(item, (list, range)):
        return item
    array = np.asarray(item)
    return array if array.size else array.astype(np.int64)


def _consumed(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, bool) or not isinstance(item, (int, np.integer, slice, np.ndarray, Tensor)):
        raise UnsupportedError(
            f"getitem: {type(item).__name__} is no index; there are ints, slices, Ellipsis, None, boolean masks, "
            "and lists, arrays or tensors of whole numbers",
            op="getitem",
        )
    if isinstance(item, (np.ndarray, Tensor)) and _is_mask(item):
        return item.ndim
    return 1


def _is_mask(item: Any) -> bool:
    return str(item.dtype) == "bool"


def _block(items: Sequence[Any], shape: tuple[int, ...]) -> Block:
    """The block of a key without arrays (an array's axis is taken whole)."""
    starts, steps, sizes, final = [], [], [], []
    axes: list[int | None] = []
    axis = 0
    for item in items:
        if item is None:
            final.append(1)
            axes.append(None)
            continue
        n = shape[axis]
        if isinstance(item, (int, np.integer)):
            if not -n <= item < n:
                raise IndexError(f"getitem: index {item} is out of range for axis {axis} of shape {shape}")
            start, step, size = int(item) % n, 1, 1
        else:
            start, stop, step = (item if isinstance(item, slice) else slice(None)).indices(n)
            size = len(range(start, stop, step))
            start = start if size else 0
            final.append(size)
            axes.append(axis)
        starts.append(start)
        steps.append(step)
        sizes.append(size)
        axis += 1
    return Block(tuple(starts), tuple(steps), tuple(sizes), tuple(final), tuple(axes))


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, Tensor))


def _positions(items: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """The flat positions that a key with host arrays selects, by NumPy itself."""
    key = []
    for item in items:
        if isinstance(item, Tensor):
            if not _is_mask(item):
                raise UnsupportedError(
                    "getitem: a tensor of indices beside another array, or beside an int, is not supported; "
                    "use arrays of the host, one tensor with slices, or ops.gather",
                    op="getitem",
                )
            item = item.numpy()
        key.append(item)
    size = int(np.prod(shape, dtype=np.int64))
    positions: Array = np.arange(size).reshape(shape)[tuple(key)]
    return positions


_KEYS: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((5, 6), 2),
    ((5, 6), (slice(None, None, -2), slice(1, None, 3))),
    ((5, 6), (Ellipsis, -1)),
    ((4,), (None, slice(2, 0, -1), None)),
    ((2, 3, 4), (1, Ellipsis, None, slice(0, 0))),
    ((), ()),
    ((5, 6), [3, 0, -1]),
    ((5, 6, 2), (slice(1, 4), np.array([[0, 5], [2, 2]]))),
    ((2, 5, 3), (1, slice(None), np.array([2, 0]))),
    ((4, 5), (np.array([0, 3, 3]), np.array([1, 0, 4]))),
    ((3, 4), np.arange(12).reshape(3, 4) % 3 == 0),
    ((3, 4), (slice(None), np.array([True, False, True, True]))),
)


def _cases(rng: np.random.Generator) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for shape, key in _KEYS:
        yield (rng.uniform(-2, 2, shape),), {"key": key}


@composite(domain=Domain(cases=_cases, reference=lambda x, key: x[key]))
def getitem(x: Tensor, key: Any) -> Tensor:
    """A copy of ``x[key]``. IndexError for a host index out of range, UnsupportedError names what else a key may
    hold.
    """
    engine_of("getitem", x)
    items = _spread(key, x.shape)
    arrays = [item for item in items if _is_array(item)]
    if not arrays:
        block = _block(items, x.shape)
        y = strided_slice(x, block.starts, block.steps, block.sizes)
        return y if y.shape == block.shape else reshape(y, block.shape)  # type: ignore[no-any-return]
    alone = len(arrays) == 1 and not _is_mask(arrays[0]) and not any(isinstance(i, (int, np.integer)) for i in items)
    if not alone:
        return index_select(reshape(x, (x.size,)), 0, _positions(items, x.shape))  # type: ignore[no-any-return]
    block = _block(items, x.shape)
    at = block.axes.index(builtins.sum(item is not None for item in items[: [_is_array(i) for i in items].index(True)]))
    if any(item is None or isinstance(item, slice) and item != slice(None) for item in items):
        x = reshape(strided_slice(x, block.starts, block.steps, block.sizes), block.shape)
    return index_select(x, at, arrays[0])  # type: ignore[no-any-return]


def _set_reference(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


@computed(domain=Domain(gradient=False))
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Writes ``value`` (a number, host values or a tensor that broadcasts) into ``x[key]``, in place."""
    engine = engine_of("setitem", x)
    items = _spread(key, x.shape)
    if any(_is_array(item) for item in items):
        _set_positions(x, _positions(_on_host(items), x.shape), value)
        return
    block = _block(items, x.shape)
    source = _value(x, value)
    while source.ndim > len(block.shape) and source.shape[0] == 1:
        source = source._alias(Tensor, source.shape[1:])
    if broadcast_shapes((source.shape, block.shape), "setitem") != block.shape:
        raise ShapeError(f"setitem: values of shape {source.shape} do not fit the block {block.shape}", op="setitem")
    if 0 in block.shape:
        return
    shape, strides = aligned(source.shape, len(block.shape)), contiguous_strides(source.shape)
    strides = (0,) * (len(shape) - len(strides)) + strides
    given = {axis: 0 if size == 1 else stride for axis, size, stride in zip(block.axes, shape, strides)}
    own = contiguous_strides(x.shape)
    engine.copy(
        source,
        x,
        shape=block.sizes,
        source_strides=tuple(given.get(axis, 0) for axis in range(x.ndim)),
        source_offset=0,
        out_strides=tuple(step * stride for step, stride in zip(block.steps, own)),
        out_offset=builtins.sum(start * stride for start, stride in zip(block.starts, own)),
    )


def _on_host(items: Sequence[Any]) -> list[Any]:
    return [item.numpy() if isinstance(item, Tensor) else item for item in items]


def _value(x: Tensor, value: Any) -> Tensor:
    """``value`` as a tensor of x's dtype beside it, in storage of its own."""
    if isinstance(value, Tensor):
        engine_of("setitem", x, value)
        return (
            as_dtype(value, x.dtype)
            if value.storage is not x.storage
            else strided_slice.row.call(  # type: ignore[misc]
                value, (0,) * value.ndim, (1,) * value.ndim, value.shape
            )
        )
    if isinstance(value, (bool, int, float, np.generic)):
        source = x.engine.empty((), x.dtype)
        x.engine.fill(source, value.item() if isinstance(value, np.generic) else value)
        return source
    return x.engine.tensor(*to_storage(value, x.dtype))


def _set_positions(x: Tensor, positions: Array, value: Any) -> None:
    """x.flat[positions] = value; where a position comes twice its last value stays, as in NumPy."""
    source = _value(x, value)
    if broadcast_shapes((source.shape, positions.shape), "setitem") != positions.shape:
        raise ShapeError(f"setitem: values of shape {source.shape} do not fit {positions.shape}", op="setitem")
    if positions.size == 0:
        return
    numbers = np.broadcast_to(np.arange(source.size).reshape(source.shape), positions.shape)
    chosen = np.full(x.size, -1, np.int64)
    chosen[positions.reshape(-1)] = numbers.reshape(-1)
    flat, values = x._alias(Tensor, (x.size,)), source._alias(Tensor, (source.size,))
    picked = x.engine.index("take", values, x.engine.tensor(np.maximum(chosen, 0), "int64"), axis=0)
    hit = x.engine.tensor(chosen >= 0, "bool")
    x.engine.run(
        (apply("where", Load(0, "bool"), Load(1, x.dtype), Load(2, x.dtype)),), (hit, picked, flat), out=(flat,)
    )
