"""Parses keys of ``x[key]`` by NumPy's rules: ints, slices, Ellipsis, None, masks, and arrays of indices."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

from netcl.core.engine.protocol import OUT_OF_RANGE, DeviceBackend
from netcl.core.errors import KeyKindError, OutOfRangeError
from netcl.core.expr import Expr, Load, Scalar, place_of
from netcl.core.layout import broadcast_shapes
from netcl.core.tensor import Tensor
from netcl.ops.index import indices_on, wrapped
from netcl.ops.masking import true_positions
from netcl.ops.shape import expand

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
# Lists from this length on are not looked through for what makes them tuples.
_LONG_LIST = 32
_ENTRIES = (slice, Tensor, list, tuple, range, np.ndarray)
OUT_OF_AXIS = "{}: index {} is out of range for axis {} of shape {}"


class _Gap:
    """An ellipsis that covers no axis; it still separates the arrays around it."""


_GAP = _Gap()


@dataclass(frozen=True)
class Block:
    """The block that a key of ints, slices, Ellipsis and None selects: start, step, size per axis, and the shape."""

    starts: Shape
    steps: Shape
    sizes: Shape
    shape: Shape
    axes: tuple[int | None, ...]  # for each axis of ``shape`` the axis of the tensor; None for a new one

    def whole(self, shape: Shape) -> bool:
        """True if this is a whole tensor of ``shape``, unchanged."""
        return self.shape == shape and self.axes == tuple(range(len(shape))) and set(self.steps) <= {1}


@dataclass(frozen=True)
class Selection:
    """A key with arrays of indices: a block of the tensor, and the arrays that select from it.

    ``order`` permutes the block's axes so that the arrays' axes are adjacent, from ``at`` on.
    """

    merged: Shape  # the tensor's shape with the axes of each mask merged
    block: Block
    arrays: tuple[Any, ...]
    order: tuple[int, ...]
    at: int

    @property
    def moved(self) -> Shape:
        """The block's shape in the order of ``order``."""
        return tuple(self.block.shape[axis] for axis in self.order)

    @property
    def extents(self) -> Shape:
        """The lengths of the axes that the arrays select from."""
        return self.moved[self.at : self.at + len(self.arrays)]

    @property
    def table(self) -> tuple[int, int, int]:
        """The permuted block as rows: the axes before, of, and after the arrays."""
        behind = self.at + len(self.arrays)
        return math.prod(self.moved[: self.at]), math.prod(self.extents), math.prod(self.moved[behind:])

    def result(self, positions: Shape) -> Shape:
        """Returns the shape of the selection, with the arrays broadcast to ``positions``."""
        return (*self.moved[: self.at], *positions, *self.moved[self.at + len(self.arrays) :])


def is_array(item: Any) -> bool:
    """True if an entry of a key is a mask or has indices."""
    return isinstance(item, (np.ndarray, Tensor))


def is_mask(item: Any) -> TypeGuard[Any]:
    """True if an entry of a key is a mask."""
    return is_array(item) and bool(item.dtype == "bool")


def spread(op: str, key: Any, shape: Shape) -> list[Any]:
    """Returns the key as one entry per axis, with Nones in between; lists become arrays."""
    items = [_entry(item) for item in (key if isinstance(key, tuple) or is_list_of_entries(key) else (key,))]
    used = builtins.sum(_consumed(op, item) for item in items)
    if used > len(shape):
        raise OutOfRangeError(f"{op}: {used} indices for shape {shape} with {len(shape)} axes")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise OutOfRangeError(f"{op}: an index holds one ellipsis at most")
    at = dots[0] if dots else len(items)
    rest: list[Any] = [slice(None)] * (len(shape) - used)
    return [*items[:at], *(rest or [_GAP] * len(dots)), *items[at + 1 :]]


def is_list_of_entries(key: Any) -> bool:
    """True for a list with a slice, None, an Ellipsis, a tensor or a sequence (a tuple in another form), as in PyTorch.
    A long list has positions, as in PyTorch too, and is not looked through.
    """
    return (
        type(key) is list
        and len(key) < _LONG_LIST
        and any(item is None or item is Ellipsis or isinstance(item, _ENTRIES) for item in key)
    )


def _entry(item: Any) -> Any:
    """Returns an entry of a key with sequences and bools as arrays, and arrays of one integer as ints."""
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, (list, tuple, range)):
        array = np.asarray(item)
        return array if array.size else array.astype(np.int64)  # NumPy would call an empty list float64
    if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        return int(item)
    return item


