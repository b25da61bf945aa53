"""Times netcl-core against plain pyopencl: launches, pools, transfers, starts, and growth of memory.

``python benchmarks/core.py [--devices pocl,intel] [--only op,pool] [--json FILE]``. What is compared is run in turn, so
that what else the machine does meets both alike. Each line has the median, the middle half of the runs, the target and
whether it is met; a ratio is of the medians. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import soak
from basics import digits_step
from bursts import Work
from measure import Timing, save

from netcl import ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.memory import get_persistent_pool

BYTES = 64 << 20
AT_ONCE = 30  # launches between two waits for the queue: fewer than any driver holds back the host for


@dataclass(frozen=True)
class Line:
    """One measurement: median and middle half in ``unit``, and what is asked of ``value`` (None: shown to compare)."""

    name: str
    median: float
    low: float
    high: float
    unit: str
    value: float | None = None
    target: str = ""
    met: bool | None = None


def measured(name: str, values: list[float], unit: str) -> Line:
    """A line without a target."""
    low, median, high = statistics.quantiles(values, n=4)
    return Line(name, median, low, high, unit)


def compared(name: str, values: list[float], unit: str, value: float, target: str) -> Line:
    """A line with a target such as ``<= 1.5``, met or not by ``value``."""
    relation, number = target.split()
    met = value <= float(number) if relation == "<=" else value >= float(number)
    line = measured(name, values, unit)
    return Line(name, line.median, line.low, line.high, unit, value, target, met)


def single_calls(works: dict[str, Work], queue: Any, rounds: int) -> dict[str, list[float]]:
    """Microseconds of single calls, taken in turn: a driver's thread that wakes up in between meets each alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    clock = time.perf_counter
    for count in range(rounds):
        for _ in range(AT_ONCE):
            for name, work in works.items():
                start = clock()
                work()
                spent = clock() - start
                if count >= rounds // 10:
                    times[name].append(1e6 * spent)
        queue.finish()
    return times


def whole_runs(works: dict[str, Work], queue: Any, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of runs up to the end of the queue's work, taken in turn; what a run gives is dropped untimed."""
    times: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    for count in range(rounds + 2):
        names.append(names.pop(0))  # what runs before leaves its traces in caches and free memory
        for name in names:
            work = works[name]
            start = time.perf_counter()
            result = work()
            queue.finish()
            spent = time.perf_counter() - start
            del result
            if count >= 2:
                times[name].append(1e3 * spent)
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
    return statistics.median(times[over]) / statistics.median(times[under])


def eager_op(handle: DeviceHandle) -> Iterator[Line]:
    """The host time of ``ops.add`` on 16 elements compared with its own kernel called through pyopencl."""
    queue = handle.queue
    a, b = (Tensor.from_host(handle, np.ones(16, np.float32)) for _ in range(2))
    ops.add(a, b)
    engine: Any = engine_for(handle)
    launch = next(launch for ready in engine.plans.values() for launch in ready.launches)
    program = cl.Program(queue.context, launch.source).build()
    numbers = [int(number) for number in launch.numbers]
    kernel = cl.Kernel(program, launch.name)
    kernel.set_scalar_arg_dtypes([None] * 3 + [np.uint64] * len(numbers))
    text = "__kernel void f(__global float* a, __global float* b, __global float* c) { int i = get_global_id(0); "
    least = cl.Kernel(cl.Program(queue.context, text + "c[i] = a[i] + b[i]; }").build(), "f")
    buffers = [cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64) for _ in range(3)]
    works: dict[str, Work] = {
        "bare": lambda: kernel(queue, (1,), (1,), *buffers, *numbers),
        "op": lambda: ops.add(a, b),
        "least": lambda: least(queue, (16,), (16,), *buffers),
        "empty": lambda: None,
    }
    times = single_calls(works, queue, 600)
    yield measured("its kernel called through pyopencl", times["bare"], "us")
    yield measured("a kernel of three buffers through pyopencl", times["least"], "us")
    yield compared("eager add of 16, over its kernel", times["op"], "us", ratio(times, "op", "bare"), "<= 1.5")


def pools(handle: DeviceHandle) -> Iterator[Line]:
    """Leases, the first write into a large one, and how often a training loop is served from the pool."""
    queue, pool = handle.queue, get_persistent_pool(handle)
    transfer: Any = engine_for(handle).transfer  # type: ignore[attr-defined]

    def hundred() -> None:
        for _ in range(100):
            pool.allocate(64)

    times = [spent / 100 for spent in single_calls({"lease": hundred}, queue, 60)["lease"]]
    yield compared("allocate and release", times, "us", statistics.median(times), "<= 1.5")

    def written(buffer: Any) -> Any:
        transfer.fill(buffer, BYTES, np.float32(1))
        return buffer

    def pooled() -> object:
        lease = pool.allocate(BYTES)
        return written(lease.buffer), lease

    runs = whole_runs(
        {"fresh": lambda: written(cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, BYTES)), "pooled": pooled},
        queue,
        15,
    )
    yield measured("make and write 64 MB, fresh cl.Buffer", runs["fresh"], "ms")
    value = ratio(runs, "fresh", "pooled")
    yield compared("allocate and write 64 MB, how much faster", runs["pooled"], "ms", value, ">= 5")
    with device(handle):
        step = digits_step()
        before = pool.get_stats()
        for _ in range(200):
            step()
        after = pool.get_stats()
    hits, misses = (after[name] - before[name] for name in ("hits", "misses"))
    rate = 100 * hits / (hits + misses)
    yield Line("hits in 200 training steps", rate, rate, rate, "%", rate, ">= 99", rate >= 99)


