"""Indexing with brackets: ``x[key]`` and ``x[key] = value``, which writes in place, both by NumPy's rules.

Ints, slices with any step, Ellipsis and None give a view. Arrays and tensors of integers, on host or device,
select rows of the result; a mask is replaced by its true positions.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.core.errors import OutOfRangeError, ShapeError
from netcl.core.expr import Load, apply
from netcl.core.layout import aligned, contiguous_strides
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.storage.host import to_storage
from netcl.core.storage.views import check_writable, flush
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.index import broadcasts, select, take_at
from netcl.ops.keys import (
    Block,
    Selection,
    block_of,
    check_mask,
    is_array,
    is_list_of_entries,
    is_mask,
    row_positions,
    select_by,
    spread,
)
from netcl.ops.scatter import add_at, fitting, of_bools, put_at
from netcl.ops.shape import expand, permute, reshape, strided_copy, strided_slice
from netcl.ops.table import WRITTEN_TOO, as_dtype, composite, computed, engine_of

Shape = tuple[int, ...]

_KEYS: tuple[tuple[Shape, Any], ...] = (
    ((5, 6), 2),
    ((5, 6), (slice(None, None, -2), slice(1, None, 3))),
    ((5, 6), (Ellipsis, -1)),
    ((4,), (None, slice(2, 0, -1), None)),
    ((2, 3, 4), (1, Ellipsis, None, slice(0, 0))),
    ((), ()),
    ((5, 6), [3, 0, -1]),
    ((5, 6, 2), (slice(1, 4), np.array([[0, 5], [2, 2]]))),
    ((2, 5, 3), (1, slice(None), np.array([2, 0]))),
    ((4, 5), (np.array([0, 3, 3]), np.array([1, 0, -4]))),
    ((3, 4, 2), (np.array([[2], [0]]), slice(3, 0, -2), np.array([1, 0, 1]))),
    ((3, 4), np.arange(12).reshape(3, 4) % 3 == 0),
    ((3, 4), (slice(None), np.array([True, False, True, True]))),
    ((2, 3, 3, 2), (np.array([1, 0, 1]), np.eye(3, dtype=bool), None)),
    ((3,), True),
)


def _cases(rng: np.random.Generator) -> Cases:
    for shape, key in _KEYS:
        yield (rng.uniform(-2, 2, shape),), {"key": key}


def _shaped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else reshape(x, shape)


def _block(x: Tensor, block: Block) -> Tensor:
    if not block.whole(x.shape):
        x = strided_slice(x, block.starts, block.steps, block.sizes, block.shape)
    return x


@composite(domain=compared(_cases, lambda x, key: x[key]))
def getitem(x: Tensor, key: Any) -> Tensor:
    """Returns ``x[key]``: a view for a key of ints, slices, Ellipsis and None, else a copy.

    Raises IndexError for a host index out of range at once; for one on the device at the next host read. A mask on the
    device costs a host read of its number of true elements. Raises UnsupportedError for any other key.
    """
    engine = engine_of("getitem", x)
    numbers = key if type(key) is tuple else (key,)
    if isinstance(key, (Tensor, np.ndarray, list)) and x.ndim and not is_list_of_entries(key):
        rows = key if isinstance(key, Tensor) else np.asarray(key)
        if rows.ndim and rows.dtype != "bool" and rows.size:
            return select("getitem", x, 0, rows)
    block = _known_block(numbers, x.shape)
    items = () if block is not None else spread("getitem", key, x.shape)
    if block is not None or not any(map(is_array, items)):
        block = block or block_of("getitem", items, x.shape)
        return strided_slice(x, block.starts, block.steps, block.sizes, block.shape)  # type: ignore[no-any-return]
    chosen = select_by("getitem", items, x.shape)
    positions = row_positions("getitem", engine, chosen)
    y = _moved(_block(_shaped(x, chosen.merged), chosen.block), chosen.order)
    rows = take_at(_shaped(y, chosen.table), positions, 1, True, "getitem")
    return _shaped(rows, chosen.result(positions.shape))


def _known_block(key: tuple[Any, ...], shape: Shape) -> Block | None:
    """Returns the block of a key of ints, slices of ints, Ellipsis and None; None for any other key."""
    parts: list[Any] = []
    for item in key:
        if type(item) is slice:
            parts.append((item.start, item.stop, item.step))
            if not _BOUNDS.issuperset(map(type, parts[-1])):
                return None
        elif type(item) is int or item is None or item is Ellipsis:
            parts.append(item)
        else:
            return None
    return _block_of(tuple(parts), shape)


_BOUNDS = frozenset((int, type(None)))


@lru_cache(maxsize=4096)
def _block_of(parts: tuple[Any, ...], shape: Shape) -> Block:
    key = tuple([slice(*part) if type(part) is tuple else part for part in parts])
    return block_of("getitem", spread("getitem", key, shape), shape)


def _moved(x: Tensor, order: Sequence[int]) -> Tensor:
    return x if list(order) == list(range(x.ndim)) else permute(x, order)


# -- writing in place --------------------------------------------------------------------------------------------------


@computed(domain=Domain(gradient=False))
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Writes ``value`` (a number, host values or a tensor that broadcasts) into ``x[key]``, in place.

    If a key names a position twice its last value stays, as in NumPy. A mask on the device is read on the host only if
    the value has an element for each true position.
    """
    engine_of("setitem", x)
    check_writable(x)
    items = spread("setitem", key, x.shape)
    source = _value(x, value)
    if not any(map(is_array, items)):
        _set_block(x, block_of("setitem", items, x.shape), source)
    elif _set_masked(x, items, source):
        flush((x,))  # the engine has counted this write
        return
    else:
        _set_rows(x, select_by("setitem", items, x.shape), source)
    x._storage.written()
    flush((x,))


