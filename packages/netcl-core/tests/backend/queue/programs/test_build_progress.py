"""The line about kernels that are built for the first time."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from netcl.core.backend.opencl.queue.programs.build_progress import BuildProgress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo terminals, which Windows lacks")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_comes_after_a_second_and_goes() -> None:
    terminal, now = Terminal(), [0.0]
    progress = BuildProgress(lambda: terminal, lambda: now[0], rest=60)
    for _ in range(3):
        with progress.building("a device"):
            now[0] += 0.4
    assert terminal.getvalue() == "\rnetcl: building kernels for a device, kept for next time: 3\x1b[K\r"
    with progress.building("a device"):
        now[0] += 0.1
    assert terminal.getvalue().count("next time: 4") == 2
    progress.end()
    assert terminal.getvalue().endswith("\x1b[K")
    written = len(terminal.getvalue())
    now[0] += 100  # of other work
    with progress.building("a device"):
        now[0] += 0.1
    assert len(terminal.getvalue()) == written


def test_the_line_goes_by_itself() -> None:
    terminal = Terminal()
    progress = BuildProgress(lambda: terminal, patience=0.0, rest=0.01)
    with progress.building("a device"):
        pass
    progress._timer.join(10)
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_nothing_is_written_elsewhere(stream: io.StringIO | None) -> None:
    progress = BuildProgress(lambda: stream, patience=0.0, rest=60)
    with progress.building("a device"):
        pass
    assert stream is None or stream.getvalue() == ""


def test_a_handler_hears_once_of_builds_without_a_terminal() -> None:
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener, now = Listener(), [0.0]
    logging.getLogger("netcl.builds").addHandler(listener)
    progress = BuildProgress(lambda: io.StringIO(), lambda: now[0], rest=60)
    try:
        for expected in (0, 0, 1, 1):
            with progress.building("a device"):
                now[0] += 0.4
            assert len(heard) == expected
        progress.end()
        with progress.building("a device"):
            now[0] += 1.5
    finally:
        logging.getLogger("netcl.builds").removeHandler(listener)
    assert heard == ["building kernels for a device, kept for next time"] * 2


SCRIPT = """
from netcl.core.backend.opencl.queue.programs import build_progress
build_progress._progress._patience = 0.0
import netcl as nc
print((nc.ones(3) + 2).tolist())
"""


@pytest.mark.parametrize("setting", ["0", "1"])
def test_the_variable_decides_on_a_terminal(handle, tmp_path: Path, setting: str) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NETCL_PROGRESS": setting, "NETCL_CACHE_DIR": str(tmp_path)}
    environment |= {"NETCL_DEVICE": handle.selector, "POCL_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        told = os.read(ours, 10000).decode()
    except OSError:
        told = ""
    os.close(ours)
    assert ran.stdout.decode().strip() == "[3.0, 3.0, 3.0]"
    assert ("building kernels for" in told) == (setting == "1")
