"""Manipulation and indexing functions of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netcl.array_api.array import returns_arrays
from netcl.array_api.promotion import together
from netcl.array_api.rows import defined, row
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.tensor import Tensor

Axes = int | tuple[int, ...] | None


@returns_arrays
def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Returns the tensors broadcast against one another."""
    shape = broadcast_shapes([array.shape for array in arrays], "broadcast_arrays")
    return [broadcast_to(array, shape) for array in arrays]


@returns_arrays
def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Returns ``x`` repeated along axes of length 1, and leading ones, to ``shape``."""
    return row("expand")(x, shape)  # type: ignore[no-any-return]


@returns_arrays
def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Returns the tensors joined along ``axis``, or flattened and joined if it is None; their dtypes are promoted."""
    joined = together(*arrays)
    if axis is None:
        joined, axis = [reshape(array, (-1,)) for array in joined], 0
    return row("cat")(joined, axis)  # type: ignore[no-any-return]


@returns_arrays
def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """Returns ``x`` with an axis of length 1 at ``axis``; raises IndexError if that is out of range."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims: axis {axis} is out of range for {x.ndim + 1} axes")
    return row("unsqueeze")(x, axis)  # type: ignore[no-any-return]


@returns_arrays
def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """Returns ``x`` with the order of elements reversed along ``axis``, or along all axes."""
    return row("flip")(x, axis) if x.ndim else x.clone()


@returns_arrays
def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Returns ``x`` with the axes ``source`` at the places ``destination``, the others in their order."""
    of = _each(source, x.ndim)
    to = _each(destination, x.ndim)
    if len(of) != len(to):
        raise ValueError(f"moveaxis: {len(of)} axes to {len(to)} places")
    order = [axis for axis in range(x.ndim) if axis not in of]
    for place, axis in sorted(zip(to, of)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def _each(axes: int | tuple[int, ...], rank: int) -> list[int]:
    listed = (axes,) if isinstance(axes, int) else axes
    return [normalize_axes(axis, rank, "moveaxis")[0] for axis in listed]


@returns_arrays
def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Returns ``x`` with its axes in the order ``axes``."""
    return row("permute")(x, axes)  # type: ignore[no-any-return]


@returns_arrays
def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns ``x`` with each element along ``axis`` (None: of the flattened tensor) ``repeats`` times; a tensor has
    one number for each of them, and is read on the host.
    """
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    times = repeats.numpy() if isinstance(repeats, Tensor) else np.asarray(repeats)
    places = np.repeat(np.arange(x.shape[axis]), times)
    return take(x, Tensor.from_host(x.queue, places), axis=axis)


@returns_arrays
def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Returns ``x`` in another shape; one length may be -1. ``copy`` True copies, else the storage is shared."""
    result: Tensor = row("reshape")(x, shape)
    return result.clone() if copy else result


@returns_arrays
def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """Returns ``x`` with elements moved by ``shift`` along ``axis`` (None: of the flattened tensor), around the end."""
    if not x.size or not x.ndim:
        return x.clone()
    return row("roll")(x, shift, axis)  # type: ignore[no-any-return]


@returns_arrays
def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Returns ``x`` without axes of length 1; raises ValueError if one is longer."""
    axes = normalize_axes(axis, x.ndim, "squeeze")
    if longer := [dim for dim in axes if x.shape[dim] != 1]:
        raise ValueError(f"squeeze: expected length 1 of axis {longer[0]} of shape {x.shape}, got {x.shape[longer[0]]}")
    return reshape(x, tuple(size for dim, size in enumerate(x.shape) if dim not in axes))


@returns_arrays
def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Returns the tensors of one shape joined along a new axis; their dtypes are promoted."""
    return row("stack")(together(*arrays), axis)  # type: ignore[no-any-return]


@returns_arrays
def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Returns ``x`` repeated as a whole ``repetitions`` times along each axis."""
    return row("tile")(x, repetitions)  # type: ignore[no-any-return]


@returns_arrays
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the slices of ``x`` along ``axis``, without that axis."""
    (dim,) = normalize_axes(axis, x.ndim, "unstack")
    lead = (slice(None),) * dim
    return tuple(row("getitem")(x, lead + (place,)) for place in range(x.shape[dim]))


@returns_arrays
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns the elements of ``x`` at ``indices`` along ``axis``, which a vector does not need."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for shape {x.shape}")
        axis = 0
    return row("take")(x, indices, axis)  # type: ignore[no-any-return]


@returns_arrays
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the elements of ``x`` at ``indices`` along ``axis``; the other axes broadcast."""
    (dim,) = normalize_axes(axis, x.ndim, "take_along_axis")
    of, places = ((*array.shape[:dim], 1, *array.shape[dim + 1 :]) for array in (x, indices))
    shape = broadcast_shapes([of, places], "take_along_axis")
    wide = broadcast_to(x, (*shape[:dim], x.shape[dim], *shape[dim + 1 :]))
    where = broadcast_to(indices, (*shape[:dim], indices.shape[dim], *shape[dim + 1 :]))
    return row("take_along_axis")(wide, where, dim)  # type: ignore[no-any-return]


__all__ = defined(globals())
