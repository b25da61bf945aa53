"""Shapes, strides and axes."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from netcl_core_kit.errors import ShapeError

Shape = tuple[int, ...]

__all__ = ["Shape", "aligned", "broadcast_shapes", "contiguous_strides", "normalize_axes"]


def aligned(shape: Sequence[int], rank: int) -> Shape:
    """``shape`` with ones prepended up to ``rank`` dimensions."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def broadcast_shapes(shapes: Sequence[Sequence[int]], op: str = "broadcast") -> Shape:
    """The shape to which all ``shapes`` broadcast; ShapeError if there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    found = []
    for lengths in zip(*(aligned(shape, rank) for shape in shapes)):
        other = {length for length in lengths if length != 1}
        if len(other) > 1:
            given = " and ".join(str(tuple(shape)) for shape in shapes)
            raise ShapeError(f"{op}: shapes {given} do not broadcast; lengths have to be equal or 1")
        found.append(other.pop() if other else 1)
    return tuple(found)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """The strides in elements of a C-contiguous array."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def normalize_axes(axis: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Sorted, distinct, non-negative axes; None is all. ShapeError if one is out of range or repeated."""
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    found = []
    for one in map(operator.index, given):
        if not -rank <= one < rank:
            raise ShapeError(f"{op}: axis {one} is out of range for {rank} dimensions", parameter="axis")
        found.append(one % rank)
    if len(set(found)) != len(found):
        raise ShapeError(f"{op}: axis {axis} names an axis twice", parameter="axis")
    return tuple(sorted(found))
