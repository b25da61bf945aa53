"""Shapes, strides and axes."""

import math
from contextlib import contextmanager

import numpy as np

from netcl.core.errors import ShapeError


def aligned(shape, rank):
    """``shape`` with ones in front up to ``rank``."""
    return (1,) * (rank - len(shape)) + tuple(shape)


@contextmanager
def fitting(op, *shapes):
    """A ValueError of NumPy inside is a ShapeError, which names the op and the shapes."""
    try:
        yield
    except ValueError:
        raise ShapeError(f"{op}: shapes {' and '.join(map(str, shapes))} do not fit", op=op) from None


def broadcast_shapes(shapes, op="broadcast"):
    """The shape that all broadcast to."""
    with fitting(op, *shapes):
        return np.broadcast_shapes(*map(tuple, shapes))


def contiguous_strides(shape):
    """Strides in elements in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def normalize_axes(axis, rank, op):
    """Sorted, distinct axes from 0; None is all; ShapeError if one is out of range or repeated."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if np.ndim(axis) == 0 else tuple(axis)
    axes = tuple(sorted({int(one) + rank * (one < 0) for one in given}))
    if len(axes) != len(given) or any(not 0 <= one < rank for one in axes):
        raise ShapeError(f"{op}: axis {axis} of {rank} axes is out of range or repeated", op=op)
    return axes
