"""Sorting rows, searching in sorted rows, counting between edges and undoing a sort, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from netcl.core.backend.cpu.compaction import runs
from netcl.core.backend.cpu.storage import Array, widened
from netcl.core.backend.host_sort import sort_values, sorted_rows, unique
from netcl.core.storage.data import TensorData


def _sort(x: Array, values: Array, indices: Array, descending: bool, dtype: str) -> None:
    size = values.shape[-1]
    ordered, order = sorted_rows(x, dtype, descending)
    values[...], indices[...] = ordered[..., :size], order[..., :size]


def _values(x: Array, out: Array, descending: bool, dtype: str) -> None:
    out[...] = x
    sort_values(out, x.view, dtype, descending)


def _kth(x: Array, other: Array, out: Array, dtype: str) -> None:
    keys = widened(x, dtype)
    value = np.take_along_axis(np.partition(keys, np.unique(other), axis=-1), other, -1)
    missing = value != value
    before = np.where(missing, keys == keys, keys < value)
    equal = np.where(missing, keys != keys, keys == value)
    rank = other + 1 - before.sum(-1, keepdims=True)
    out[...] = np.argmax(equal & (np.cumsum(equal, -1) == rank), -1)[..., None]


def _search(x: Array, other: Array, out: Array, right: bool, dtype: str) -> None:
    side: Literal["left", "right"] = "right" if right else "left"
    rows, values = widened(x, dtype), widened(other, dtype)
    if x.ndim == 1:
        out[...] = np.searchsorted(rows, values, side)
        return
    for place in np.ndindex(x.shape[:-1]):
        out[place] = np.searchsorted(rows[place], values[place], side)


def _count(x: Array, other: Array, out: Array, dtype: str) -> None:
    values, edges = widened(x, dtype).reshape(-1), widened(other, dtype)
    values = values[(values >= edges[0]) & (values <= edges[-1])]
    bins = np.searchsorted(edges, values, "right")
    bins[values == edges[-1]] = len(edges) - 1
    out[...] = np.bincount(bins - 1, minlength=len(edges) - 1)


def _put_back(x: Array, other: Array, out: Array) -> None:
    out[...] = 0
    np.put_along_axis(out, other, x, -1)


def sort(
    engine: Any,
    kind: str,
    x: TensorData,
    other: TensorData | None = None,
    *,
    size: int = 0,
    descending: bool = False,
    right: bool = False,
    wanted: Sequence[str] = (),
) -> Any:
    """See ``DeviceBackend.sort``."""
    if kind == "sort":
        values, indices = (engine.empty((*x.shape[:-1], size), dtype) for dtype in (x.dtype, "int64"))
        engine.launch(_sort, x.array, values.array, indices.array, descending, x.dtype)
        return values, indices
    if kind in ("values", "unstable"):
        out = engine.empty(x.shape, x.dtype)
        engine.launch(_values, x.array, out.array, descending, x.dtype)
        return out
    if kind == "runs":
        return runs(engine, x, wanted)
    if kind == "unique":
        values, *others = unique(engine.read(x), partial(engine.read, x), x.dtype, wanted)
        return engine.tensor(values, x.dtype), *(engine.tensor(other, "int64") for other in others)
    assert other is not None
    if kind == "kth":
        out = engine.empty(other.shape, "int64")
        engine.launch(_kth, x.array, other.array, out.array, x.dtype)
        return out
    if kind == "search":
        out = engine.empty(other.shape, "int64")
        engine.launch(_search, x.array, other.array, out.array, right, x.dtype)
    elif kind == "count":
        out = engine.empty((other.shape[0] - 1,), "int64")
        engine.launch(_count, x.array, other.array, out.array, x.dtype)
    else:
        out = engine.empty((*x.shape[:-1], size), x.dtype)
        engine.launch(_put_back, x.array, other.array, out.array)
    return out
