"""Sums and the like, positions, and products of matrices."""

from functools import partial

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import fitting, normalize_axes
from netcl.core.tensor import Tensor, tensor_of
from netcl.ops.table import computed


def _reduced(op, x, axis, keepdims, function, dtype=None, wide=None):
    axes = normalize_axes(axis, x.ndim, op)
    if op in ("amax", "amin") and any(x.shape[one] == 0 for one in axes):
        raise ShapeError(f"{op}: no elements over axis {axis} of shape {x.shape}", op=op)
    array = x.array if dtype is None else x.array.astype(dtype)
    with np.errstate(all="ignore"):
        result = np.asarray(function(array if wide is None else array.astype(wide), axis=axes, keepdims=keepdims))
    return tensor_of(result.astype(dtype or result.dtype))


def _total(op, x, axis, keepdims, dtype, function):
    dtype = dtype or (x.dtype if is_floating(x.dtype) else "float32" if op == "mean" else "int64")
    if op == "mean" and not is_floating(dtype):
        raise DTypeError(f"mean: dtype {dtype} is not floating", op=op)
    return _reduced(op, x, axis, keepdims, function, dtype, "float64" if is_floating(dtype) else "int64")


def _mean(array, axis, keepdims):
    return np.sum(array, axis=axis, keepdims=keepdims) / np.prod([array.shape[one] for one in axis])


@computed(amp="float32")
def var(x: Tensor, axis=None, correction=1, keepdims=False):
    """The variance over ``axis`` with divisor n - correction."""
    dtype = x.dtype if is_floating(x.dtype) else "float32"
    return _reduced("var", x, axis, keepdims, partial(np.var, ddof=correction), dtype, "float64")


def _define(name, function, amp="widest"):
    def total(x: Tensor, axis=None, keepdims=False, *, dtype=None):
        return _total(name, x, axis, keepdims, dtype, function)

    def over(x: Tensor, axis=None, keepdims=False):
        return _reduced(name, x, axis, keepdims, function)

    def position(x: Tensor, axis=None, keepdims=False):
        return tensor_of(np.asarray(function(x.array, axis=axis, keepdims=keepdims)).astype("int64"))

    kind = total if name in ("sum", "prod", "mean") else position if name.startswith("arg") else over
    computed(name=name, doc=f"NumPy's {name} over ``axis``.", amp=amp)(kind)


for _name, _function in {"any": np.any, "all": np.all, "argmax": np.argmax, "argmin": np.argmin}.items():
    _define(_name, _function)
for _name, _function in {"amax": np.max, "amin": np.min, "sum": np.sum, "prod": np.prod, "mean": _mean}.items():
    _define(_name, _function, "float32")


@computed(amp="float32")
def cumsum(x: Tensor, axis, dtype=None, reverse=False):
    """Running sums along ``axis``, from the end with ``reverse``."""
    dtype = dtype or (x.dtype if is_floating(x.dtype) else "int64")
    array = np.flip(x.array, axis) if reverse else x.array
    sums = np.cumsum(array.astype("float64" if is_floating(dtype) else "int64"), axis).astype(dtype)
    return tensor_of(np.flip(sums, axis).copy() if reverse else sums)


@computed()
def sort(x: Tensor, axis=-1, descending=False, stable=True):
    """The elements in order, and the positions that they come from; NaN is the largest."""
    array = np.flip(x.array, axis) if descending else x.array
    order = np.argsort(array, axis, kind="stable")
    if descending:
        order = np.flip(x.shape[axis] - 1 - order, axis)
    return tensor_of(np.take_along_axis(x.array, order, axis)), tensor_of(order.astype("int64"))


@computed(amp="half")
def matmul(a: Tensor, b: Tensor, tile=16, *, transpose_a=False, transpose_b=False):
    """a @ b by NumPy's rules."""
    left, right = (
        np.swapaxes(one.array, -1, -2) if turned and one.ndim > 1 else one.array
        for one, turned in ((a, transpose_a), (b, transpose_b))
    )
    with fitting("matmul", a.shape, b.shape):
        return tensor_of(np.asarray(np.matmul(left, right)))


@computed(amp="half")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None):
    """x @ weight.T + bias."""
    with fitting("linear", x.shape, weight.shape):
        return tensor_of(x.array @ weight.array.T + (0 if bias is None else bias.array))
