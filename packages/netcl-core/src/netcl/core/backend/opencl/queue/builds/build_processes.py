"""Child processes that build programs while this process goes on.

Drivers compile one program at a time: PoCL and NVIDIA's take a lock, so threads do not help (docs/adr/0095). The
programs that a step needs are known when its launches have been made (``deferred_launches.py``); children build them
from the last one back, this process from the first one on. The programs that a child has built are found in the caches
on disk. If a child ends or fails, the program is built here.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from netcl.core import config
from netcl.core.backend.opencl.queue import shutdown
from netcl.core.backend.opencl.queue.builds.build_request import READY, Launch, Request
from netcl.core.backend.opencl.queue.programs import build_progress
from netcl.core.device.capabilities import type_of
from netcl.core.device.drivers.child_probe import child_environment, driver_key, has_interpreter
from netcl.core.process.settings import usable_cores

WORTH_A_CHILD = 4  # programs that wait; a child takes about a second to start
_PREPARED = 3  # children for the first programs of an empty cache
_IDLE_S = 20.0  # a first step waits for longer trials than 10 s
_PATIENCE_S = 60.0
_ENDING_S = 2.0
_MOST = {"gpu": 4}  # more children start more slowly, by as much as their builds are faster
_MOST_OTHERS = 7

_SCRIPT = """\
import os, sys
from netcl.core.backend.opencl.build_worker import answer
answer(sys.argv[1])
os._exit(0)
"""


class Build:
    """A program to build; ``done`` is set when it is built or its build has failed."""

    __slots__ = ("done", "launch", "options", "source")

    def __init__(self, source: str, options: str, launch: Launch | None) -> None:
        self.source = source
        self.options = options
        self.launch = launch
        self.done = False


def most_processes(device: Any) -> int:
    """Returns the number of children that may build programs for a device at once: NETCL_BUILD_PROCESSES, by default
    one for each core but one, up to four for a GPU and seven for other devices, shared by the processes of a job;
    0 in a frozen program.
    """
    if not has_interpreter():
        return 0
    setting = config.get("BUILD_PROCESSES")
    if setting is not None:
        return int(setting)
    ranks = config.get("WORLD_SIZE") or 1
    return max(0, min(usable_cores() // ranks - 1, _MOST.get(type_of(device), _MOST_OTHERS)))


class BuildProcesses:
    """The children that build programs for a device, and the programs still to build; thread-safe."""

    def __init__(self, device: Any) -> None:
        self._device: Any = device
        self._changed = threading.Condition()
        self._open: list[Build] = []  # programs without a begun build, in the order of launches
        self._children = 0
        self._processes: list[Any] = []
        self._closed = False

    @property
    def busy(self) -> bool:
        """True if there are children."""
        return self._children > 0

    def add(self, build: Build) -> None:
        """Queues a program for building; starts children if that is expected to save time."""
        with self._changed:
            self._open.append(build)
            if len(self._open) >= WORTH_A_CHILD:
                self._start(len(self._open) // 2)
            self._changed.notify()

    def prepare(self) -> None:
        """Starts children for programs that later calls will add."""
        with self._changed:
            self._start(_PREPARED)

    def _start(self, children: int) -> None:
        """Starts children until there are as many as ``children``; the lock is held."""
        for _ in range(0 if self._closed else min(children, most_processes(self._device)) - self._children):
            self._children += 1
            threading.Thread(target=self._feed, name="netcl-build", daemon=True).start()

    def claim(self, build: Build | None = None) -> Build | None:
        """Returns ``build`` (None: the first open one) if this process may build it, or None if its build has begun."""
        with self._changed:
            if build is None:
                return self._open.pop(0) if self._open else None
            if build not in self._open:
                return None
            self._open.remove(build)
            return build

    def wait(self, build: Build) -> None:
        """Waits until a child has built ``build`` or given up; for a minute at most, as drivers may hang."""
        end = monotonic() + _PATIENCE_S
        with self._changed:
            while not build.done and monotonic() < end:
                self._changed.wait(0.1)  # a wait without end serves no SIGINT on Windows

    def are_built(self, builds: Iterable[Build]) -> bool:
        """True if no child will build any of ``builds``: all are done, or no child is left."""
        return not self.busy or all(build.done for build in builds)

    def close(self) -> None:
        """Ends the children, and returns when they have ended."""
        with self._changed:
            self._closed = True
            self._open.clear()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._children, _ENDING_S)

    def _feed(self) -> None:
        """Starts a child and sends it one program after another."""
        try:
            with child_environment("build") as environment, self._started(environment) as process:
                if process.stdout.read(1) != READY:
                    return
                while (build := self._last()) is not None and self._answers(process, build):
                    pass
        except OSError as error:
            config.get_logger().debug("a process that builds programs ended: %s", error)
        finally:
            with self._changed:
                self._children -= 1
                self._changed.notify_all()

    def _answers(self, process: Any, build: Build) -> bool:
        """Has a child build a program; returns False if the child has ended."""
        try:
            with build_progress.shown(str(self._device.name).strip()):
                pickle.dump(Request(str(build.source), build.options, build.launch), process.stdin)
                process.stdin.flush()
                return bool(process.stdout.read(1))
        finally:
            with self._changed:
                build.done = True
                self._changed.notify_all()

    @contextmanager
    def _started(self, environment: dict[str, str]) -> Iterator[Any]:
        """Starts a child, and ends it after the block."""
        folder = config.get("CACHE_DIR")
        if folder is not None:
            environment["NETCL_CACHE_DIR"] = str(folder)
        command = [sys.executable, "-c", _SCRIPT, driver_key(self._device)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, env=environment)
        with self._changed:
            self._processes.append(process)
            if self._closed:  # while it was started
                process.kill()
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stdin):
                with suppress(OSError):  # a request that the child did not read
                    stream.close()  # type: ignore[union-attr]
            with self._changed:
                self._processes.remove(process)

    def _last(self) -> Build | None:
        """Returns the last open program; None if there has been none for a while, or after ``close``."""
        end = monotonic() + _IDLE_S
        with self._changed:
            while not self._open and not self._closed and (rest := end - monotonic()) > 0:
                self._changed.wait(rest)
            return self._open.pop() if self._open else None


_of_devices: dict[str, BuildProcesses] = {}


def processes_for(device: Any) -> BuildProcesses:
    """Returns the BuildProcesses of a device, which all its queues share."""
    processes = _of_devices.get(driver_key(device))
    if processes is None:
        candidate = BuildProcesses(device)
        processes = _of_devices.setdefault(driver_key(device), candidate)
        if processes is candidate:
            shutdown.run_at_exit(processes.close)
    return processes
