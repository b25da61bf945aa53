"""Devices and groups of the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netcl.core import DeviceHandle, manager
from netcl.core.testing.pytest_plugin import default_signals as default_signals
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device


def _groups() -> dict[str, list[DeviceHandle]]:
    numpy = manager.default("cpu")
    assert numpy is not None
    groups = {"numpy": [numpy, numpy]}
    for device in manager.select():
        if device.backend == "cl" and device.device_type == "cpu":
            halves = manager.split(device, 2)
            groups[device.platform_name] = halves
            groups[f"{device.platform_name} and NumPy"] = [halves[0], numpy, halves[1]]
    return groups


@pytest.fixture(params=list(_groups()))
def handles(request: pytest.FixtureRequest) -> Iterator[list[DeviceHandle]]:
    """Two or three devices: NumPy twice, the halves of an OpenCL CPU, and those halves around NumPy."""
    yield _groups()[request.param]
