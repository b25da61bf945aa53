"""Rows that move elements: views by NumPy, keys, borders, and elements at positions."""

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.layout import fitting, normalize_axes
from netcl.core.tensor import Tensor, tensor_of
from netcl.ops.keys import spread
from netcl.ops.table import computed


def _host(value):
    return value.array if isinstance(value, Tensor) else np.asarray(value)


def _view(x, array):
    return tensor_of(array, queue=x.queue, storage=x.storage if np.shares_memory(array, x.array) else None)


@computed()
def reshape(x: Tensor, shape):
    """The same elements in another shape; one length may be -1."""
    with fitting("reshape", x.shape, shape):
        return _view(x, x.array.reshape(shape))


@computed()
def permute(x: Tensor, axes):
    """The axes in another order."""
    normalize_axes(tuple(axes), x.ndim, "permute")
    return _view(x, x.array.transpose(axes))


@computed()
def expand(x: Tensor, shape):
    """Broadcast to ``shape``; -1 keeps a length."""
    kept = (1,) * (len(shape) - x.ndim) + x.shape
    wanted = [own if size == -1 else size for own, size in zip(kept, shape)]
    with fitting("expand", x.shape, shape):
        made = np.broadcast_to(x.array, wanted)
    return _view(x, np.lib.stride_tricks.as_strided(x.array, made.shape, made.strides))


@computed()
def getitem(x: Tensor, key):
    """``x[key]`` as NumPy's: a view for ints, slices, Ellipsis and None."""
    return _view(x, np.asarray(x.array[_key("getitem", x, key)]))


@computed()
def setitem(x: Tensor, key, value):
    """Writes into ``x[key]`` in place."""
    x.put(_host(value).astype(x.array.dtype), _key("setitem", x, key))


def _key(op, x, key):
    return tuple(_host(one) if hasattr(one, "engine") else one for one in spread(op, key, x.shape))


@computed()
def cat(tensors, axis=0):
    """The tensors of a list joined along ``axis``."""
    with fitting("cat", *(one.shape for one in tensors)):
        return tensor_of(np.concatenate([one.array for one in tensors], axis))


@computed()
def flip(x: Tensor, axis=None):
    """The elements in reverse order along ``axis``."""
    return tensor_of(np.flip(x.array, axis).copy())


@computed()
def pad(x: Tensor, pads, mode="constant", value=0.0):
    """A border around x, of (before, after) of the last axes, last first, or a pair for each axis; negative crops."""
    pads = [(pads, pads)] * x.ndim if np.ndim(pads) == 0 else list(pads)
    if np.ndim(pads[0]) == 0:
        pads = [(0, 0)] * (x.ndim - len(pads) // 2) + list(zip(pads[::2], pads[1::2]))[::-1]
    how = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    limit = {"reflect": 1, "circular": 0}.get(mode, -np.inf)
    if any(max(pair) > size - limit for pair, size in zip(pads, x.shape)):
        raise ShapeError(f"pad: {mode} border {pads} of shape {x.shape}", op="pad")
    wide = np.pad(x.array, np.maximum(pads, 0), how, **({"constant_values": value} if how == "constant" else {}))
    inner = tuple(slice(max(-before, 0), size - max(-after, 0)) for (before, after), size in zip(pads, wide.shape))
    return tensor_of(wide[inner].copy())


@computed()
def index_select(x: Tensor, axis, index):
    """The positions ``index`` along ``axis``."""
    return tensor_of(np.take(x.array, _host(index), axis))


def _places(shape, axis, index):
    places = list(np.indices(index.shape, sparse=True))
    places[axis] = index
    return tuple(places)


@computed()
def gather(x: Tensor, axis, index):
    """x at ``index`` along ``axis``."""
    return tensor_of(x.array[_places(x.shape, axis, _host(index))])


@computed()
def scatter_add(x: Tensor, axis, index, src):
    """x with ``src`` added at ``index`` along ``axis``."""
    index, result = _host(index), x.numpy()
    values = _host(src) if np.ndim(_host(src)) else np.full(index.shape, _host(src))
    np.add.at(result, _places(x.shape, axis, index), values[tuple(map(slice, index.shape))])
    return tensor_of(result)


@computed()
def nonzero(x: Tensor, as_tuple=False):
    """The positions of elements that are not zero."""
    found = [one.astype("int64") for one in np.nonzero(x.array)]
    return tuple(map(tensor_of, found)) if as_tuple else tensor_of(np.stack(found, 1))


@computed()
def one_hot(indices, num_classes=None, dtype="int64"):
    """1 at the index and 0 elsewhere."""
    places = _host(indices)
    count = int(places.max()) + 1 if num_classes is None else num_classes
    if places.size and not 0 <= places.min() <= places.max() < count:
        raise IndexError(f"one_hot: an index is outside of [0, {count})")
    return tensor_of((places[..., None] == np.arange(count)).astype(dtype))
