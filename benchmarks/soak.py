"""Runs netcl-core for long and in many threads: no wrong result, and no growth of memory, events, files or threads."""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyopencl as cl

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.device import DeviceManager
from netcl.core.memory import get_persistent_pool

THREADS = 8
LAUNCHES, CYCLES, THREADED = 1_000_000, 100_000, 100_000
# Fluctuation allowed between two samples. In nine tenths of the runs, memory that is lost in each launch or cycle would
# be more than this allows from 5 bytes a launch and 46 a cycle on; the allocators' pages and what a driver keeps for
# commands under way move by 3 MB on PoCL and Intel's runtime. Of events there may be those of the last few commands.
SLACK = {"resident KB": 4096, "events": 8, "files": 0, "threads": 0, "pool KB": 0}


def held(handle: DeviceHandle) -> dict[str, int]:
    """The resources that the process holds now."""
    handle.queue.finish()
    # A transfer looks at those before it, and lets go of the events and arrays of what is over.
    Tensor.from_host(handle, np.zeros(1, np.float32)).to_host()
    gc.collect()
    events = {id(item) for item in gc.get_referents(*gc.get_objects()) if isinstance(item, cl.Event)}
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "resident KB": resident >> 10,
        "events": len(events),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "pool KB": int(get_persistent_pool(handle).get_stats()["bytes_allocated"]) >> 10,
    }


def launches(handle: DeviceHandle) -> Callable[[], None]:
    """One launch, with a read now and then."""
    x, one = (Tensor.from_host(handle, np.ones(16, np.float32)) for _ in range(2))
    state = {"x": x, "count": 0}

    def launch() -> None:
        state["x"] = ops.add(state["x"], one)
        state["count"] += 1
        if state["count"] % 500 == 0:
            # float32 counts to 2**24; the tensor starts over long before that.
            if state["x"].to_host()[0] != 1 + state["count"]:
                raise SystemExit(f"a wrong sum after {state['count']} launches")
            if state["count"] == 100_000:
                state.update(x=x, count=0)

    return launch


def leases(handle: DeviceHandle) -> Callable[[], None]:
    """One cycle of allocating, writing and freeing tensors of several sizes, up and down."""
    sizes = [16, 3000, 70_000, 300_000]
    cycles = itertools.count()

    def cycle() -> None:
        tensors = [Tensor.from_host(handle, np.ones(size // 4, np.float32)) for size in sizes]
        tensors.append(Tensor.zeros((5, 7), queue=handle.queue))
        # The scheduler decides how far the host runs ahead of the device, which changes the resident memory.
        if next(cycles) % 10 == 0:
            handle.queue.finish()
        del tensors

    return cycle


def grows(handle: DeviceHandle, work: Callable[[], None], count: int) -> tuple[str, list[str]]:
    """The resources held in the first and the last tenth of ``count`` runs, as text, and the names of growing ones."""
    tenth = max(1, count // 10)
    looks = []
    for part in range(10):
        for _ in range(tenth):
            work()
        if part in (0, 9):
            looks.append(held(handle))
    first, last = looks
    faults = [what for what, slack in SLACK.items() if last[what] - first[what] > slack]
    return "  ".join(f"{what} {first[what]} -> {last[what]}" for what in SLACK), faults


def threads_disagree(handle: DeviceHandle, count: int) -> list[int]:
    """Which of eight threads that launch one op on data of their own, ``count`` times in all, got wrong sums."""
    wrong: list[int] = []

    def work(i: int) -> None:
        x = Tensor.from_host(handle, np.full(64, i, np.float32))
        total = Tensor.zeros((64,), queue=handle.queue)
        for done in range(1, count // THREADS + 1):
            total = ops.add(total, x)
            if done % 1000 == 0 and not (total.to_host() == done * i).all():
                wrong.append(i)
                return
        if not (total.to_host() == count // THREADS * i).all():
            wrong.append(i)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return wrong


def runs(selector: str, scale: float = 1.0) -> Iterator[tuple[str, float, str, str]]:
    """(what ran, seconds, what was held, fault or nothing) of each run on a device, profiling events off and on."""
    for profiling in (False, True):
        # A manager of its own, so that the queue is made with profiling on or off.
        with config.override(PROFILE_EVENTS=profiling):
            handle = DeviceManager().default(selector)
        if handle is None or handle.backend == "cpu":
            raise SystemExit(f"{selector} is no OpenCL device here")
        events = f"profiling {'on' if profiling else 'off'}"
        for name, work, full in (
            ("launches", launches(handle), LAUNCHES),
            ("allocate and free cycles", leases(handle), CYCLES),
        ):
            count = int(full * scale)
            start = time.perf_counter()
            cells, faults = grows(handle, work, count)
            seconds = time.perf_counter() - start
            yield f"{count} {name}, {events}", seconds, cells, f"GROWS: {', '.join(faults)}" if faults else ""
        count = int(THREADED * scale)
        start = time.perf_counter()
        wrong = threads_disagree(handle, count)
        seconds = time.perf_counter() - start
        yield f"{count} launches of {THREADS} threads, {events}", seconds, "", f"WRONG in {wrong}" if wrong else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="pocl,intel", help="selectors of OpenCL devices, separated by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full length to run")
    options = parser.parse_args()
    failed = False
    for selector in options.devices.split(","):
        print(selector)
        for name, seconds, cells, fault in runs(selector, options.scale):
            print(f"  {name}: {seconds:.0f} s, {fault or 'right and flat'}  {cells}", flush=True)
            failed |= bool(fault)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
