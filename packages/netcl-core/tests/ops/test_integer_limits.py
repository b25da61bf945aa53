"""Integers at their limits and special quotients: NumPy's numbers on every engine, in one process with all drivers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import netcl as nc
from netcl.core import Tensor, manager
from netcl.core.errors import DeviceNotFoundError

SIGNED = ["int8", "int16", "int32", "int64"]


def on(handle, values):
    return Tensor.from_host(handle.queue, np.asarray(values))


def pairs(dtype):
    """Dividends and divisors at the limits of a dtype, zero divisors and all signs among them."""
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.max, 7, 0, 5] + ([-7, limits.min + 1] if limits.min else [])
    divisors = [limits.max, 3, 0, 1] + ([limits.min, -1, -3] if limits.min else [])
    grid = np.array([(a, b) for a in ends for b in divisors]).astype(dtype)
    return grid[:, 0].copy(), grid[:, 1].copy()


@pytest.mark.parametrize("dtype", [*SIGNED, "uint8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_quotients_and_remainders_at_the_limits(handle, name, dtype):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    assert np.array_equal(getattr(nc, name)(on(handle, a), on(handle, b)).to_host(), expected)


@pytest.mark.parametrize("dtype", SIGNED)
def test_the_least_integer_by_minus_one(handle, dtype):
    least = np.iinfo(dtype).min
    x = on(handle, np.array([least, 5], dtype))
    assert (x // -1).to_host().tolist() == [least, -5]
    assert (x % -1).to_host().tolist() == [0, 0]


@pytest.mark.parametrize("dtype", SIGNED)
def test_the_negative_and_the_size_of_the_least_integer(handle, dtype):
    """They wrap, as NumPy's and PyTorch's do, also where a compiler sees that they become floats."""
    least = np.iinfo(dtype).min
    x = on(handle, np.array([least, 5, -5] * 9, dtype))
    for name, found in (("neg", [least, -5, 5]), ("abs", [least, 5, 5])):
        size = getattr(nc, name)(x)
        assert size.to_host().tolist() == found * 9
        assert (size * 0.5).to_host().tolist() == [np.float32(value) * 0.5 for value in found] * 9
    assert nc.logsigmoid(x).to_host()[0] == np.float32(least)


def test_the_least_integer_on_pocl_after_intels_runtime_was_used():
    """Intel's runtime leaves the trap of divisions on; PoCL's kernel then ended the process with SIGFPE."""
    script = """
import numpy as np
from netcl.core import Tensor, manager
for driver in ("intel", "pocl"):
    queue = manager.default(driver).queue
    x = Tensor.from_host(queue, np.array([-(2**31), 7], np.int32))
    for _ in range(2):
        zeros = Tensor.from_host(queue, np.zeros(2, np.int32))
        print(*(y.to_host().tolist() for y in (x // -1, x % -1, x // zeros)))
"""
    for driver in ("intel", "pocl"):
        try:
            manager.default(driver)
        except DeviceNotFoundError:
            pytest.skip(f"the OpenCL driver {driver} is not installed")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[-2147483648, -7] [0, 0] [0, 0]\n" * 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floor_divide_of_special_values_is_numpys(handle, dtype):
    a = np.array([np.inf, -np.inf, 1, -1, 0, -0.0, 5, -5, np.nan, 1, 1], dtype)
    b = np.array([2, -0.5, 0, np.inf, 0, -1, -np.inf, np.inf, 1, -0.0, 0.1], dtype)
    with np.errstate(all="ignore"):
        expected = np.floor_divide(a, b)
    found = nc.floor_divide(on(handle, a), on(handle, b)).to_host()
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize("limits", [(10, 300), (-5, 50), (-5, 1000), (None, 256), (300, 400), (-10, -5), (3, None)])
@pytest.mark.parametrize("name", ["clip", "clamp"])
def test_bounds_of_uint8_saturate(handle, limits, name):
    x = np.array([0, 1, 100, 200, 255], np.uint8)
    found = getattr(nc, name)(on(handle, x), *limits)
    assert found.dtype == "uint8"
    assert found.to_host().tolist() == np.clip(np.clip(x.astype(int), *limits), 0, 255).tolist()
