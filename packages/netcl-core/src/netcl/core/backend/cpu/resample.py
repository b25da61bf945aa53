"""Resizing with NumPy, axis by axis, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array
from netcl.core.storage.data import TensorData


def _taps(extent: int, out: int, taps: int, places: tuple[int, int, int], dtype: Any) -> tuple[Array, Array]:
    """Returns (out, taps) positions and weights of the neighbors of each output."""
    step, start, unit = places
    place = np.arange(out) * step + start
    whole = place // unit
    t = ((place - whole * unit) / unit).astype(dtype if dtype.kind == "f" else np.float32)
    if taps == 1:
        weights = [np.ones_like(t)]
    elif taps == 2:
        weights = [1 - t, t]
    else:
        a, u = -0.75, 1 - t
        outer = [((a * s - 5 * a) * s + 8 * a) * s - 4 * a for s in (t + 1, u + 1)]
        inner = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (t, u)]
        weights = [outer[0], *inner, outer[1]]
    first = whole - (1 if taps == 4 else 0)
    positions = np.clip(first[:, None] + np.arange(taps), 0, extent - 1)
    return positions, np.stack(weights, axis=1)


def _forward(x: Array, out: Array, axis: int, taps: int, places: tuple[int, int, int]) -> None:
    positions, weights = _taps(x.shape[axis], out.shape[axis], taps, places, x.dtype)
    if taps == 1:
        out[...] = np.take(x, positions[:, 0], axis)
        return
    column = (-1,) + (1,) * (x.ndim - 1 - axis)
    with np.errstate(all="ignore"):
        total = np.take(x, positions[:, 0], axis) * weights[:, 0].reshape(column)
        for k in range(1, taps):
            total += np.take(x, positions[:, k], axis) * weights[:, k].reshape(column)
    out[...] = total


def _gradient(grad: Array, out: Array, axis: int, taps: int, places: tuple[int, int, int]) -> None:
    positions, weights = _taps(out.shape[axis], grad.shape[axis], taps, places, grad.dtype)
    out[...] = 0
    rows, grad_rows = np.moveaxis(out, axis, 0), np.moveaxis(grad, axis, 0)
    column = (-1,) + (1,) * (grad.ndim - 1)
    with np.errstate(all="ignore"):
        for k in range(taps):
            np.add.at(rows, positions[:, k], grad_rows * weights[:, k].reshape(column))


def resample(
    engine: Any, kind: str, x: TensorData, *, sizes: Sequence[int], taps: int, places: Sequence[tuple[int, int, int]]
) -> TensorData:
    """Resizes (``forward``) the last axes to ``sizes``, each output a sum of ``taps`` neighbors along each: 1, 2 or 4
    with the weights of nearest, linear or cubic interpolation.

    With places = (step, start, unit) of an axis, its output o is at (step * o + start) / unit; neighbors outside take
    the border's value. ``gradient`` maps the gradient of such a result back to ``sizes`` inputs; it computes on float32
    and float64, and so does ``forward`` with more than one tap.
    """
    first = x.ndim - len(sizes)
    axes = range(first, x.ndim)
    function = _forward if kind == "forward" else _gradient
    for axis in reversed(axes) if kind == "forward" else axes:
        shape = (*x.shape[:axis], int(sizes[axis - first]), *x.shape[axis + 1 :])
        out: TensorData = engine.empty(shape, x.dtype)
        if out.size:
            engine.launch(function, x.array, out.array, axis, taps, tuple(places[axis - first]))
        x = out
    return x