def transfers(handle: DeviceHandle) -> Iterator[Line]:
    """64 MB to the device and back, compared with pyopencl's copies between the same memory.

    Two buffers that differ in nothing but their pages differ in speed by up to a fifth.
    """
    queue, pool = handle.queue, get_persistent_pool(handle)
    raw = np.zeros(BYTES // 4 + 1024, np.float32)
    start = -raw.ctypes.data % 4096 // 4
    data = raw[start : start + BYTES // 4]
    data[:] = 1
    tensor = Tensor.from_host(handle, data)

    def plain() -> object:
        lease = pool.allocate(BYTES)  # the one that from_host gave back last, and will take next
        cl.enqueue_copy(queue, lease.buffer, data)
        return lease

    def back() -> object:
        out = np.empty_like(data)
        cl.enqueue_copy(queue, out, tensor.buffer)
        return out

    def upload() -> object:
        return Tensor.from_host(handle, data)

    runs = whole_runs({"plain": plain, "netcl": upload}, queue, 60)
    yield measured("64 MB to a pooled buffer by pyopencl", runs["plain"], "ms")
    yield compared("Tensor.from_host, its speed", runs["netcl"], "ms", ratio(runs, "plain", "netcl"), ">= 0.9")
    runs = whole_runs({"plain": back, "netcl": tensor.to_host}, queue, 60)
    yield measured("64 MB to a new array by pyopencl", runs["plain"], "ms")
    yield compared("Tensor.to_host, its speed", runs["netcl"], "ms", ratio(runs, "plain", "netcl"), ">= 0.9")
    runs = whole_runs({"copied": upload, "shared": lambda: Tensor.from_host(handle, data, copy=False)}, queue, 20)
    value = ratio(runs, "copied", "shared")
    yield compared("copy=False, how much faster", runs["shared"], "ms", value, ">= 5")


FIRST_RESULT = """
import sys
from basics import digits_step
from netcl.core import manager
from netcl.core.device import device
handle = manager.default(sys.argv[1])
with device(handle):
    digits_step()()
    handle.queue.finish()
"""


def starts(handle: DeviceHandle) -> Iterator[Line]:
    """Whole processes up to the first training step of the digits model, with an empty and with a filled cache."""
    first, second = [], []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            first.append(_started(handle, folder))
            second += [_started(handle, folder) for _ in range(2)]
    compiled = statistics.median(first) - statistics.median(second)
    yield measured("first start, with an empty cache", first, "s")
    value = statistics.median(second) / compiled
    yield compared("second start, over the first's compiling", second, "s", value, "<= 0.333")


def _started(handle: DeviceHandle, folder: str) -> float:
    """Seconds of a process that keeps programs in ``folder``; the drivers' own caches would hide what that saves."""
    caches = {"NETCL_CACHE_DIR": folder, "POCL_CACHE_DIR": folder + "/pocl", "NEO_CACHE_PERSISTENT": "0"}
    command = [sys.executable, "-c", FIRST_RESULT, handle.selector]
    begin = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **caches}, cwd=Path(__file__).parent)
    return time.perf_counter() - begin


def endurance(handle: DeviceHandle) -> Iterator[Line]:
    """The runs of ``soak.py`` at full length."""
    for title, seconds, cells, fault in soak.runs(handle.selector):
        if fault:
            print(f"  {fault}  {cells}")
        yield Line(title, seconds, seconds, seconds, "s", None, "flat", not fault)


PARTS = {"op": eager_op, "pool": pools, "transfer": transfers, "start": starts, "soak": endurance}


def text_of(line: Line) -> str:
    """A row of the table."""
    spread = f"{line.low:.2f} to {line.high:.2f}" if line.low != line.high else ""
    value = "" if line.value is None else f"{line.value:.2f}"
    verdict = {None: "", True: "met", False: "MISSED"}[line.met]
    return f"  {line.name:<52}{line.median:>9.2f} {line.unit:<3}{spread:>18}{value:>8}  {line.target:<9}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="pocl,intel", help="selectors of OpenCL devices, separated by commas")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    collected: list[Timing] = []
    missed = False
    for selector in options.devices.split(","):
        handle = manager.default(selector)
        if handle is None or handle.backend == "cpu":
            raise SystemExit(f"{selector} is no OpenCL device here")
        name = f"{handle.platform_name}, {handle.device_name}"
        print(f"{name}\n  {'':<52}{'median':>12}{'middle half':>19}{'value':>8}  target")
        for part in options.only.split(","):
            for line in PARTS[part](handle):
                print(text_of(line), flush=True)
                collected.append(Timing(line.name, handle.platform_name, line.median, line.low, line.high, line.unit))
                missed |= line.met is False
    # Grouped in the file and its picture: one line on each device.
    order = list(dict.fromkeys(one.row for one in collected))
    save(options.json, sorted(collected, key=lambda one: order.index(one.row)))
    sys.exit(missed)


if __name__ == "__main__":
    main()
