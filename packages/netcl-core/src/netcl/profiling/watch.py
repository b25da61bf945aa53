"""Where an engine's kernels and copies are seen: one Watch for each engine that is being profiled, told by its backend.

Times are those of events where the queue has them, brought to the host's clock; else each kernel is waited for, and its
time is that of the wall clock from the call to its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter
from typing import Any

from netcl.core.backend.interceptors import pop_interceptor, push_interceptor
from netcl.core.backend.profiler_sink import FlopCount, ProfilerSink, Size, sizes
from netcl.core.expr.cost import expression_flops
from netcl.core.expr.numpy_eval import Plan
from netcl.profiling.records import Launched, Span, Thread
from netcl.profiling.timing import event_times, has_event_times

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

__all__ = ["Watch", "doing", "start", "stop"]

_PENDING = 1024  # events, and bytes of host arrays that copies hold, before they are waited for
_PENDING_BYTES = 64 << 20
_CALIBRATIONS = 5


_numbers = count(1)


class _Doing(threading.local):
    """The thread, the ops that it is inside of, and the contraction that its kernels compute now."""

    def __init__(self) -> None:
        self.thread = Thread(next(_numbers), threading.current_thread().name)
        self.ops: list[str] = []
        self.flop_count: FlopCount | None = None


doing = _Doing()


class Watch(ProfilerSink):
    """Told by an engine of what it runs; hands a Launched for each to ``readers``, when its times are known."""

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self.engine = engine
        self.by_events: bool = has_event_times(engine.queue)
        self.readers: tuple[Callable[[Launched | Span], None], ...] = ()
        self._offset = _offset(engine.queue) if self.by_events else 0.0
        self._lock = threading.RLock()
        self._pending: list[tuple[Any, Launched]] = []
        self._pending_bytes = 0

    @property
    def flop_count(self) -> FlopCount | None:
        """The contraction that this thread's kernels compute now."""
        return doing.flop_count

    @flop_count.setter
    def flop_count(self, count: FlopCount | None) -> None:
        doing.flop_count = count

    def kernel(
        self, began: float, event: Any, name: str, args: Iterable[Any], flop_count: FlopCount | None = None
    ) -> None:
        """A kernel has been enqueued, or has run."""
        given = tuple(args)
        record = self._record("kernel", name.lstrip("_"), began, tuple(sizes(given)))
        record.flop_count = flop_count or doing.flop_count
        if given and isinstance(given[0], Plan):
            # NumPy's evaluator: plan, arrays, scalars, space, stores.
            record.flops = expression_flops(given[0].outputs, [array.shape for array in given[1]], given[3])
        self._seen(event, record)

    def copy(self, began: float, event: Any, name: str, nbytes: int) -> None:
        """A copy has been enqueued."""
        self._seen(event, self._record("copy", name, began, (Size(None, nbytes),)))

    def replay(self, began: float, launches: int) -> None:
        """A recorded step has been enqueued."""
        self._tell(Span("replay", f"replay of {launches} launches", doing.thread, began, perf_counter()))

    def drain(self) -> None:
        """Waits for what is under way and hands it on; the events are let go."""
        with self._lock:
            pending, self._pending, self._pending_bytes = self._pending, [], 0
            if not pending:
                return
            try:
                self.engine.launcher.wait(pending[-1][0])
            finally:
                for event, record in pending:
                    times = event_times(event)
                    if times is not None:
                        record.start, record.end = times[0] + self._offset, times[1] + self._offset
                    self._tell(record)

    def _record(self, kind: str, name: str, began: float, operands: tuple[Size, ...]) -> Launched:
        op = doing.ops[-1] if doing.ops else ""
        return Launched(kind, name, op, doing.thread, began, began, perf_counter(), operands)

    def _seen(self, event: Any, record: Launched) -> None:
        if self.by_events and event is not None:
            record.end = record.start
            with self._lock:
                self._pending.append((event, record))
                self._pending_bytes += record.nbytes if record.kind == "copy" else 0
                crowded = len(self._pending) >= _PENDING or self._pending_bytes > _PENDING_BYTES
            if crowded:
                self.drain()
            return
        if event is not None:
            self.engine.launcher.wait(event)
            record.end = perf_counter()
        elif self.engine.name == "cl":  # something that gives no event
            self.engine.finish()
            record.end = perf_counter()
        self._tell(record)

    def _tell(self, record: Launched | Span) -> None:
        for reader in self.readers:
            reader(record)


_watches: dict[Any, Watch] = {}
_lock = threading.Lock()


def start(engine: Any, reader: Callable[[Launched | Span], None]) -> Watch:
    """Lets ``reader`` be told of all that ``engine`` runs from now on."""
    with _lock:
        watch = _watches.get(engine)
        if watch is None:
            watch = _watches[engine] = Watch(engine)
            push_interceptor(engine, watch)
        watch.readers = (*watch.readers, reader)
        return watch


def stop(engine: Any, reader: Callable[[Launched | Span], None]) -> None:
    """Hands ``reader`` what is under way, and then nothing more; the engine is watched no longer without readers."""
    watch = _watches[engine]
    try:
        watch.drain()
    finally:
        with _lock:
            watch.readers = tuple(other for other in watch.readers if other != reader)
            if not watch.readers:
                pop_interceptor(engine, watch)
                del _watches[engine]


def _offset(queue: Any) -> float:
    """What to add to the device's clock to have the host's: the least seen, as a wait only adds to it."""
    found = []
    for _ in range(_CALIBRATIONS):
        event = cl.enqueue_marker(queue)
        event.wait()
        now, times = perf_counter(), event_times(event)
        if times is not None:
            found.append(now - times[1])
    return min(found, default=0.0)
