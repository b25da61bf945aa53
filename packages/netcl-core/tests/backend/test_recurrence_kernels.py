"""Recurrent nets of the engines against NumPy's in float64: tiles of units that are whole or not, and few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.backend.opencl.kernels.recurrences import recurrence
from netcl.core.backend.opencl.templates import traits
from netcl.core.engine.registry import cpu_engine, engine_for
from netcl.core.testing import masked

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


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    ("units", "group", "local", "groups"), [(64, 256, 48, (1, 4)), (4, 64, 16, (4, 1)), (16, 1024, 8, None)]
)
def test_groups_of_a_gpu_run_all_steps(
    handle: Any, kind: str, units: int, group: int, local: int, groups: tuple[int, int] | None
) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no groups")
    rng = np.random.default_rng(1)
    with masked(
        handle, is_cpu=False, compute_units=units, max_work_group_size=group, local_mem_size=local << 10
    ) as gpu:
        engine = engine_for(gpu.queue)
        assert groups in (None, recurrence._group(traits(engine), "float32", kind, 19, 64))
        for hidden in (1, 21, 64, 66):  # 66: no group of 64 has a work-item for each unit
            for steps, n, reverse in ((1, 5, False), (4, 19, True)):
                rows = GATES[kind] * hidden
                shapes = ((steps, n, rows), (rows, hidden), (n, hidden), (rows,), (n, hidden), (steps, n, hidden))
                arrays = [rng.uniform(-1, 1, shape) / 4 for shape in shapes]
                expected = walked(cpu_engine(), kind, arrays, reverse, "float64")
                for result, reference in zip(walked(engine, kind, arrays, reverse, "float32"), expected):
                    np.testing.assert_allclose(result, reference, 2e-5, 2e-5, err_msg=f"{hidden} {steps} {n}")
