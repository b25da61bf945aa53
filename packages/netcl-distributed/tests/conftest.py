"""The groups of devices on which the collectives are tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netcl.core import DeviceHandle, manager


def _groups() -> dict[str, list[DeviceHandle]]:
    numpy = manager.default("cpu")
    assert numpy is not None
    groups = {"numpy": [numpy, numpy]}
    for handle in manager.select():
        if handle.backend == "cl" and handle.device_type == "cpu":
            halves = manager.split(handle, 2)
            groups[handle.platform_name] = halves
            groups[f"{handle.platform_name} and NumPy"] = [halves[0], numpy, halves[1]]
    return groups


@pytest.fixture(params=list(_groups()))
def handles(request: pytest.FixtureRequest) -> Iterator[list[DeviceHandle]]:
    """Two or three devices: NumPy twice, the halves of an OpenCL CPU, and those halves around NumPy."""
    yield _groups()[request.param]
