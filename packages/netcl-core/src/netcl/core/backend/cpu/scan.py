"""Running sums, products, extrema and linear recurrences along an axis with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorData

_TOTALS = {"sum": np.add, "prod": np.multiply, "logsumexp": np.logaddexp}


def _total(x: Array, out: Array, axis: int, kind: str, dtype: str) -> None:
    values = widened(x, dtype)
    exact = np.float64 if values.dtype.kind == "f" else values.dtype
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        store(out, _TOTALS[kind].accumulate(values, axis, dtype=exact), dtype)


def _extremum(x: Array, out: Array, places: Array, axis: int, kind: str, dtype: str) -> None:
    values = widened(x, dtype)
    with np.errstate(invalid="ignore"):
        best = (np.maximum if kind == "max" else np.minimum).accumulate(values, axis)
        hit = (values == best) | (values != values)
    index = np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
    np.maximum.accumulate(np.where(hit, index, 0), axis, out=places)
    store(out, best, dtype)


def _linear(x: Array, factors: Array, out: Array, axis: int, dtype: str) -> None:
    offset, factor = (np.moveaxis(widened(part, dtype).astype(np.float64), axis, 0) for part in (x, factors))
    shift = 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        while shift < len(offset):
            # 0 times a factor that has overflowed is 0.
            carried = np.where(offset[:-shift] == 0, 0.0, factor[shift:] * offset[:-shift])
            offset = np.concatenate([offset[:shift], carried + offset[shift:]])
            factor = np.concatenate([factor[:shift], factor[shift:] * factor[:-shift]])
            shift *= 2
    store(out, np.moveaxis(offset, 0, axis), dtype)


def scan(
    engine: Any, kind: str, x: TensorData, other: TensorData | None = None, *, axis: int, reverse: bool = False
) -> Any:
    """Combines the elements along ``axis`` up to each position (``reverse``: from it on), in ``x``'s shape and dtype.

    ``sum``, ``prod`` and ``logsumexp`` give a tensor, ``max`` and ``min`` (values, places int64: of the last extremum,
    NaN being one), ``linear`` y[i] = x[i] + other[i] * y[i - 1]. Floats are combined in float64.
    """
    out: TensorData = engine.empty(x.shape, x.dtype)
    extremum = kind in ("max", "min")
    places = [engine.empty(x.shape, "int64")] if extremum else []
    if x.size:
        axis %= x.ndim
        turn = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
        arrays = [tensor.array[turn] for tensor in ([x] if other is None else [x, other])]
        if extremum:
            engine.launch(_extremum, *arrays, out.array[turn], places[0].array[turn], axis, kind, x.dtype)
        elif kind == "linear":
            engine.launch(_linear, *arrays, out.array[turn], axis, x.dtype)
        else:
            engine.launch(_total, *arrays, out.array[turn], axis, kind, x.dtype)
    return (out, *places) if extremum else out
