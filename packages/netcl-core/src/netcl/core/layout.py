"""Operations on shapes: broadcasting, axes, and the collapse of adjacent axes with the same role."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from typing import Any

from netcl.core.errors import AxisError, ShapeError

Shape = tuple[int, ...]


def aligned(shape: Sequence[int], rank: int) -> Shape:
    """Returns ``shape`` with ones prepended up to ``rank`` dimensions."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def broadcast_shapes(shapes: Sequence[Sequence[int]], op: str = "broadcast") -> Shape:
    """Returns the shape that ``shapes`` broadcast to by NumPy's rules. ShapeError names op and shapes if none."""
    first = tuple(shapes[0]) if shapes else ()
    if all(tuple(shape) == first for shape in shapes):
        return first
    rank = max(len(shape) for shape in shapes)
    result: list[int] = []
    for sizes in zip(*(aligned(shape, rank) for shape in shapes)):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            listed = " and ".join(str(tuple(shape)) for shape in shapes)
            raise ShapeError(f"{op}: shapes {listed} do not broadcast; lengths of an axis must be equal or 1")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def normalize_axes(axis: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Returns sorted, non-negative axes; None is every axis. AxisError if out of range, ShapeError if repeated."""
    if axis is None:
        return tuple(range(rank))
    axes = [as_index(a) for a in axis] if isinstance(axis, Sequence) else [as_index(axis)]
    for number in axes:
        if not -rank <= number < rank:
            raise AxisError(
                f"{op}: axis {number} is out of range for {rank} dimension{'s' * (rank != 1)}", parameter="axis"
            )
    result = sorted({number % rank for number in axes})
    if len(result) != len(axes):
        raise ShapeError(f"{op}: axes {tuple(axes)} name an axis twice", parameter="axis")
    return tuple(result)


def every_axis_if_empty(dim: Any) -> Any:
    """Returns None for an empty tuple or list, which is every axis in PyTorch's reductions, else ``dim``."""
    return None if isinstance(dim, (tuple, list)) and not dim else dim


def reduced_axes(axis: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Returns ``normalize_axes`` of a reduction: a 0-d tensor takes axes 0 and -1, and has none, as in PyTorch."""
    if rank or axis is None or (isinstance(axis, Sequence) and not axis):
        return normalize_axes(axis, rank, op)
    normalize_axes(axis, 1, op)
    return ()


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Returns the strides in elements of a C-contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def block_of(shape: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> tuple[Shape, int]:
    """Returns the strides and the offset, in elements, of the block at starts + i * steps of a C-contiguous array."""
    strides = contiguous_strides(shape)
    offset = sum(start * stride for start, stride in zip(starts, strides))
    return tuple(step * stride for step, stride in zip(steps, strides)), offset


def collapse(space: Sequence[int], parts: Sequence[Sequence[bool]]) -> list[tuple[int, ...]]:
    """Groups adjacent axes that can be iterated as one: ``parts[axis]`` says what part an axis plays in each operand.
    Axes of length one disappear; the groups keep the order and contain the original axes.
    """
    groups: list[tuple[int, ...]] = []
    for axis, size in enumerate(space):
        if size == 1:
            continue
        if groups and list(parts[groups[-1][-1]]) == list(parts[axis]):
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups
