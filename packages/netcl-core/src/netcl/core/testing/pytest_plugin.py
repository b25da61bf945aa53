"""Pytest fixtures of the test suites: every device in turn, its engine, the NumPy device, and signals as a shell's.

A conftest.py imports the fixtures that it uses, ``from netcl.core.testing.pytest_plugin import handle as handle``:
pytest refuses ``pytest_plugins`` in a conftest.py below the top folder. A suite outside this repository can name the
module there, or on the command line: ``pytest -p netcl.core.testing.pytest_plugin``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from netcl.core.config import get
from netcl.core.device.discovery import DeviceHandle, device, manager
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DeviceNotFoundError

# Tests look at the launches of a call when it returns, and two processes share the cores.
os.environ.setdefault("NETCL_BUILD_PROCESSES", "0")


def selectors() -> list[str]:
    """Returns NumPy and the device of NETCL_DEVICE if that is set, else NumPy, PoCL and Intel's runtime."""
    chosen = get("DEVICE")
    return ["cpu", "pocl", "intel"] if chosen == "auto" else list(dict.fromkeys(["cpu", chosen]))


def open_device(selector: str) -> DeviceHandle:
    """Returns the device of a selector; skips the test if this machine does not have it."""
    try:
        handle = manager.default(selector)
    except (DeviceNotFoundError, ImportError):
        handle = None
    if handle is None:
        pytest.skip(f"there is no OpenCL device {selector!r} here")
    return handle


@pytest.fixture(params=selectors())
def handle(request: pytest.FixtureRequest) -> Iterator[DeviceHandle]:
    """Yields each device in turn, active for the duration of the test."""
    with device(open_device(request.param)) as handle:
        yield handle


@pytest.fixture
def engine(handle: DeviceHandle) -> DeviceBackend:
    """Returns the engine of each device in turn; the device is active."""
    return engine_for(handle)


@pytest.fixture
def numpy_device() -> Iterator[DeviceHandle]:
    """Yields the NumPy device, active for the duration of the test."""
    with device("cpu") as handle:
        yield handle


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Makes the test, and the programs that it starts, take signals that this process ignores since its start, as under
    nohup and in the background of a shell.
    """
    known = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    ignored = [number for number in known if number is not None and signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
