"""The groups of devices for tests of the collectives, and the launcher that starts processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Before NumPy is loaded: the bits of OpenBLAS depend on its threads, and ranks, which are compared with, have one each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A machine that is busy with other suites is no fault: a rank may wait nearly as long as a test may take.
os.environ.setdefault("NETCL_DIST_TIMEOUT_S", "90")

from netcl.core import DeviceHandle, manager
from netcl.core.testing.pytest_plugin import default_signals as default_signals


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
    """Yields two or three devices: NumPy twice, the halves of an OpenCL CPU, and those halves around NumPy."""
    yield _groups()[request.param]


@pytest.fixture
def launch() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Returns ``launch(n, script, *arguments, options=())``: it runs ``netcl.distributed.run`` and gives its output;
    the ranks are on NumPy unless NETCL_DEVICE names a device.
    """

    def run(
        size: int, script: Path, *arguments: str, options: tuple[str, ...] = (), seconds: float = 100
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "netcl.distributed.run", "-n", str(size), *options, str(script), *arguments]
        env = {"NETCL_DEVICE": "cpu", **os.environ}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=seconds, check=False)

    return run
