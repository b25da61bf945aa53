"""Forward and backward pass of a recurrent network over all steps, with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.storage.data import TensorData

Array = np.ndarray[Any, Any]
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def _logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _order(steps: int, reverse: bool) -> list[int]:
    return list(range(steps))[:: -1 if reverse else 1]


def _forward(
    kind: str,
    x: Array,
    weight: Array,
    state: Array,
    bias: Array | None,
    cell: Array | None,
    out: Array,
    cells: Array,
    kept: Array,
    reverse: bool,
) -> None:
    h, c = state, cell
    for now in _order(len(x), reverse):
        product = h @ weight.T if bias is None else h @ weight.T + bias
        if kind == "lstm":
            i, f, g, o = np.split(x[now] + product, 4, -1)
            i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
            c = cells[now] = f * c + i * g
            h = out[now] = o * np.tanh(c)
            if kept.size:
                kept[now] = np.concatenate([i, f, g, o], -1)
        elif kind == "gru":
            (xr, xz, xn), (hr, hz, q) = np.split(x[now], 3, -1), np.split(product, 3, -1)
            r, z = _logistic(xr + hr), _logistic(xz + hz)
            fresh = np.tanh(xn + r * q)
            if kept.size:
                kept[now] = np.concatenate([r, z, fresh, q], -1)
            h = out[now] = (1 - z) * fresh + z * h
        else:
            h = out[now] = np.tanh(x[now] + product) if kind == "tanh" else np.maximum(x[now] + product, 0)


def _backward(
    kind: str,
    weight: Array,
    state: Array,
    cell: Array | None,
    out: Array,
    cells: Array,
    kept: Array,
    by_out: Array | None,
    by_cells: Array | None,
    by_x: Array,
    by_sum: Array,
    by_state: Array,
    by_cell: Array,
    reverse: bool,
) -> None:
    order = _order(len(out), reverse)
    dh, dc = np.zeros_like(state), np.zeros_like(state)
    for past, now in reversed(list(zip([None, *order], order))):
        if by_out is not None:
            dh = dh + by_out[now]
        h = state if past is None else out[past]
        on = 0
        if kind == "lstm":
            i, f, g, o = np.split(kept[now], 4, -1)
            c = np.tanh(cells[now])
            dc = dc + dh * o * (1 - c * c) + (0 if by_cells is None else by_cells[now])
            before = cell if past is None else cells[past]
            parts = dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), dh * c * o * (1 - o)
            by_sum[now] = np.concatenate(parts, -1)
            dc = dc * f
        elif kind == "gru":
            r, z, fresh, q = np.split(kept[now], 4, -1)
            dn = dh * (1 - z) * (1 - fresh * fresh)
            dr, dz = dn * q * r * (1 - r), dh * (h - fresh) * z * (1 - z)
            by_x[now] = np.concatenate([dr, dz, dn], -1)
            by_sum[now] = np.concatenate([dr, dz, dn * r], -1)
            on = dh * z
        else:
            by_sum[now] = dh * (1 - out[now] ** 2) if kind == "tanh" else np.where(out[now] > 0, dh, 0)
        dh = by_sum[now] @ weight + on
    by_state[...] = dh
    if kind == "lstm":
        by_cell[...] = dc


def _storage(tensor: TensorData | None) -> Any:
    return None if tensor is None else tensor.array


def recurrence(
    engine: Any,
    kind: str,
    x: TensorData,
    weight: TensorData,
    state: TensorData,
    bias: TensorData | None,
    cell: TensorData | None,
    reverse: bool,
    keeps: bool = True,
) -> tuple[TensorData, TensorData, TensorData]:
    """Runs all steps of a network of ``kind`` (see ``DeviceBackend.recurrence``)."""
    steps, n, hidden = *x.shape[:2], state.shape[-1]
    out = engine.empty((steps, n, hidden), x.dtype)
    cells = engine.empty((steps, n, hidden) if kind == "lstm" else (0,), x.dtype)
    kept = engine.empty((steps, n, 4 * hidden) if keeps and kind in ("lstm", "gru") else (0,), x.dtype)
    arrays = [_storage(tensor) for tensor in (x, weight, state, bias, cell, out, cells, kept)]
    engine.launch(_forward, kind, *arrays, reverse)
    return out, cells, kept


def recurrence_back(
    engine: Any,
    kind: str,
    weight: TensorData,
    state: TensorData,
    cell: TensorData | None,
    out: TensorData,
    cells: TensorData,
    kept: TensorData,
    by_out: TensorData | None,
    by_cells: TensorData | None,
    reverse: bool,
) -> tuple[TensorData, TensorData, TensorData, TensorData]:
    """Returns the gradients of ``recurrence`` (see ``DeviceBackend.recurrence_back``)."""
    by_sum = engine.empty((*out.shape[:2], GATES[kind] * out.shape[2]), out.dtype)
    by_x = engine.empty(by_sum.shape, out.dtype) if kind == "gru" else by_sum
    by_state = engine.empty(state.shape, out.dtype)
    by_cell = engine.empty(state.shape if kind == "lstm" else (0,), out.dtype)
    tensors = (weight, state, cell, out, cells, kept, by_out, by_cells, by_x, by_sum, by_state, by_cell)
    engine.launch(_backward, kind, *(_storage(tensor) for tensor in tensors), reverse)
    return by_x, by_sum, by_state, by_cell
