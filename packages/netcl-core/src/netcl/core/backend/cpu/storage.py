"""Converts stored elements to the numbers NumPy computes with, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import from_bfloat16, to_bfloat16

Array = np.ndarray[Any, Any]


def widened(array: Array, dtype: str) -> Array:
    """Returns the values for computing: the 16-bit floats as float32, other dtypes unchanged (no copy)."""
    if dtype == "bfloat16":
        return from_bfloat16(array)
    return array.astype(np.float32) if dtype == "float16" else array


def store(out: Array, values: Array, dtype: str) -> None:
    """Rounds ``values`` into ``out``; one beyond the range of a 16-bit float becomes infinite, without a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[...] = to_bfloat16(values.astype(np.float32, copy=False)) if dtype == "bfloat16" else values
