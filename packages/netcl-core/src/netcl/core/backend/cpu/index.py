"""Taking, gathering, writing and adding at indices with NumPy, and the positions of true elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.engine.protocol import OUT_OF_RANGE
from netcl.core.storage.data import TensorData

_Report = Callable[[int, float, int, int], None]


def _checked(indices: Array, extent: int, report: _Report, code: int) -> Array:
    """Returns indices from 0; those out of range are reported and clamped, so negative ones if ``code`` is negative."""
    if indices.size and indices.view(f"u{indices.itemsize}").max() < extent:  # negative ones are large without a sign
        return indices
    wrapped = np.where(indices < 0, indices.astype(np.int64) + extent, indices.astype(np.int64))
    wrong = (wrapped < 0) | (wrapped >= extent)
    if code < 0:
        wrong |= indices < 0
    if wrong.any():
        first = int(np.argmax(wrong))
        report(abs(code), int(indices.flat[first]), first, extent)
    return np.clip(wrapped, 0, max(extent - 1, 0))


def _take(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    # In range by now: "raise" writes into a buffer first, "wrap" into out directly, with less work than "clip".
    np.take(x, _checked(indices, x.shape[axis], report, code), axis=axis, out=out, mode="wrap")


def _gather(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    # By positions in all of x, which is faster than an index for each axis, as np.take_along_axis has them.
    flat = _checked(indices, x.shape[axis], report, code) * np.int64(prod(x.shape[axis + 1 :]))
    for dimension, size in enumerate(x.shape):
        if dimension != axis and size > 1:
            step = prod(x.shape[dimension + 1 :])
            flat += np.arange(size).reshape([-1 if other == dimension else 1 for other in range(x.ndim)]) * step
    np.take(x, flat, out=out, mode="wrap")


def _flat(indices: Array, out: Array, axis: int, report: _Report, code: int) -> Array:
    """Returns for each element its flat position in ``out``, by its index."""
    places = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = _checked(indices, out.shape[axis], report, code)
    return np.ravel_multi_index(np.broadcast_arrays(*places), out.shape).reshape(-1)


def _write(out: Array, places: Array, rows: Array) -> None:
    """Writes out[:, places] = rows; the last of equal places wins, whatever NumPy's order over several axes."""
    winner = np.empty(out.shape[1], np.int64)
    winner[places] = np.arange(places.size)
    last = winner[places] == np.arange(places.size)
    out[:, places[last]] = rows[:, last]


def _put(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    extent = out.shape[axis]
    places = _checked(indices, extent, report, code).reshape(-1)
    table = out.reshape(prod(out.shape[:axis]), extent, -1)
    _write(table, places, x.reshape(table.shape[0], places.size, table.shape[2]))


def _scatter(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    _write(out.reshape(1, -1), _flat(indices, out, axis, report, code), x.reshape(1, -1))


def _take_grad(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int, dtype: str) -> None:
    extent = out.shape[axis]
    places = _checked(indices, extent, report, code).reshape(-1)
    total = widened(out, dtype)
    table = total.reshape(prod(out.shape[:axis]), extent, -1)
    rows = widened(x, dtype).reshape(table.shape[0], places.size, table.shape[2])
    if places.size and table.shape[2] > 1:
        # Rows of one place are adjacent, in the order of the indices, so that each place is written once.
        order = np.argsort(places, kind="stable")
        there, starts = np.unique(places[order], return_index=True)
        table[:, there] += np.add.reduceat(rows[:, order], starts, axis=1, dtype=table.dtype)
    else:
        for part, values in zip(table, rows):
            np.add.at(part[:, 0], places, values[:, 0])  # adds in the order of the indices
    store(out, total, dtype)


def _gather_grad(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int, dtype: str) -> None:
    total = widened(out, dtype)
    np.add.at(total.reshape(-1), _flat(indices, out, axis, report, code), widened(x, dtype).reshape(-1))
    store(out, total, dtype)


_FUNCTIONS: dict[str, Callable[..., None]] = {
    "take": _take,
    "gather": _gather,
    "put": _put,
    "scatter": _scatter,
    "take_grad": _take_grad,
    "gather_grad": _gather_grad,
}


def index(
    engine: Any,
    kind: str,
    x: TensorData,
    indices: TensorData,
    *,
    axis: int,
    shape: Sequence[int] | None = None,
    out: TensorData | None = None,
    op: str = "",
    wrap: bool = True,
) -> TensorData:
    """Computes ``take`` as np.take and ``gather`` as np.take_along_axis (equal shapes off the axis), and their
    inverses.

    ``take_grad`` and ``gather_grad`` add the rows or elements of ``x`` into zeros of ``shape``, or to what ``out``
    holds, in the order of the indices. ``put`` and ``scatter`` write them into ``out``, where the last of equal indices
    wins. An index outside [-n, n) is clamped, and the next host read names ``op``.
    """
    table = tuple(out.shape if out is not None else x.shape if shape is None else shape)
    axis %= len(table)
    code = engine.flag_code(OUT_OF_RANGE.format(op or kind.removesuffix("_grad")))
    if out is not None:
        target = out
    elif kind.endswith("_grad"):
        target = engine.zeros(table, x.dtype)
    else:
        result = table[:axis] + indices.shape + table[axis + 1 :] if kind == "take" else indices.shape
        target = engine.empty(result, x.dtype)
    if target.size == 0 or out is not None and x.size == 0:
        return target
    # A negative code: negative indices are out of range.
    arrays = (x.array, indices.array, target.array, axis, engine.raise_flag, code if wrap else -code)
    engine.launch(_FUNCTIONS[kind], *arrays, *((x.dtype,) if kind.endswith("_grad") else ()))
    return target
