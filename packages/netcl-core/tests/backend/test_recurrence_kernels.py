"""Recurrent nets of the engines against NumPy's in float64: tiles of units that are whole or not, and few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.backend.registry import cpu_engine

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
# Of vectors of 4, 8 and 16 lanes: whole tiles of one, of two and of four vectors, and none.
HIDDEN = {"float32": (3, 21, 48, 64), "float64": (21, 32)}


def walked(engine: Any, kind: str, arrays: Any, reverse: bool, dtype: str) -> list[Any]:
    """Results forth and back in float64; gradients are by out and, for an LSTM, by the cells."""
    x, weight, state, bias, cell, by_out = (engine.tensor(each.astype(dtype), dtype) for each in arrays)
    cell = cell if kind == "lstm" else None
    forth = engine.recurrence(kind, x, weight, state, bias, cell, reverse=reverse)
    by_cells = by_out if kind == "lstm" else None
    back = engine.recurrence_back(kind, weight, state, cell, *forth, by_out, by_cells, reverse=reverse)
    return [np.array(engine.read(each), np.float64) for each in (*forth, *back)]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("dtype", HIDDEN)
def test_all_steps_agree_with_numpy(engine: Any, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for hidden in HIDDEN[dtype]:
        for steps, n, reverse in ((1, 5, False), (3, 1, False), (3, 19, True)):
            rows = GATES[kind] * hidden
            shapes = ((steps, n, rows), (rows, hidden), (n, hidden), (rows,), (n, hidden), (steps, n, hidden))
            arrays = [rng.uniform(-1, 1, shape) / 4 for shape in shapes]
            expected = walked(cpu_engine(), kind, arrays, reverse, "float64")
            for found, wanted in zip(walked(engine, kind, arrays, reverse, dtype), expected):
                tolerance = 2e-5 if dtype == "float32" else 1e-12
                np.testing.assert_allclose(found, wanted, tolerance, tolerance, err_msg=f"{hidden} {steps} {n}")
