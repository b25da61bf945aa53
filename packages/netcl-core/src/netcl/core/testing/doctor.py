"""``python -m netcl.core doctor``: checks every kernel family on every device against NumPy, and the installation.

Each device is examined in parallel child processes, each with a share of its kernel families: a driver that ends the
process or hangs fails the row it was running, and the other rows continue in another child.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from netcl.core import config
from netcl.core.device import icd, plugins
from netcl.core.device.capabilities import profile_of
from netcl.core.device.discovery import DeviceHandle, device, manager
from netcl.core.device.drivers.child_probe import child_environment
from netcl.core.engine.registry import engine_for
from netcl.core.testing import conformance
from netcl.core.testing.distribution_check import find_conflicts
from netcl.core.testing.doctor_page import Examination, Job, Row, page
from netcl.core.tuning import matrix_units
from netcl.core.tuning.unit_table import UNITS

__all__ = ["Examination", "Row", "examine", "run"]

Share = tuple[int, int]  # (i, n): every n-th job, from the i-th

_QUICK_S, _FULL_S = 60.0, 900.0  # seconds that one row may take
_LOOK_S = 0.5
_UNIT_SIZE, _UNIT_RUNS = 4096, 20  # of the products that measure a matrix unit
_SHARES_MAX = 4  # children for one device, which mostly wait for its compiler
_stopped = threading.Event()  # the user has interrupted the examination
_CHILD = "from netcl.core.testing.doctor import serve; serve()"


def run(full: bool = False, html: str | None = None, report: str = "") -> int:
    """Prints a table per device; returns 1 if a check failed, else 0.

    ``full`` takes every op of the table, and each device again under the masks of ``netcl.core.testing``.
    ``html`` names a file for the results as a page, with the text ``report`` at its end.
    """
    conflicts = find_conflicts()
    for message in conflicts:
        print(f"wrong: {message}")
    devices = [(selector, f"{dev.name.strip()} ({platform.name.strip()})") for selector, platform, dev in _devices()]
    if not devices:
        only = config.get("PLATFORM_FILTER")
        why = f"NETCL_PLATFORM_FILTER={only!r} leaves no OpenCL platform." if only else icd.advice()
        print(f"no OpenCL platform was found, so netcl computes with NumPy. {why}")
    for name, (_, _, handles) in plugins.find().items():
        devices += [(handle.selector, f"{handle.device_name} ({name})") for handle in handles]
    devices.append(("cpu", "NumPy"))
    _stopped.clear()
    children = os.cpu_count() or 1
    shares = [(number, min(children, _SHARES_MAX)) for number in range(min(children, _SHARES_MAX))]
    with ThreadPoolExecutor(max_workers=children) as workers:
        try:
            parts = [[workers.submit(examine, *device, full, share) for share in shares] for device in devices]
            shown = [_show(Examination.of([part.result() for part in of])) for of in parts]
        except KeyboardInterrupt:
            _stopped.set()
            raise
    well = [bool(section) for section in shown]
    wrong = well.count(False)
    if html is not None:
        Path(html).write_text(page(shown, conflicts, report), encoding="utf-8")
    verdict = f"{wrong} with wrong kernels" if wrong else "every kernel family is right on each"
    print(f"\n{len(well)} device{'s' * (len(well) != 1)}, {verdict}")
    return int(bool(wrong or conflicts))


def _devices() -> Iterator[tuple[str, Any, Any]]:
    return manager.numbered()


def examine(
    selector: str, name: str = "", full: bool = False, share: Share = (0, 1), child: Sequence[str] = ()
) -> Examination:
    """Runs a share of the families on the device of a selector in a child process, and in another if that one ends
    (``child``: a command in place of the default).
    """
    start = time.monotonic()
    examination = Examination(selector, name or selector)
    command = list(child) or [sys.executable, "-c", _CHILD]
    jobs: list[Job] | None = None
    while (jobs is None or jobs) and not _stopped.is_set():
        try:
            process = _Child([*command, json.dumps([selector, full, share, jobs])])
        except (OSError, ValueError) as error:
            examination.problem = f"no child process can be started: {error}"
            break
        with process:
            limit = _FULL_S if full else _QUICK_S
            message = process.read(limit)
            if message is None or "jobs" not in message:
                examination.problem = f"{process.ending()} before the first kernel: {process.last_words()}"
                break
            jobs = [(mask, family, dtype) for mask, family, dtype in message["jobs"]]
            examination.units += message.get("units", ())
            while jobs:
                message = process.read(limit)
                if message is None:
                    reason = process.ending()
                    examination.rows.append(Row(jobs.pop(0), 0, float("inf"), {"the driver": reason}))
                    break
                examination.rows.append(Row(jobs.pop(0), message["passed"], message["error"], message["failed"]))
    examination.seconds = time.monotonic() - start
    return examination


class _Child:
    """A child that examines a device and writes one line of JSON per message."""

    def __init__(self, command: Sequence[str]) -> None:
        with ExitStack() as stack:
            environment = stack.enter_context(child_environment("doctor"))
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
            self._folder = stack.pop_all()
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._hung = 0.0
        self._threads = [threading.Thread(target=task, daemon=True) for task in (self._collect, self._listen)]
        for thread in self._threads:
            thread.start()

    def _collect(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def _listen(self) -> None:
        for line in self._process.stderr or ():
            self._errors[:] = [*self._errors[-9:], line]

    def read(self, seconds: float) -> dict[str, Any] | None:
        """Returns the next message, or None if the child ended, or was killed because it timed out."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=_LOOK_S)
            except queue.Empty:
                if not _stopped.is_set() and time.monotonic() < end:
                    continue
                self._hung = seconds
                self._process.kill()
                return None
            if line is None:
                return None
            try:
                message = json.loads(line)
            except ValueError:  # a message printed by a driver
                continue
            if isinstance(message, dict):
                return message

    def ending(self) -> str:
        """Returns how the child ended."""
        code = self._process.wait()
        if self._hung:
            return f"hung for {self._hung:g} s"
        return f"ended the process (signal {-code})" if code < 0 else f"ended the process (exit code {code})"

    def last_words(self) -> str:
        """Returns the end of the child's stderr."""
        self._threads[1].join(1.0)
        return b"".join(self._errors).decode(errors="replace").strip()[-500:]

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._folder.close()


