"""Unpacking packed matrices with NumPy, and products with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.engine.packed_formats import FORMATS, unpacked

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorT

_PANEL = 1 << 20  # numbers that are unpacked at a time


def _panels(parts: Sequence[Array], columns: int) -> list[slice]:
    rows = parts[0].shape[0]
    step = max(1, _PANEL // max(columns, 1))
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


def _unpack(parts: Sequence[Array], out: Array, format: str, dtype: str) -> None:
    for rows in _panels(parts, out.shape[1]):
        store(out[rows], unpacked(format, [part[rows] for part in parts]), dtype)


def _product(x: Array, parts: Sequence[Array], out: Array, format: str, turned: bool, dtype: str) -> None:
    left = widened(x, dtype)
    result = np.zeros(out.shape, left.dtype)
    for rows in _panels(parts, x.shape[1]):
        panel = unpacked(format, [part[rows] for part in parts])
        if turned:
            result += left[:, rows] @ panel
        else:
            result[:, rows] = left @ panel.T
    store(out, result, dtype)


def packed_unpack(engine: Any, parts: Sequence[TensorT], *, format: str, dtype: str) -> TensorT:
    """Returns the numbers (rows, columns) of a packed matrix."""
    row = FORMATS[format]
    columns = parts[0].shape[1] // row.fields[0].count * row.block
    out: TensorT = engine.empty((parts[0].shape[0], columns), dtype)
    engine.launch(_unpack, [part.array for part in parts], out.array, format, dtype)
    return out


def packed_product(engine: Any, x: TensorT, parts: Sequence[TensorT], *, format: str, turned: bool) -> TensorT:
    """Returns x (m, columns) times the transpose of a packed matrix, or ``turned`` x (m, rows) times the matrix."""
    row = FORMATS[format]
    columns = parts[0].shape[1] // row.fields[0].count * row.block
    out: TensorT = engine.empty((x.shape[0], columns if turned else parts[0].shape[0]), x.dtype)
    engine.launch(_product, x.array, [part.array for part in parts], out.array, format, turned, x.dtype)
    return out
