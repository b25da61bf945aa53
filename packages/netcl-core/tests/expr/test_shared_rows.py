"""Rows of several axes with a short last one, which the work-items of a group share on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load, mean, reduce
from netcl.core.expr.schedule import Target, make_plan
from netcl.core.testing import masked

SHAPES = [(8, 6, 4, 4), (40, 5, 7, 7), (33, 3, 1, 5), (16, 4, 8, 8), (300, 2, 3, 3), (5, 3, 40, 40), (64, 3, 2, 1)]
SHAPES += [(9, 5, 14, 14), (6, 3, 4, 112), (70, 2, 28, 28)]


@pytest.mark.parametrize("units", [1, 132])  # with many units rows are cut in pieces
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_what_is_made_of_them(engine: Any, shape: tuple[int, ...], units: int) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no groups of work-items")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with masked(engine.handle, is_cpu=False, compute_units=units) as handle, device(handle):
        a = engine_for(handle).tensor(x, "float32")
        exact = x.astype(np.float64)
        axes = (0, 2, 3)
        for name, own in (("sum", "sum"), ("amax", "max"), ("mean", "mean")):
            found = getattr(ops, name)(a, axes).numpy()
            np.testing.assert_allclose(found, getattr(exact, own)(axes), 1e-6, 1e-6)
        centred = a - ops.mean(a, axes, keepdims=True)
        np.testing.assert_allclose(centred.numpy(), exact - exact.mean(axes, keepdims=True), 1e-5, 1e-6)
        assert np.array_equal(centred.numpy(), (a - ops.mean(a, axes, keepdims=True)).numpy())  # the same bits


@pytest.mark.parametrize(("side", "turns"), [(4, 4), (8, 16), (14, 64), (16, 64), (32, 128), (7, 16)])
def test_work_items_take_turns_along_a_short_axis(side: int, turns: int) -> None:
    space = (128, 512, side * side)  # rows that 128 work-items share
    target = Target(width=4, group=128, units=1, is_cpu=False)
    x = Load(0, "float32")
    plan = make_plan((x - mean(x, (0, 2)), reduce("sum", x, (0, 2))), (space, (1, 512, 1)), (space,), space, target)
    text = plan.launches[0].source
    assert (f"lid / {turns}" in text and f"i0 < n0; i0 += {128 // turns}" in text) == (turns < 128)
    assert ("i0 < n0; ++i0" in text) == (turns == 128)
    assert ("#pragma unroll" in text) == (side in (4, 8, 14, 16))  # each has one vector of a row at most
