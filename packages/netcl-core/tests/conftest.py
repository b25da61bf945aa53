"""Devices of the suite: NumPy, and every OpenCL driver that the tests know how to find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netcl.core import DeviceHandle, config, manager
from netcl.core.backend.base import DeviceBackend
from netcl.core.backend.registry import engine_for
from netcl.core.device import device
from netcl.core.errors import DeviceNotFoundError


def _selectors() -> list[str]:
    """NumPy and NETCL_DEVICE where that is set, else NumPy, PoCL and Intel's runtime."""
    chosen = config.get("DEVICE")
    return ["cpu", "pocl", "intel"] if chosen == "auto" else list(dict.fromkeys(["cpu", chosen]))


@pytest.fixture(params=_selectors())
def handle(request: pytest.FixtureRequest) -> Iterator[DeviceHandle]:
    """Each device in turn, active for the duration of the test."""
    try:
        found = manager.default(request.param)
    except (DeviceNotFoundError, ImportError):
        found = None
    if found is None:
        pytest.skip(f"there is no OpenCL device {request.param!r} here")
    with device(found):
        yield found


@pytest.fixture
def engine(handle: DeviceHandle) -> DeviceBackend:
    """The engine of each device in turn; the device is active."""
    return engine_for(handle)
