"""Times several workloads in alternating short runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

Work = Callable[[], object]
Burst = Callable[[float], "list[float]"]  # seconds to run for; the milliseconds of single runs
# An environment variable that peers inherit: with it times are processor time, and PyTorch has one thread, whose
# barriers do not wait for a core that another process has.
PROCESSOR = "BENCHMARKS_PROCESSOR_TIME"


def is_processor_time() -> bool:
    """True if contestants are compared by their processor time."""
    return PROCESSOR in os.environ


def burst(work: Work, seconds: float) -> list[float]:
    """Milliseconds of single runs within about ``seconds``, one to 99; the first run is left out."""
    times: list[float] = []
    clock = time.process_time if is_processor_time() else time.perf_counter
    began = time.perf_counter()
    for count in range(100):
        start = clock()
        work()
        if count:
            times.append(1e3 * (clock() - start))
        if count and time.perf_counter() - began > seconds:
            break
    return times


def here(work: Work) -> Burst:
    """The bursts of a work of this process, which has run once."""
    work()
    return lambda seconds: burst(work, seconds)


def by_turns(bursts: dict[str, Burst], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of single runs of each contestant, until ``seconds`` are over and each has three."""
    times: dict[str, list[float]] = {name: [] for name in bursts}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 3:
        for name, run in bursts.items():
            times[name] += run(seconds / 16)
    return times
