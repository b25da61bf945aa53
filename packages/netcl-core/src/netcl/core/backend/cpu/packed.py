"""Unpacking packed matrices with NumPy, and products with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.engine.packed_formats import FORMATS, unpacked
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


def _fused(x: Array, parts: Sequence[Array], extras: Sequence[Array | None], out: Array, options: Any) -> None:
    format, eps, gate, dtype = options
    norm, bias, residual = (None if extra is None else widened(extra, dtype) for extra in extras)
    left = widened(x, dtype)
    if norm is not None:
        left = left / np.sqrt((left * left).mean(-1, keepdims=True) + np.float32(eps)) * norm
    y = np.concatenate(
        [left @ unpacked(format, [part[rows] for part in parts]).T for rows in _panels(parts, x.shape[1])], 1
    )
    y = y if bias is None else y + bias
    if gate:
        first, second = np.split(y, 2, -1)
        inner = first if gate == "silu" else np.float32(1.5957691216) * (first + np.float32(0.044715) * first**3)
        with np.errstate(over="ignore"):
            y = first / (1 + np.exp(-inner)) * second
    store(out, y if residual is None else y + residual, dtype)


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


def packed_fused(
    engine: Any, x: TensorT, parts: Sequence[TensorT], extras: Sequence[TensorT | None], *, format: str, eps: float,
    gate: str,
) -> TensorT:  # fmt: skip
    """Returns a product of few rows of x with norm, bias, gate and residual around it."""
    rows = parts[0].shape[0]
    out: TensorT = engine.empty((x.shape[0], rows // 2 if gate else rows), x.dtype)
    arrays = [None if extra is None else extra.array for extra in extras]
    engine.launch(_fused, x.array, [part.array for part in parts], arrays, out.array, (format, eps, gate, x.dtype))
    return out