def _value(x: Tensor, value: Any) -> Tensor:
    """Returns ``value`` as a tensor of x's dtype on x's device, in separate storage."""
    if isinstance(value, Tensor):
        engine_of("setitem", x, value)
        return as_dtype(value, x.dtype) if value.storage_id != x.storage_id else _copied(value)
    if isinstance(value, (bool, int, float, np.generic)):
        source = x.engine.empty((), x.dtype)
        x.engine.fill(source, value.item() if isinstance(value, np.generic) else value)
        return source  # type: ignore[no-any-return]
    return x.engine.tensor(*to_storage(value, x.dtype))  # type: ignore[no-any-return]


def _copied(x: Tensor) -> Tensor:
    return strided_copy(x, x.shape, contiguous_strides(x.shape))


def _fitted(source: Tensor, shape: Shape) -> Tensor:
    """Returns ``source`` without leading axes of length one that ``shape`` lacks; ShapeError unless it broadcasts."""
    while source.ndim > len(shape) and source.shape[0] == 1:
        source = source._alias(source.shape[1:])
    if not broadcasts(source.shape, shape):
        raise ShapeError(f"setitem: values of shape {source.shape} do not fit the selection {shape}")
    return source


def _walk(x: Tensor, block: Block, order: Sequence[int]) -> tuple[Shape, Shape, int]:
    """Returns lengths and strides of a block of x in the order of ``order``, and its offset."""
    own = contiguous_strides(x.shape)
    strides = [0 if axis is None else own[axis] * block.steps[axis] for axis in block.axes]
    start = builtins.sum(start * stride for start, stride in zip(block.starts, own))
    return tuple(block.shape[axis] for axis in order), tuple(strides[axis] for axis in order), start


def _set_block(x: Tensor, block: Block, source: Tensor) -> None:
    source = _fitted(source, block.shape)
    shape, strides, start = _walk(x, block, range(len(block.shape)))
    steps = (0,) * (len(shape) - source.ndim) + contiguous_strides(source.shape)
    steps = tuple(0 if size == 1 else step for size, step in zip(aligned(source.shape, len(shape)), steps))
    x.engine.copy(source, x, shape=shape, source_strides=steps, source_offset=0, out_strides=strides, out_offset=start)


def _set_masked(x: Tensor, items: Sequence[Any], source: Tensor) -> bool:
    """Writes where a mask is true, if it is the key's only array, the rest is whole, and all selected positions get the
    same value; no host read.
    """
    at = [is_array(item) for item in items].index(True)
    mask = items[at]
    rest = [item for i, item in enumerate(items) if i != at]
    if not is_mask(mask) or mask.ndim == 0 or any(item != slice(None) for item in rest if not is_array(item)):
        return False
    if any(map(is_array, rest)):
        return False
    check_mask("setitem", mask, x.shape[at : at + mask.ndim], x.shape)
    behind = len(rest) - at
    shape = aligned(source.shape, at + 1 + behind)
    if source.ndim > len(shape) or shape[at] != 1:
        return False
    value = source._alias((*shape[:at], *(1,) * mask.ndim, *shape[at + 1 :]))
    if not broadcasts(value.shape, x.shape):
        known = (*x.shape[:at], "n", *x.shape[at + mask.ndim :])
        raise ShapeError(f"setitem: values of shape {source.shape} do not fit the selection {known}")
    if not isinstance(mask, Tensor):
        mask = x.engine.tensor(np.asarray(mask, order="C"), "bool")
    engine_of("setitem", x, mask)
    mask = mask._alias((*mask.shape, *(1,) * behind))
    chosen = apply("where", Load(0, "bool"), Load(1, x.dtype), Load(2, x.dtype))
    x.engine.run((chosen,), (mask, value, x), out=(x,))
    return True


