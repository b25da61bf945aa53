"""Views, movement of elements, keys and indices."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from netcl_core_kit.arguments import pads_of
from netcl_core_kit.shapes import basic, scalars

from netcl.core.dtypes import TORCH, canonical
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.kernels import T, axes_of, axis_of, exactly, rows
from netcl.ops.keys import is_array, spread
from netcl.ops.table import _engine_of

# ------------------------------------------------------------------------------------------------------------- views


def _reshape(x: T, shape: Any) -> T:
    sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(one) for one in shape)
    known = math.prod(one for one in sizes if one != -1)
    fits = sizes.count(-1) <= 1 and all(one >= -1 for one in sizes)
    if fits and -1 in sizes:
        fits = known > 0 and x.numel() % known == 0
    elif fits:
        fits = known == x.numel()
    exactly("reshape", fits, f"shape {tuple(x.shape)} does not fit {sizes}; they need the same number of elements")
    return x.reshape(sizes)


def _permute(x: T, axes: Any) -> T:
    given = tuple(operator.index(one) for one in axes)
    exactly(
        "permute", len(normalize_axes(given, x.dim(), "permute")) == x.dim(), f"axes {given} for shape {tuple(x.shape)}"
    )
    return x.permute(given)


def _expand(x: T, shape: Any) -> T:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return x.expand(sizes)


def _strided_slice(x: T, starts: Any, steps: Any, sizes: Any) -> T:
    return x[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, s, n in zip(starts, steps, sizes))]


rows("widest", {
    "reshape(x: Tensor, shape)": _reshape, "permute(x: Tensor, axes)": _permute, "expand(x: Tensor, shape)": _expand,
    "broadcast_to(x: Tensor, shape)": _expand, "strided_slice(x: Tensor, starts, steps, sizes)": _strided_slice,
    "diagonal(x: Tensor, offset=0, dim1=0, dim2=1)": lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2),
}, reads="nothing")  # fmt: skip


def _indices(items: Any, place: Any) -> tuple[Any, ...]:
    found = []
    for one in items:
        if isinstance(one, (np.ndarray, list)):
            one = torch.as_tensor(np.asarray(one)).to(place)
        if isinstance(one, T) and one.dtype != torch.bool:
            if one.is_floating_point() and one.numel():
                raise DTypeError("an index has integers or bool, not floating numbers")
            one = one.to(torch.int64)
        elif isinstance(one, (int, np.integer)):  # an index among others, as in NumPy
            one = torch.tensor([int(one)], device=place)
        found.append(one)
    return tuple(found)


def _flipped(x: T, items: list[Any]) -> tuple[T, list[Any]]:
    """x reversed along the axes of slices of negative step, and the key for that."""
    axis, flips, found = 0, [], []
    for one in items:
        if isinstance(one, slice) and (one.step or 1) < 0:
            start, stop, step = one.indices(x.shape[axis])
            last = x.shape[axis] - 1
            flips.append(axis)
            one = slice(last - start, last - stop, -step)
        found.append(one)
        axis += 0 if one is None else one.dim() if isinstance(one, T) and one.dtype == torch.bool else 1
    return (x.flip(flips) if flips else x), found


def _index(x: T, key: Any) -> T:
    x, items = _flipped(x, list(_indices(key, x.device)))
    return x[tuple(items)].clone()


def _setitem(x: Any, key: Any, value: Any) -> None:
    """Writes ``value`` into ``x[key]``, in place."""
    items = scalars(spread("setitem", key, x.shape))
    if not isinstance(value, Tensor):
        host = np.asarray(value)
        value = Tensor.from_host(x.queue, host, x.dtype if host.dtype.kind in "biuf" and not host.ndim else None)
    elif value.engine is not x.engine:
        value = value.to(x.queue)
    source = value._t.to(x._t.dtype)
    if any(map(is_array, items)):
        raw = [one._t if isinstance(one, Tensor) else one for one in items]
        x._t[_indices(raw, x._t.device)] = source
        return
    view, reverse = basic(x.detach(), items)
    while source.dim() > view.ndim and source.shape[0] == 1:
        source = source[0]
    try:
        source = source.expand(view.shape)
    except RuntimeError:
        raise ShapeError(f"setitem: shape {tuple(source.shape)} does not broadcast to {view.shape}") from None
    if source.untyped_storage() is view._t.untyped_storage():
        source = source.clone()
    view._t.copy_(source.flip(reverse) if reverse else source)


# ---------------------------------------------------------------------------------------------------------- movement


def _pad(x: T, pads: Any, mode: str = "constant", value: float = 0.0) -> T:
    pairs = pads_of(pads, x.dim())
    if mode == "constant":
        return F.pad(x, [side for pair in reversed(pairs) for side in pair], "constant", value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: there is no mode {mode!r}")
    for axis, (before, after) in enumerate(pairs):
        n = x.shape[axis]
        if (before, after) == (0, 0):
            continue
        most = {"reflect": n - 1, "circular": n, "replicate": max(before, after) if n else 0}[mode]
        exactly("pad", max(before, after) <= most, f"a {mode} border of {max(before, after)} on an axis of {n}")
        place = torch.arange(-before, n + after, device=x.device)
        if mode == "reflect":
            place = place.abs()
            place = torch.where(place >= n, 2 * (n - 1) - place, place)
        x = x.index_select(axis, place % n if mode == "circular" else place.clamp(0, n - 1))
    return x


def _repeat(x: T, repeats: Any, axis: int | None = None) -> T:
    repeats = torch.as_tensor(repeats, device=x.device) if not isinstance(repeats, int) else repeats
    return torch.repeat_interleave(x, repeats, axis)


def _cat(tensors: Any, axis: int = 0) -> T:
    exactly("cat", len(tensors) > 0, "takes one tensor or more")
    axis_of(tensors[0], axis, "cat")
    shapes = [tuple(one.shape) for one in tensors]
    fits = len({(len(s), *(n for a, n in enumerate(s) if a != axis % len(s))) for s in shapes}) == 1
    exactly("cat", fits, f"shapes {', '.join(map(str, shapes))} differ off axis {axis}")
    return torch.cat(list(tensors), axis)


def _stack(tensors: Any, axis: int = 0) -> T:
    exactly("stack", len(tensors) > 0, "takes one tensor or more")
    shapes = {tuple(one.shape) for one in tensors}
    exactly("stack", len(shapes) == 1, f"shapes {', '.join(map(str, shapes))} differ")
    return torch.stack(list(tensors), axis)


rows("widest", {
    "index(x: Tensor, key)": _index, "pad(x: Tensor, pads, mode='constant', value=0.0)": _pad,
    "flip(x: Tensor, axis=None)": lambda x, axis=None: x.flip(axes_of(x, axis, "flip")),
    "repeat(x: Tensor, repeats, axis=None)": _repeat, "tril(x: Tensor, diagonal=0)": lambda x, diagonal=0: torch.tril(x, diagonal),
    "triu(x: Tensor, diagonal=0)": lambda x, diagonal=0: torch.triu(x, diagonal),
    "cat(tensors: Tensor, axis=0)": _cat, "stack(tensors: Tensor, axis=0)": _stack,
}, reads="nothing")  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- indices


_OUTSIDE = "index {value} at position {position} is out of range for an axis of length {size}"


def _index_of(index: Any, x: T, axis: int | None = None) -> T:
    """An index as int64 on x's device; of ``axis`` counted from its beginning."""
    found = index if isinstance(index, T) else torch.as_tensor(np.asarray(index))
    if found.is_floating_point() and found.numel():
        raise DTypeError("an index has whole numbers")
    found = found.to(x.device, torch.int64)
    if axis is None:
        return found
    size = x.shape[axis] if x.dim() else 1
    given, found = found, torch.where(found < 0, found + size, found)
    if isinstance(index, T):  # an error of an index on the device is raised at the next host read
        holds = (found >= 0) & (found < size)
        (engine := _engine_of([x])).report(holds, engine.flag_code(_OUTSIDE), given, size)
        found = torch.where(holds, found, 0) if size else found
    return found


