"""Stable sorting of rows on the host: a key and its position are packed into one int64, which NumPy sorts with SIMD."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import from_bfloat16

Array = np.ndarray[Any, Any]

_LARGEST = 0x7FFFFFFF
_WIDE = ("int64", "uint32", "uint64")  # whose values int32 does not hold: sorted if their range fits


def packs(x: Array, dtype: str) -> bool:
    """True if ``sorted_rows`` sorts ``x``, stored as ``dtype``: its keys and positions fit into 32 bits each."""
    if x.size == 0 or x.shape[-1] > _LARGEST or dtype == "float64":
        return False
    return dtype not in _WIDE or int(x.max()) - int(x.min()) <= _LARGEST


def _keys(x: Array, dtype: str) -> Array:
    """int32 in the order of x: NaN is the largest, -0 equals 0."""
    if dtype in ("float32", "float16", "bfloat16"):
        wide = from_bfloat16(x) if dtype == "bfloat16" else x.astype(np.float32, copy=False)
        keys: Array = (wide + np.float32(0)).view(np.int32)  # -0 + 0 is 0
        missing = wide != wide
        if missing.any():
            keys[missing] = _LARGEST
        keys ^= (keys >> 31) & _LARGEST
        return keys
    return (x - x.min()).astype(np.int32) if dtype in _WIDE else x.astype(np.int32)


def sorted_rows(x: Array, dtype: str, descending: bool) -> tuple[Array, Array]:
    """The last axis in order, equal elements in theirs, and the positions, int64; ``packs(x, dtype)`` holds."""
    keys = _keys(x, dtype)
    if descending:
        np.invert(keys, out=keys)
    packed = np.empty(x.shape, np.int64)
    np.left_shift(keys, 32, out=packed, dtype=np.int64)
    packed |= np.arange(x.shape[-1], dtype=np.int64)
    packed.sort(axis=-1)
    packed &= 0xFFFFFFFF
    rows, places = x.reshape(-1, x.shape[-1]), packed.reshape(-1, x.shape[-1])
    values = np.empty_like(rows)
    for row, place, target in zip(rows, places, values):
        np.take(row, place, out=target, mode="clip")
    return values.reshape(x.shape), packed


def sorted_values(x: Array, dtype: str) -> Array:
    """The last axis in rising order, NaN last, without positions."""
    if dtype == "bfloat16":
        keys = _keys(x, dtype)
        return np.take_along_axis(x, np.argsort(keys, axis=-1, kind="stable"), -1)
    return np.sort(x, axis=-1)
