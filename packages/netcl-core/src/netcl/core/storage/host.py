"""Host data as tensors take it: shapes checked, values in the dtype and the layout that they are stored in."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.core import dtypes
from netcl.core.errors import DTypeError, ShapeError, SizeKindError

Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = sys.maxsize // 8


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints, as a tuple; raises ShapeError if a length is negative or not
    whole, or where no memory could have so many elements.
    """
    try:
        sizes = tuple(shape)
    except TypeError:  # an int, or nothing that a shape could be
        sizes = (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise SizeKindError(f"expected a shape of whole, non-negative lengths, got {sizes}")
        if size < 0:
            raise ShapeError(f"expected a shape of whole, non-negative lengths, got {sizes}")
    sizes = tuple([int(size) for size in sizes])
    if math.prod(sizes) > _MOST_ELEMENTS or max(sizes, default=0) > _MOST_ELEMENTS:
        raise ShapeError(f"a tensor of shape {sizes} has more elements than memory can be addressed")
    return sizes


@lru_cache(maxsize=64)
def _default_dtype(dtype: np.dtype[Any]) -> str:
    """The dtype of host data by the contract: a supported one, but float64, as of Python numbers, becomes float32."""
    name = str(dtype.name)
    if name == "float64" or dtype.kind == "f" and name not in dtypes.SUPPORTED:
        return "float32"
    if name in dtypes.SUPPORTED:
        return name
    raise DTypeError(
        f"host data of dtype {dtype} has no counterpart; convert it to one of {', '.join(dtypes.SUPPORTED)}"
    )


def _python_integers(data: Any, values: Array, dtype: str | None) -> Array:
    """Python numbers that NumPy has converted to ``values``: as they are, or integers as objects if NumPy rounded them.

    Raises OverflowError for an integer that does not fit ``dtype`` (None: int64), which NumPy stores as uint64, float64
    or objects, or wraps.
    """
    if values.size == 0 or values.dtype.kind not in "iufO" or values.dtype.kind == "f" and abs(values).max() < _BEYOND:
        return values
    if values.dtype.kind in "fO":
        values = np.array(data, dtype=object)
        if not _are_integers(values):
            return np.asarray(data)
    if dtype is not None and not dtypes.is_integer(dtype):
        return values
    name = "int64" if dtype is None else dtypes.canonical(dtype)
    low, high = dtypes.integer_range(name)
    least, most = int(values.min()), int(values.max())
    if least < low or most > high:
        wrong = least if least < low else most
        if dtype is not None:
            raise OverflowError(f"{wrong} does not fit {name}, which holds {low} to {high}; give a wider dtype")
        cure = ' or "uint64"' if least >= 0 and most < 2**64 else ""
        raise OverflowError(
            f'{wrong} does not fit int64, the dtype of Python integers; give dtype="float64"{cure} to have it in that'
        )
    return values


_BEYOND = 2.0**63


def _are_integers(values: Array) -> bool:
    return values.dtype.kind == "O" and all(type(value) is int for value in values.flat)


def to_storage(data: Any, dtype: str | None) -> tuple[Array, str]:
    """Host data, contiguous in the storage dtype of ``dtype`` (default: by the contract), and the dtype's name."""
    array = np.asarray(data)
    if not hasattr(data, "dtype"):
        array = _python_integers(data, array, dtype)
    if dtype is None:
        dtype = _default_dtype(array.dtype)
    elif array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16" and not _are_integers(array):
        _default_dtype(array.dtype)
    dtype = dtypes.canonical(dtype)
    if dtype == "bfloat16":
        if array.dtype.name == "bfloat16":
            return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape), dtype
        return dtypes.to_bfloat16(np.ascontiguousarray(array, dtype=np.float32)).reshape(array.shape), dtype
    # ascontiguousarray would make a 0-d array 1-d; asarray with order keeps the rank.
    return np.asarray(array, dtype=dtypes.STORAGE[dtype], order="C"), dtype


def view(array: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """Returns elements of the memory of an array; strides and the offset are in elements."""
    steps = [step * array.itemsize for step in strides]
    if array.flags.c_contiguous:
        shown: Array = np.ndarray(shape, array.dtype, array, offset * array.itemsize, steps)
        return shown
    return np.lib.stride_tricks.as_strided(array.reshape(-1)[offset:], shape, steps)  # one element for all: "meta"
