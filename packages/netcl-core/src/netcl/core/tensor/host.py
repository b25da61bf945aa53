"""Host data as tensors take it: shapes checked, values in the dtype and the layout that they are stored in."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from netcl.core import dtypes
from netcl.core.errors import DTypeError, ShapeError

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
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ShapeError(f"a shape needs whole, non-negative lengths, not {sizes}")
    sizes = tuple([int(size) for size in sizes])
    if math.prod(sizes) > _MOST_ELEMENTS or max(sizes, default=0) > _MOST_ELEMENTS:
        raise ShapeError(f"a tensor of shape {sizes} has more elements than memory can be addressed")
    return sizes


def _default_dtype(data: Array) -> str:
    """The dtype of host data by the contract: ints and bool keep theirs, 8- and 16-bit ones become int32, float64
    becomes float32.
    """
    kind, size = data.dtype.kind, data.dtype.itemsize
    if kind == "b":
        return "bool"
    if kind in "iu":
        return "int32" if size <= 2 or (kind, size) == ("i", 4) else "int64"
    if data.dtype.name in ("float16", "bfloat16"):
        return str(data.dtype.name)
    if kind == "f":
        return "float32"
    raise DTypeError(
        f"host data of dtype {data.dtype} has no counterpart; convert it to one of {', '.join(dtypes.SUPPORTED)}"
    )


def to_storage(data: Any, dtype: str | None) -> tuple[Array, str]:
    """Host data as a contiguous array in the storage dtype of ``dtype`` (default: by the contract), and the dtype's
    name.
    """
    array = np.asarray(data)
    if dtype is None:
        dtype = _default_dtype(array)
    elif array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        _default_dtype(array)
    dtype = dtypes.canonical(dtype)
    if dtype == "bfloat16":
        if array.dtype.name == "bfloat16":
            return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape), dtype
        return dtypes.to_bfloat16(np.ascontiguousarray(array, dtype=np.float32)).reshape(array.shape), dtype
    # ascontiguousarray would make a 0-d array 1-d; asarray with order keeps the rank.
    return np.asarray(array, dtype=dtypes.numpy_dtype(dtype), order="C"), dtype