def _select(x: T, axis: int, index: Any) -> T:
    axis = axis_of(x, axis, "index_select")
    place = _index_of(index, x, axis)
    shape = (*x.shape[:axis], *place.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, place.reshape(-1)).reshape(shape)


def _gather(x: T, axis: int, index: Any) -> T:
    axis = axis_of(x, axis, "gather")
    return torch.gather(x, axis, _index_of(index, x, axis))


def _source(x: T, src: Any, index: T) -> T:
    found = src if isinstance(src, T) else torch.full(index.shape, src, dtype=x.dtype, device=x.device)
    return found.to(x.dtype)[tuple(slice(n) for n in index.shape)]  # of which only this part is used


def _scatter(x: T, axis: int, index: Any, src: Any) -> T:
    axis = axis_of(x, axis, "scatter")
    place = _index_of(index, x, axis)
    span = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    part = span[tuple(slice(n) if one != axis else slice(None) for one, n in enumerate(place.shape))]
    places = torch.gather(part, axis, place)
    return _last(x.reshape(-1), places.reshape(-1), _source(x, src, place).reshape(-1)).reshape(x.shape)


def _scatter_add(x: T, axis: int, index: Any, src: Any) -> T:
    axis = axis_of(x, axis, "scatter_add")
    place = _index_of(index, x, axis)
    return torch.scatter_add(x, axis, place, _source(x, src, place))


_HOW = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}


def _scatter_reduce(x: T, axis: int, index: Any, src: T, reduce: str, *, include_self: bool = True) -> T:
    if reduce not in _HOW:
        raise ValueError(f"scatter_reduce: there is no reduction {reduce!r}; there are {', '.join(_HOW)}")
    axis = axis_of(x, axis, "scatter_reduce")
    place = _index_of(index, x, axis)
    return torch.scatter_reduce(x, axis, place, _source(x, src, place), reduce, include_self=include_self)


