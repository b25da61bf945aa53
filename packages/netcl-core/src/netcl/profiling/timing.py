"""Times calls, regions of code and single events, and waits for the device if it has pending work."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any

from netcl.core.engine.registry import engine_for
from netcl.core.process.opencl import cl

# Called with each region that ends: (name, began, ended), by ``time.perf_counter``.
listeners: list[Callable[[str, float, float], None]] = []


def format_seconds(seconds: float) -> str:
    """Returns ``seconds`` in a suitable unit: 1.5 s, 12.3 ms, 4.56 us."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@dataclass(frozen=True)
class Timing:
    """The ``seconds`` that each run of a call took; ``float()`` of it is the median."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        """The mean of the runs, in seconds."""
        return statistics.fmean(self.seconds)

    @property
    def best(self) -> float:
        """The fastest run, in seconds."""
        return min(self.seconds)

    @property
    def worst(self) -> float:
        """The slowest run, in seconds."""
        return max(self.seconds)

    def __float__(self) -> float:
        return self.median

    def __str__(self) -> str:
        span = f"{format_seconds(self.best)} to {format_seconds(self.worst)}"
        return f"{format_seconds(self.median)} ({span}, {len(self.seconds)} runs)"


def timing(fn: Callable[[], Any], warmup: int = 5, runs: int = 20, *, q: Any = None) -> Timing:
    """Times ``fn()`` until the device has finished: ``warmup`` uncounted calls, then ``runs`` that do.

    ``q``: the queue or handle to wait for before and after each run; None: the active device. Raises ValueError for
    less than one run.

    >>> from netcl.core import Tensor
    >>> x = Tensor.ones((1000,))
    >>> len(timing(lambda: x + x, runs=3).seconds)
    3
    """
    if runs < 1 or warmup < 0:
        raise ValueError(f"timing: expected runs >= 1 and warmup >= 0, got runs {runs} and warmup {warmup}")
    finish = engine_for(q).queue.finish
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(runs):
        finish()
        start = perf_counter()
        fn()
        finish()
        times.append(perf_counter() - start)
    return Timing(tuple(times))


class region(ContextDecorator):
    """Times a block, or each call of a function: ``with region("forward") as r: ...``, then ``r.seconds``.

    It waits for the device at both ends, so that the time is the block's own work; ``wait=False`` times the host alone.
    A ``trace.profile`` around it shows the region on the thread's track. ``q`` None is the active device.
    """

    def __init__(self, name: str, q: Any = None, *, wait: bool = True) -> None:
        self.name: str = name
        self.wait: bool = wait
        self._q = q
        self._began: list[float] = []
        self.seconds: float = 0.0

    def __enter__(self) -> region:
        if self.wait:
            engine_for(self._q).finish()
        self._began.append(perf_counter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.wait and error is None:
            engine_for(self._q).finish()
        began, ended = self._began.pop(), perf_counter()
        self.seconds = ended - began
        for listener in tuple(listeners):
            listener(self.name, began, ended)


def has_event_times(queue: Any) -> bool:
    """True if events of a queue carry times: NETCL_PROFILE_EVENTS=1 when it was made, or a queue with profiling."""
    return cl is not None and bool(
        getattr(queue, "properties", 0) & cl.command_queue_properties.PROFILING_ENABLE  # CPUQueue has none
    )


def event_times(event: Any) -> tuple[float, float] | None:
    """Returns (start, end) of a complete cl.Event in seconds of the device's clock; None without, as of a failure."""
    try:
        start, end = event.profile.start, event.profile.end
    except cl.Error:
        return None
    return (start * 1e-9, end * 1e-9) if 0 < start <= end else None


class EventTimer:
    """Collects the times of events by name.

    ``time_event(event, name)`` waits for a cl.Event and returns its seconds on the device. If events carry no times (a
    queue made without NETCL_PROFILE_EVENTS=1, or NumPy, where the event is None) these are the seconds of the wall
    clock since the previous event, at first since the timer was made.

    ``seconds``: all times by name; ``by_events``: True if the device's clock is read.
    """

    def __init__(self, q: Any = None) -> None:
        self._engine = engine_for(q)
        self.by_events: bool = has_event_times(self._engine.queue)
        self.seconds: dict[str, list[float]] = {}
        self._lap = perf_counter()

    def time_event(self, event: Any, name: str = "") -> float:
        """Returns the seconds of ``event`` and appends them to ``seconds[name]``."""
        if event is not None:
            self._engine.wait(event)
        now = perf_counter()
        times = event_times(event) if self.by_events and event is not None else None
        taken = now - self._lap if times is None else times[1] - times[0]
        self._lap = now
        self.seconds.setdefault(name, []).append(taken)
        return taken

    def __str__(self) -> str:
        return "\n".join(f"{name or 'events'}: {Timing(tuple(times))}" for name, times in self.seconds.items())
