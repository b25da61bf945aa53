"""Threads that a call begins, and the binding of PoCL's workers to processors."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from netcl.core.device import manager
from netcl.core.device.drivers.worker_threads import bind_workers, new_threads

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs Linux: threads in /proc, affinities"
)
ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@pytest.fixture
def waiting() -> Any:
    """Begins threads that Python's threading module does not know, as a driver's; they end with the test."""
    gate = threading.Event()

    def begin(count: int) -> int:
        for _ in range(count):
            _thread.start_new_thread(gate.wait, ())
        return count

    yield begin
    gate.set()


def platform(name: str, *units: int) -> Any:
    """Stands for a platform of pyopencl with a device of each count of compute units."""
    devices = [SimpleNamespace(max_compute_units=count) for count in units]
    return SimpleNamespace(version=name, get_devices=lambda: devices)


def affinities(threads: list[int]) -> list[list[int]]:
    return [sorted(os.sched_getaffinity(thread)) for thread in threads]


def test_new_threads_are_those_of_the_call_without_pythons(waiting) -> None:
    """A thread of before is not new, and one of threading is not the driver's."""
    waiting(1)
    gate = threading.Event()
    python = threading.Thread(target=gate.wait)

    def run() -> int:
        python.start()
        return waiting(3)

    result, found = new_threads(run)
    gate.set()
    python.join()
    assert (result, len(found)) == (3, 3)
    assert python.native_id not in found
    assert new_threads(lambda: None) == (None, [])


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
def test_as_many_workers_as_processors_get_one_each(waiting, monkeypatch) -> None:
    monkeypatch.delenv("POCL_AFFINITY", raising=False)
    _, threads = new_threads(lambda: waiting(len(ALLOWED)))
    bind_workers(threads, [platform("OpenCL 3.1 LINUX", 64), platform("OpenCL 3.0 PoCL 3.0-rc2", len(ALLOWED))])
    assert affinities(threads) == [[processor] for processor in ALLOWED]
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
@pytest.mark.parametrize(
    ("more", "platforms", "affinity"),
    [
        (0, [platform("OpenCL 3.1 LINUX", len(ALLOWED))], None),
        (0, [platform("PoCL 3.0", len(ALLOWED) - 1)], None),
        (0, [platform("PoCL 3.0", len(ALLOWED), len(ALLOWED))], None),
        (1, [platform("PoCL 3.0", len(ALLOWED) + 1)], None),
        (0, [platform("PoCL 3.0", len(ALLOWED))], "0"),
    ],
    ids=["no PoCL", "another driver's", "two devices", "more than processors", "chosen by the user"],
)
def test_other_threads_are_left_to_the_system(waiting, monkeypatch, more, platforms, affinity) -> None:
    monkeypatch.delenv("POCL_AFFINITY", raising=False)
    if affinity is not None:
        monkeypatch.setenv("POCL_AFFINITY", affinity)
    _, threads = new_threads(lambda: waiting(len(ALLOWED) + more))
    bind_workers(threads, platforms)
    assert affinities(threads) == [ALLOWED] * len(threads)


BOUND = """
import os
from netcl.core.device import manager
manager.discover()
sets = [tuple(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")]
print(*sorted(processor for only in sets if len(only) == 1 for processor in only))
"""


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
@pytest.mark.skipif(
    [p.version.lower().count("pocl") for p, d in manager.discover() if d.max_compute_units == len(ALLOWED)].count(1)
    != 1,
    reason="needs PoCL with a thread for each processor",
)
def test_each_processor_has_one_of_pocls_threads() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "POCL_AFFINITY"}
    done = subprocess.run([sys.executable, "-c", BOUND], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(processor) for processor in ALLOWED]