def serve() -> None:
    """Runs in the child: reads the jobs, then writes a message for each, as lines of JSON on stdout."""
    selector, full, (first, step), jobs = json.loads(sys.argv[1])
    handle = manager.default(selector)
    if handle is None:
        raise manager.not_found(selector)
    if jobs is None:
        jobs = [("", family, dtype) for family, dtype in conformance.families_of(handle, not full)]
        if full and handle.backend == "cl":
            for mask, limits in conformance.MASKS.items():
                with conformance.masked(handle, **limits) as seen:
                    jobs += [(mask, *pair) for pair in conformance.families_of(seen) if pair[1] == "float32"]
        jobs = jobs[first::step]
        units = [] if first or handle.backend != "cl" else list(_unit_lines(handle))
    else:
        units = []
    _say({"jobs": jobs, "units": units})
    for mask, family, dtype in jobs:
        # Active, since a few ops make tensors on the active device: the default may be another device, or none.
        with conformance.masked(handle, **conformance.MASKS[mask]) if mask else device(handle) as seen:
            report = conformance.check_family(engine_for(seen), family, dtype, not full)
        _say({"passed": report.passed, "error": report.error, "failed": report.failed})


def _unit_lines(handle: DeviceHandle) -> Iterator[str]:
    """Yields a line for each matrix unit that the device may have, on operands as they are: the verdict of its trial
    and its measured speed; and one for the units of other devices that were not run on hardware.
    """
    profile = profile_of(handle)
    rows = [row for row in UNITS.values() if row.may_have is not None and not row.parts]
    own = [row for row in rows if row.possible_on(profile)]
    for row in own:
        name, dtype = row.name, row.dtypes[0]
        ran = "" if row.ran else " (not run on hardware by the authors)"
        if not matrix_units.is_right(handle.device, name):
            yield f"{name}: WRONG, {'' if row.ran else 'slower than without it, '}or not built, so it is off{ran}"
            continue
        engine: Any = engine_for(handle)
        a, b, out = (engine.tensor(np.zeros((_UNIT_SIZE, _UNIT_SIZE)), dtype) for _ in range(3))
        times = []
        for count in (1, *(_UNIT_RUNS,) * 4):  # the first builds the kernel, and a GPU's clock rises with work
            start = time.perf_counter()
            for _ in range(count):
                engine.kernel_modules.gemm.matmul(engine, a, b, transpose_b=True, out=out, variant=name)
            engine.finish()
            times.append(time.perf_counter() - start)
        speed = 2 * _UNIT_SIZE**3 * _UNIT_RUNS / min(times[1:]) / 1e12
        yield f"{name}: right, {speed:.0f} TFLOP/s in {dtype} ({_UNIT_SIZE} x {_UNIT_SIZE}, zeros){ran}"
    if absent := ", ".join(row.name for row in rows if not row.ran and row not in own):
        yield f"not run on hardware, and not on this device: {absent}"


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


_WIDEST = 16  # characters of the name of a family: factorizations


def _show(examination: Examination) -> Examination:
    print(f"\n{examination.selector}  {examination.name}, {examination.seconds:.0f} s")
    if examination.problem:
        print(f"  cannot be used: {examination.problem}")
        return examination
    for mask, dtypes, lines in examination.tables():
        if mask:
            print(f"  seen as a device of: {mask}")
        print("  " + "family".ljust(_WIDEST) + "".join(dtype.rjust(10) for dtype in dtypes) + "  cases  verdict")
        for family, cells, passed, verdict in lines:
            print(f"  {family:{_WIDEST}}{''.join(cell.rjust(10) for cell in cells)}{passed:7}  {verdict}")
    for line in examination.units:
        print(f"  matrix unit {line}")
    for row in examination.rows:
        for name, reason in row.failed.items():
            where = " ".join(filter(None, (row.job[1], row.job[2], f"({row.job[0]})" if row.job[0] else "")))
            print(f"  {where}: {name}: {reason}")
    return examination
