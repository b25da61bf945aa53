"""Products with sparse matrices with NumPy: the products of all elements, then sums over segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorData

_MOST = 1 << 22  # products at a time


def _rows(values: Array, columns: Array, starts: Array, dense: Array, out: Array, dtype: str) -> None:
    factors, table = widened(values, dtype), widened(dense, dtype)
    result = np.zeros(out.shape, table.dtype)
    full = np.flatnonzero(starts[1:] > starts[:-1])
    share = max(1, _MOST // max(table.shape[1], 1))
    first = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while first < len(full):
            # Whole rows, at least one, of at most ``share`` elements.
            base = starts[full[first]]
            last = max(first + 1, int(np.searchsorted(starts[full + 1], base + share, side="right")))
            part = slice(base, starts[full[last - 1] + 1])
            products = factors[part, None] * table[columns[part]]
            result[full[first:last]] = np.add.reduceat(products, starts[full[first:last]] - base, axis=0)
            first = last
    store(out, result, dtype)


def _pairs(a: Array, b: Array, rows: Array, columns: Array, out: Array, dtype: str) -> None:
    left, right = widened(a, dtype), widened(b, dtype)
    result = np.zeros(out.shape, left.dtype)
    share = max(1, _MOST // max(left.shape[1], 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(rows), share):
            part = slice(first, first + share)
            result[part] = np.einsum("ij,ij->i", left[rows[part]], right[columns[part]])
    store(out, result, dtype)


def sparse_rows(
    engine: Any, values: TensorData, columns: TensorData, starts: TensorData, dense: TensorData
) -> TensorData:
    """Computes (rows, n) in CSR @ (n, width)."""
    out: TensorData = engine.empty((starts.shape[0] - 1, dense.shape[1]), dense.dtype)
    engine.launch(_rows, values.array, columns.array, starts.array, dense.array, out.array, dense.dtype)
    return out


def sparse_pairs(engine: Any, a: TensorData, b: TensorData, rows: TensorData, columns: TensorData) -> TensorData:
    """Returns the dot products of the rows ``rows`` of ``a`` and ``columns`` of ``b``."""
    out: TensorData = engine.empty(rows.shape, a.dtype)
    engine.launch(_pairs, a.array, b.array, rows.array, columns.array, out.array, a.dtype)
    return out
