"""The plate on NumPy and on every OpenCL device found: no heat is lost, all agree, and the pool has its memory back."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from heatplate import Plate

from netcl.core import manager
from netcl.core.memory import get_persistent_pool

HANDLES = [manager.default("cpu"), *(handle for handle in manager.select() if handle.backend == "cl")]


def start():
    cells = np.random.default_rng(0).random((13, 21), np.float32)
    cells[6, 10] = 100
    return cells


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.platform_name)
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_devices_agree_and_no_heat_is_lost(handle, steps):
    plate, reference = Plate(start(), handle), Plate(start(), "cpu")
    plate.spread(steps, rate=0.2)
    reference.spread(steps, rate=0.2)
    np.testing.assert_allclose(plate.temperatures(), reference.temperatures(), rtol=1e-5, atol=1e-6)
    assert plate.mean() == pytest.approx(start().mean(), rel=1e-5)
    if steps:
        assert plate.hottest() < 100


@pytest.mark.parametrize("handle", HANDLES[1:], ids=lambda handle: handle.platform_name)
def test_the_pool_serves_every_call_from_its_first(handle):
    plate = Plate(start(), handle)
    plate.spread(4)
    stats = get_persistent_pool(handle.queue).get_stats()
    plate.spread(4)
    after = get_persistent_pool(handle.queue).get_stats()
    assert after["misses"] == stats["misses"]
    assert after["bytes_in_use"] == stats["bytes_in_use"]


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="rows and columns"):
        Plate(np.zeros(3), "cpu")
    with pytest.raises(ValueError, match="between 0 and"):
        Plate(start(), "cpu").spread(rate=0.5)


def test_nothing_else_of_netcl_is_loaded():
    others = {"autograd", "nn", "optim", "data", "distributed", "trainer"}
    assert not {name for name in sys.modules if name.startswith("netcl.") and name.split(".")[1] in others}
