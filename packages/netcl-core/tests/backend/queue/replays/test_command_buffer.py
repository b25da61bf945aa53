"""Command buffers: the trial that decides on them, and a buffer that the driver refuses; no extension is needed."""

from __future__ import annotations

from typing import Any

import pytest

from netcl.core import DeviceHandle
from netcl.core.backend.opencl.queue.replays import command_buffer
from netcl.core.device.drivers.child_probe import RIGHT, SLOWER, WRONG, driver_key


class _Clock:
    """A clock that stands still until something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def takes(self, seconds: float) -> Any:
        def work() -> None:
            self.now += seconds

        return work


class _Queue:
    def __init__(self, finish: Any) -> None:
        self.finish = finish


def test_times_are_of_the_calls_and_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    monkeypatch.setattr(command_buffer, "time", clock)
    buffer, launches = [clock.takes(3.0)], [clock.takes(1.0)] * 4
    times = command_buffer.least_times(_Queue(clock.takes(10.0)), [buffer, launches])
    assert times == [(3.0, 13.0), (4.0, 14.0)]


@pytest.mark.parametrize(
    ("kept", "times", "code"),
    [
        (0.0, [(1.0, 2.0), (2.0, 4.0)], RIGHT),
        (4096.0, [(1.0, 2.0), (2.0, 4.0)], WRONG),
        (0.0, [(1.95, 2.0), (2.0, 4.0)], SLOWER),  # of the host's time nearly nothing is saved
        (0.0, [(1.0, 4.1), (2.0, 4.0)], SLOWER),  # the device takes longer
    ],
)
def test_command_buffers_must_free_memory_and_be_faster(
    kept: float,
    times: list[tuple[float, float]],
    code: int,
    handle: DeviceHandle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if handle.backend != "cl":
        pytest.skip("needs an OpenCL device: NumPy's engine has no command buffers")
    monkeypatch.setattr(command_buffer, "_functions", lambda platform, device: object())
    monkeypatch.setattr(command_buffer, "_made", lambda functions, queue, launches: lambda: None)
    monkeypatch.setattr(command_buffer, "kept_bytes", lambda queue, run: kept)
    monkeypatch.setattr(command_buffer, "least_times", lambda queue, contestants: times)
    device = handle.queue.device
    assert command_buffer.run_trial(driver_key(device), [device]) == code


@pytest.mark.parametrize(("code", "launched"), [(0, []), (-59, [1, 2])])
def test_a_buffer_that_the_driver_refuses_runs_its_launches(code: int, launched: list[int]) -> None:
    done: list[int] = []
    functions: Any = command_buffer._Functions(
        create=None, add=None, finalize=None, enqueue=lambda *arguments: code, release=lambda buffer: 0
    )
    buffer = command_buffer._CommandBuffer(functions, 1, [lambda: done.append(1), lambda: done.append(2)])
    buffer()
    assert done == launched
