"""Data of the host as arrays of supported dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl_core_kit.dtypes import canonical, integer_range, kind, numpy_dtype
from netcl_core_kit.errors import DTypeError, ShapeError

__all__ = ["host_data", "lengths"]


def lengths(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints; ShapeError for negative lengths."""
    found = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    sizes = tuple(int(one) for one in found)
    if any(one < 0 for one in sizes):
        raise ShapeError(f"a shape has no negative lengths, given {sizes}")
    return sizes


def _array(data: Any) -> Any:
    """Host data as an array of a supported dtype."""
    if isinstance(data, (list, tuple)):
        data = _lists(data)
    array = np.asarray(data)
    if array.dtype.name == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if array.dtype == object and array.size and all(type(one) is int for one in array.reshape(-1).tolist()):
        raise OverflowError("an integer is beyond int64")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        if array.size == 0 and array.dtype == object:
            return np.zeros(array.shape, np.float32)
        raise DTypeError(f"host data of dtype {array.dtype} have no counterpart; convert them to numbers or bool first")
    return array


def _lists(data: Any) -> Any:
    return [
        _lists(one) if isinstance(one, (list, tuple)) else one.numpy() if hasattr(one, "numpy") else one for one in data
    ]


def host_data(data: Any, dtype: str | None, copy: bool) -> tuple[Any, str]:
    """Host data as an array of its own, or the array itself without ``copy``, and the dtype of a tensor of it: numbers of
    Python are int64 and float32, float64 becomes float32 unless ``dtype`` is given. OverflowError for an integer that
    the dtype does not have.
    """
    typed = isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array__")
    array = _array(data)
    if dtype is None:
        dtype = "float32" if array.dtype == np.float64 else canonical(array.dtype)
        if not typed and array.dtype.kind in "iu":
            if array.dtype == np.uint64:
                raise OverflowError("an integer is beyond int64")
            dtype = "int64"
    elif not typed and array.dtype.kind in "iu" and kind(dtype) == 1 and array.size:
        least, most = integer_range(dtype)
        if int(array.min()) < least or int(array.max()) > most:
            raise OverflowError(f"a number is beyond {dtype}: [{array.min()}, {array.max()}]")
    if array.dtype.kind == "f" and kind(dtype) == 1:
        with np.errstate(all="ignore"):
            array = array.astype(numpy_dtype(dtype))
    if copy or not array.flags.writeable or array.dtype.isnative is False or min((*array.strides, 0)) < 0:
        array = np.array(array, array.dtype.newbyteorder("="), order="C", copy=True)
    return array, dtype
