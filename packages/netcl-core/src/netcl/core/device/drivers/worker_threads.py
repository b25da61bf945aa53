"""Binds each of PoCL's worker threads to a separate processor (docs/design/pocl.md).

PoCL wakes all workers for a kernel. Linux may queue two of them on one processor while another is idle: the first then
does all work-groups of a kernel of a few milliseconds before the second runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from netcl.core.device.drivers.quirks import pocl_major

_TASKS = Path("/proc/self/task")
_ResultT = TypeVar("_ResultT")


def with_bound_workers(get_platforms: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Returns the platforms; PoCL starts its workers in this first query, and they are then bound."""
    platforms, threads = new_threads(get_platforms)
    bind_workers(threads, platforms)
    return platforms


def new_threads(run: Callable[[], _ResultT]) -> tuple[_ResultT, list[int]]:
    """Returns the result of ``run`` and the system's numbers of the threads that started meanwhile, in order, without
    Python's; no numbers if the system does not list threads.
    """
    before = _threads()
    result = run()
    python = {thread.native_id for thread in threading.enumerate()}
    return result, sorted(_threads() - before - python)


def bind_workers(threads: list[int], platforms: Iterable[Any]) -> None:
    """Binds each of ``threads`` to a separate processor if they are the workers of the one PoCL among the pyopencl
    ``platforms``, and as many as the processors that this process may use.

    Other counts (drivers that began threads too, fewer workers: POCL_MAX_PTHREAD_COUNT, several processes that share a
    machine) leave them to the system, and so does a POCL_AFFINITY of the user's.
    """
    if not threads or "POCL_AFFINITY" in os.environ or not hasattr(os, "sched_getaffinity"):
        return
    processors = sorted(os.sched_getaffinity(0))
    pocl = [platform for platform in platforms if pocl_major(platform.version) is not None]
    units = [device.max_compute_units for platform in pocl for device in platform.get_devices()]
    if len(processors) > 1 and units == [len(threads)] == [len(processors)]:
        for thread, processor in zip(threads, processors, strict=True):
            with suppress(OSError):  # a system that does not allow it
                os.sched_setaffinity(thread, {processor})


def _threads() -> set[int]:
    return {int(task.name) for task in _TASKS.iterdir()} if _TASKS.exists() else set()