def _set_rows(x: Tensor, chosen: Selection, source: Tensor) -> None:
    """Writes the rows that arrays select: into x, or into a copy of the block that is then written back."""
    engine = x.engine
    positions = row_positions("setitem", engine, chosen)
    if positions.storage_id == x.storage_id:
        positions = _copied(positions)
    result = chosen.result(positions.shape)
    source = _fitted(source, result)
    if 0 in result:
        return
    if source.shape != result:
        source = expand.row.call(source, result)  # type: ignore[misc]
    before, _, after = chosen.table
    rows = source._alias((before, positions.size, after))
    positions = positions._alias((positions.size,))
    whole = x._alias(chosen.merged)
    if chosen.block.whole(chosen.merged) and chosen.order == tuple(range(len(chosen.order))):
        engine.index("put", rows, positions, axis=1, out=whole._alias(chosen.table), op="setitem")
        return
    shape, strides, start = _walk(whole, chosen.block, chosen.order)
    part = engine.empty(shape, x.dtype)
    own = contiguous_strides(shape)
    engine.copy(whole, part, shape=shape, source_strides=strides, source_offset=start, out_strides=own, out_offset=0)
    engine.index("put", rows, positions, axis=1, out=part._alias(chosen.table), op="setitem")
    engine.copy(part, whole, shape=shape, source_strides=own, source_offset=0, out_strides=strides, out_offset=start)


# -- writing into a copy -----------------------------------------------------------------------------------------------


def _put_reference(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    out = np.array(x)
    key: Any = tuple(slice(None) if index is None else np.asarray(index) for index in indices)
    if accumulate:
        np.add.at(out, key, values)
    else:
        out[key] = values
    return out


def _put_cases(rng: np.random.Generator) -> Cases:
    pairs = [np.array([0, 2, 0, -1]), np.array([1, 1, 1, 3])]
    for accumulate in (False, True):
        yield (rng.uniform(-2, 2, (3, 4, 2)), pairs, rng.uniform(-2, 2, (4, 2))), {"accumulate": accumulate}
    yield (rng.uniform(-2, 2, (3, 4)), [None, np.array([[2, 0], [2, 3]])], rng.uniform(-2, 2, (3, 1, 2))), {}
    yield (rng.uniform(-2, 2, (3, 2, 4)), [pairs[0], None, pairs[1]], rng.uniform(-2, 2, 2)), {}
    yield (rng.uniform(-2, 2, (3, 4)), [np.eye(3, 4) > 0], np.array(1.5)), {}


@composite(domain=compared(_put_cases, _put_reference), forms=WRITTEN_TOO)
def index_put(x: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """Returns a copy of x with ``values``, which broadcast, written at (or with ``accumulate`` added to) x[indices].

    ``indices`` holds tensors, arrays or lists of integers, or masks; None selects a whole axis. If a position is
    named twice the last value stays, or all are added in their order: the same bits on every run.
    """
    op = "index_put"
    engine = engine_of(op, x)
    if accumulate and x.dtype == "bool":
        return of_bools(index_put, x, indices, values, accumulate)
    items = spread(op, tuple(slice(None) if index is None else index for index in indices), x.shape)
    if not any(map(is_array, items)):
        raise OutOfRangeError(f"{op}: indices hold one tensor, array or list at least")
    if not isinstance(values, Tensor):
        values = _value(x, values)
    engine_of(op, x, values)
    chosen = select_by(op, items, x.shape)
    positions = row_positions(op, engine, chosen)
    result = chosen.result(positions.shape)
    if not broadcasts(values.shape, result):
        raise ShapeError(f"{op}: values {values.shape} do not broadcast to the selection {result}")
    values = fitting(op, x, values)
    if values.shape != result:
        values = expand(values, result)
    before, _, after = chosen.table
    table = _shaped(_moved(_block(_shaped(x, chosen.merged), chosen.block), chosen.order), chosen.table)
    rows = _shaped(values, (before, *positions.shape, after))
    changed = (add_at if accumulate else put_at)(table, positions, rows, 1, True, op)
    back = [chosen.order.index(axis) for axis in range(len(chosen.order))]
    return _shaped(_moved(_shaped(changed, chosen.moved), back), x.shape)
