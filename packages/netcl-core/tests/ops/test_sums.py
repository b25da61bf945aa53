"""Sums over any axis are right to about one rounding, whatever their length, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor

UNIT = 2.0**-24
LONG = 2**25 + 1  # ones; a float32 that counts them stops at 2**24


def test_a_count_beyond_the_whole_floats(engine: Any) -> None:
    ones = Tensor.full((LONG,), 1.0)
    assert float(ops.sum(ones)) == np.float32(LONG)
    assert float(ops.mean(ones)) == np.float32(LONG) / np.float32(LONG)
    rows = Tensor.full((8, LONG // 8), 1.0)
    np.testing.assert_array_equal(ops.sum(rows, axis=1), [LONG // 8] * 8)
    columns = Tensor.full((LONG // 8, 8), 1.0)
    np.testing.assert_array_equal(ops.sum(columns, axis=0), [LONG // 8] * 8)


def test_sums_of_every_axis_pattern(engine: Any) -> None:
    """Terms of eight orders of magnitude: the error is of a block of 64 terms at most, and of one rounding."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(65, 66, 67)) * 10.0 ** rng.integers(-4, 4, (65, 66, 67))).astype(np.float32)
    tensor = Tensor.from_host(x)
    for axis in (None, 0, 1, 2, (0, 2), (1, 2), (0, 1)):
        wanted, terms = x.sum(axis, np.float64), np.abs(x).sum(axis, np.float64)
        error = np.abs(ops.sum(tensor, axis=axis).numpy() - wanted)
        assert np.all(error <= 8 * UNIT * terms + UNIT * np.abs(wanted)), axis
        if axis not in (None, 1):
            continue
        variance = x.var(axis, dtype=np.float64, ddof=1)
        np.testing.assert_allclose(ops.var(tensor, axis=axis), variance, rtol=1e-5)
        np.testing.assert_allclose(
            ops.norm(tensor, axis=axis), np.sqrt((x.astype(np.float64) ** 2).sum(axis)), rtol=1e-6
        )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays(value: float, engine: Any) -> None:
    x = np.ones((65, 130), np.float32)
    x[40, 90] = value
    tensor = Tensor.from_host(x)
    wanted = [np.full(65, 130.0), np.full(130, 65.0)]
    wanted[0][40] = wanted[1][90] = value
    np.testing.assert_array_equal(ops.sum(tensor, axis=1), wanted[0])
    np.testing.assert_array_equal(ops.sum(tensor, axis=0), wanted[1])
    np.testing.assert_array_equal(ops.sum(tensor), value)


def test_a_softmax_may_lie_on_its_input(engine: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, (65, 67)).astype(np.float32)
    for axis in (0, 1):
        wanted = ops.softmax(Tensor.from_host(x), axis=axis).numpy()
        weight = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(wanted, weight / weight.sum(axis, keepdims=True), rtol=1e-6)
        tensor = Tensor.from_host(x)
        ops.softmax(tensor, axis=axis, out=tensor)
        np.testing.assert_array_equal(tensor.numpy(), wanted)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_add_up_in_float32(dtype: str, engine: Any) -> None:
    ones = Tensor.from_host(np.ones((5, 4099), np.float32), dtype)  # float16 counts to 2048, bfloat16 to 256
    found = ops.mean(ones, axis=1)
    np.testing.assert_array_equal(found.numpy().astype(np.float32), np.ones(5, np.float32))
    total = ops.sum(ones.astype("float32")).numpy()
    rows = ops.sum(ones, axis=0).numpy().astype(np.float32)
    assert float(total) == 5 * 4099
    np.testing.assert_array_equal(rows, np.full(4099, 5.0))
