"""CTC alpha-beta recursion (forward-backward) with NumPy, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorData


def _log_sum(paths: Array, jumps: Array) -> Array:
    """Returns, for (n, states + 2) with two empty states in front, the log-sum over the predecessors of each state."""
    ahead = np.where(jumps, paths[:, :-2], -np.inf)
    return np.logaddexp(np.logaddexp(paths[:, 2:], paths[:, 1:-1]), ahead)


def _walk(x: Array, jumps: Array, begins: Array | None, out: Array, dtype: str) -> None:
    values = widened(x, dtype).astype(np.float64)
    result = np.full(values.shape, -np.inf)
    paths = np.full((x.shape[1], x.shape[2] + 2), -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        if begins is None:
            result[0, :, :2] = values[0, :, :2]
            for step in range(1, len(x)):
                paths[:, 2:] = result[step - 1]
                result[step] = _log_sum(paths, jumps) + values[step]
        else:
            ends = widened(begins, dtype).astype(np.float64)
            result[-1] = ends[-1]
            # In reversed order, a jump into the state two ahead is one into the state itself.
            into = np.zeros_like(jumps)
            into[:, 2:] = jumps[:, :1:-1]
            for step in range(len(x) - 2, -1, -1):
                paths[:, 2:] = (result[step + 1] + values[step + 1])[:, ::-1]
                result[step] = np.logaddexp(_log_sum(paths, into)[:, ::-1], ends[step])
    store(out, result, dtype)


def ctc(engine: Any, x: TensorData, jumps: TensorData, begins: TensorData | None = None) -> TensorData:
    """Returns the log-sum over all paths up to each step and state of ``x`` (steps, n, states), x included (alpha).

    With ``begins`` of x's shape: the log-sum over all paths from there on, x excluded (beta), where paths that end
    there contribute ``begins``. A path stays, advances by one, or jumps by two into a state for which ``jumps`` (n,
    states), bool, is True.
    """
    out: TensorData = engine.empty(x.shape, x.dtype)
    if x.size:
        storage = None if begins is None else begins.array
        engine.launch(_walk, x.array, jumps.array, storage, out.array, x.dtype)
    return out
