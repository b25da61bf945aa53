"""The plate on NumPy and on every OpenCL device found: no heat is lost, all agree, and the pool has its memory back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from heatplate import Plate

from netcl.core import DeviceHandle, manager
from netcl.core.memory import get_persistent_pool

# NumPy, which select() lists last, is the reference.
HANDLES = [manager.select()[-1], *(handle for handle in manager.select() if handle.backend == "cl")]


def platform_of(handle: DeviceHandle) -> str:
    return handle.platform_name


def start() -> np.ndarray[Any, Any]:
    cells = np.random.default_rng(0).random((13, 21), np.float32)
    cells[6, 10] = 100
    return cells


@pytest.mark.parametrize("handle", HANDLES, ids=platform_of)
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_devices_agree_and_no_heat_is_lost(handle: DeviceHandle, steps: int) -> None:
    plate, reference = Plate(start(), handle), Plate(start(), "cpu")
    plate.spread(steps, rate=0.2)
    reference.spread(steps, rate=0.2)
    np.testing.assert_allclose(plate.temperatures(), reference.temperatures(), rtol=1e-5, atol=1e-6)
    assert plate.mean() == pytest.approx(start().mean(), rel=1e-5)
    if steps:
        assert plate.hottest() < 100


@pytest.mark.parametrize("handle", HANDLES[1:], ids=platform_of)
def test_the_pool_serves_every_call_from_its_first(handle: DeviceHandle) -> None:
    plate = Plate(start(), handle)
    plate.spread(4)
    stats = get_persistent_pool(handle.queue).get_stats()
    plate.spread(4)
    after = get_persistent_pool(handle.queue).get_stats()
    assert after["misses"] == stats["misses"]
    assert after["bytes_in_use"] == stats["bytes_in_use"]


@pytest.mark.parametrize("handle", HANDLES, ids=platform_of)
def test_material_glows_at_its_limit(handle: DeviceHandle) -> None:
    plate = Plate(np.array([[0, 600, 650, 5000]], np.float32), handle)
    np.testing.assert_allclose(plate.glow(), [[6.1e-6, 0.5, 1 / (1 + np.exp(-1)), 1]], rtol=1e-2)
    assert plate.glow(limit=650)[0, 2] == pytest.approx(0.5)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="rows and columns"):
        Plate(np.zeros(3), "cpu")
    with pytest.raises(ValueError, match="between 0 and"):
        Plate(start(), "cpu").spread(rate=0.5)


def test_nothing_else_of_netcl_is_loaded() -> None:
    others = {"autograd", "nn", "optim", "data", "distributed", "trainer"}
    assert not {name for name in sys.modules if name.startswith("netcl.") and name.split(".")[1] in others}