def _consumed(op: str, item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if not isinstance(item, (int, np.integer, slice, np.ndarray, Tensor)):
        raise KeyKindError(
            f"{op}: {type(item).__name__} is no index; there are ints, slices, Ellipsis, None, boolean masks, "
            "and lists, arrays or tensors of whole numbers"
        )
    return item.ndim if isinstance(item, (np.ndarray, Tensor)) and is_mask(item) else 1


def block_of(op: str, items: Sequence[Any], shape: Shape) -> Block:
    """Returns the block of the key; an array's axis is taken whole."""
    starts, steps, sizes, final = [], [], [], []
    axes: list[int | None] = []
    axis = 0
    for item in items:
        if item is _GAP:
            continue
        if item is None:
            final.append(1)
            axes.append(None)
            continue
        n = shape[axis]
        if isinstance(item, (int, np.integer)):
            if not -n <= item < n:
                raise OutOfRangeError(OUT_OF_AXIS.format(op, item, axis, shape))
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


def select_by(op: str, items: Sequence[Any], shape: Shape) -> Selection:
    """Returns the selection of a key that has arrays. A mask on a device costs a host read; host masks cost as much as
    indices.
    """
    entries, merged = _without_masks(op, items, shape)
    block = block_of(op, entries, merged)
    advanced = [i for i, entry in enumerate(entries) if is_array(entry) or isinstance(entry, (int, np.integer))]
    ours, axis = [], 0  # the arrays' axes in the block
    for entry in entries:
        if is_array(entry):
            ours.append(axis)
        axis += entry is not _GAP and not isinstance(entry, (int, np.integer))
    order = list(range(len(block.shape)))
    # another entry separates them: NumPy puts the axes of the selection first
    if advanced[-1] - advanced[0] >= len(advanced):
        order = [*ours, *(axis for axis in order if axis not in ours)]
    arrays = tuple(entry for entry in entries if is_array(entry))
    return Selection(merged, block, arrays, tuple(order), order.index(ours[0]))


def _without_masks(op: str, items: Sequence[Any], shape: Shape) -> tuple[list[Any], Shape]:
    """Returns the key with masks replaced by their flat positions, and the shape with the axes of each mask merged."""
    entries: list[Any] = []
    merged: list[int] = []
    axis = 0
    for item in items:
        rank = 0 if item is None or item is _GAP else item.ndim if is_mask(item) else 1
        covered = shape[axis : axis + rank]
        if is_mask(item):
            check_mask(op, item, covered, shape)
            item = np.flatnonzero(item) if isinstance(item, np.ndarray) else true_positions(op, item)
            merged.append(math.prod(covered))
        else:
            merged.extend(covered)
        entries.append(item)
        axis += rank
    return entries, tuple(merged)


def check_mask(op: str, mask: Any, covered: Shape, shape: Shape) -> None:
    """Raises IndexError unless a mask has the lengths of the axes that it covers."""
    if tuple(mask.shape) != covered:
        raise OutOfRangeError(f"{op}: a mask of shape {tuple(mask.shape)} for the lengths {covered} of shape {shape}")


def row_positions(op: str, engine: DeviceBackend, chosen: Selection) -> Tensor:
    """Returns the rows of ``chosen.table`` that the arrays select together, as a tensor."""
    arrays, extents = chosen.arrays, chosen.extents
    if len(arrays) == 1:
        return indices_on(op, engine, arrays[0], extents[0])
    if any(isinstance(array, Tensor) for array in arrays):
        tensors = [indices_on(op, engine, array, n) for array, n in zip(arrays, extents)]
        return _combined(op, engine, tensors, extents)
    hosted = [wrapped(op, array, n) for array, n in zip(arrays, extents)]
    broadcast_shapes([array.shape for array in hosted], op)
    positions = np.zeros((), np.int64)
    for array, n in zip(hosted, extents):
        positions = positions * n + array
    return engine.tensor(positions, "int64")  # type: ignore[no-any-return]


def _combined(op: str, engine: DeviceBackend, tensors: Sequence[Tensor], extents: Shape) -> Tensor:
    """Returns one kernel: checks and clamps each index, counts it from its start, and combines all into one position.
    Tensors to be broadcast are copied first, so that the kernel depends on their number alone.
    """
    shape = broadcast_shapes([tensor.shape for tensor in tensors], op)
    if 0 in shape:
        return engine.empty(shape, "int64")  # type: ignore[no-any-return]
    tensors = [tensor if tensor.shape == shape else expand.row.call(tensor, shape) for tensor in tensors]  # type: ignore[misc]
    code = engine.flag_code(OUT_OF_RANGE.format(op))
    position = _position(tuple(tensor.dtype for tensor in tensors), code)
    return engine.run((position,), tensors, {f"n{k}": n for k, n in enumerate(extents)})[0]


@lru_cache(maxsize=64)
def _position(dtypes: tuple[str, ...], code: int) -> Expr:
    total: Expr | None = None
    for k, dtype in enumerate(dtypes):
        n = Scalar(f"n{k}", "int64")
        position = place_of(Load(k, dtype), n, code)
        total = position if total is None else total * n + position
    assert total is not None
    return total