def _index_reduce(x: T, axis: int, index: Any, source: T, reduce: str, *, include_self: bool = True) -> T:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce: there is no reduction {reduce!r}")
    axis = axis_of(x, axis, "index_reduce")
    place = _index_of(index, x, axis).reshape([-1 if one == axis else 1 for one in range(x.dim())])
    return _scatter_reduce(x, axis, place.expand(source.shape), source, reduce, include_self=include_self)


def _index_add(x: T, axis: int, index: Any, source: T, alpha: float = 1) -> T:
    axis = axis_of(x, axis, "index_add")
    return torch.index_add(x, axis, _index_of(index, x, axis).reshape(-1), source.to(x.dtype), alpha=alpha)


def _last(x: T, places: T, values: T) -> T:
    """x, flat, with ``values`` at ``places``: of equal places the last wins, and alone gets the gradient."""
    order = torch.arange(places.numel(), device=x.device)
    winner = torch.full_like(x, -1, dtype=torch.int64).scatter_reduce(0, places, order, "amax")
    if not places.numel():
        return x.clone()
    return torch.where(winner >= 0, values.to(x.dtype)[winner.clamp(min=0)], x)


def _index_copy(x: T, axis: int, index: Any, source: T) -> T:
    axis = axis_of(x, axis, "index_copy")
    span = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    places = span.index_select(axis, _index_of(index, x, axis).reshape(-1))
    exactly("index_copy", places.shape == source.shape, f"source is {tuple(source.shape)}, not {tuple(places.shape)}")
    return _last(x.reshape(-1), places.reshape(-1), source.reshape(-1)).reshape(x.shape)


def _index_put(x: T, indices: Any, values: Any, accumulate: bool = False) -> T:
    items = [slice(None) if one is None else one for one in _indices(indices, x.device)]
    values = values if isinstance(values, T) else torch.as_tensor(np.asarray(values), device=x.device)
    span = torch.arange(x.numel(), device=x.device).reshape(x.shape)[tuple(items)]
    values = values.to(x.dtype).expand(span.shape).reshape(-1)
    if accumulate:
        return torch.index_add(x.reshape(-1), 0, span.reshape(-1), values).reshape(x.shape)
    return _last(x.reshape(-1), span.reshape(-1), values).reshape(x.shape)


def _embedding(indices: Any, weight: T, padding_idx: int | None = None) -> T:
    place, count = _index_of(indices, weight), weight.shape[0]
    if padding_idx is not None and not -count <= padding_idx < count:
        raise IndexError(f"embedding: padding_idx {padding_idx} is not in [-{count}, {count})")
    holds = (place >= 0) & (place < count)
    if not isinstance(indices, T) and not bool(holds.all()):
        wrong = int(place[~holds][0])
        raise IndexError(f"embedding: index {wrong} is {'negative' if wrong < 0 else f'out of range for {count} rows'}")
    engine = _engine_of([weight])
    engine.report(holds, engine.flag_code("embedding: " + _OUTSIDE), place, count)
    place = torch.where(holds, place, 0)
    return F.embedding(place, weight, padding_idx)


def _nonzero(x: T, as_tuple: bool = False) -> Any:
    return torch.nonzero(x, as_tuple=True) if as_tuple else torch.nonzero(x)


def _one_hot(indices: Any, num_classes: int | None = None, dtype: str = "int64") -> Any:
    if not isinstance(indices, Tensor):
        indices = Tensor.from_host(np.asarray(indices))
    place = indices._t.to(torch.int64)
    count = int(place.max()) + 1 if num_classes is None else num_classes
    if place.numel() and (int(place.min()) < 0 or int(place.max()) >= count):
        raise IndexError(f"one_hot: an index is outside of [0, {count})")
    return indices.engine.wrap(F.one_hot(place, count).to(TORCH[canonical(dtype)]))


rows("widest", {
    "index_select(x: Tensor, axis, index)": _select, "gather(x: Tensor, axis, index)": _gather,
    "scatter(x: Tensor, axis, index, src: Tensor)": _scatter,
    "scatter_add(x: Tensor, axis, index, src: Tensor)": _scatter_add,
    "scatter_reduce(x: Tensor, axis, index, src: Tensor, reduce, *, include_self=True)": _scatter_reduce,
    "index_reduce(x: Tensor, axis, index, source: Tensor, reduce, *, include_self=True)": _index_reduce,
    "index_add(x: Tensor, axis, index, source: Tensor, alpha=1)": _index_add,
    "index_copy(x: Tensor, axis, index, source: Tensor)": _index_copy,
    "index_put(x: Tensor, indices, values: Tensor, accumulate=False)": _index_put,
    "embedding(indices, weight: Tensor, padding_idx=None)": _embedding,
})  # fmt: skip
rows("widest", {
    "nonzero(x: Tensor, as_tuple=False)": _nonzero,
}, gradient=False)  # fmt: skip
