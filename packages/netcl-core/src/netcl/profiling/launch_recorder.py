"""Receives an engine's launches and copies: one LaunchRecorder for each engine that is being profiled.

Times come from events if the queue has them, converted to the host's clock; otherwise each kernel is waited for, and
its time is the wall clock from the call to its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter
from typing import Any

from netcl.core.capture.labels import Labelled, current
from netcl.core.engine.interceptors import pop_interceptor, push_interceptor
from netcl.core.engine.profiler_sink import FlopCount, ProfilerSink, Size, sizes
from netcl.core.expr.cost import expression_flops
from netcl.core.expr.numpy_eval import Evaluator
from netcl.core.process.opencl import cl
from netcl.profiling.records import LaunchRecord, Span, Thread
from netcl.profiling.timing import event_times, has_event_times

_PENDING = 1024  # pending events, and bytes of host arrays held by copies, that lead to a wait
_PENDING_BYTES = 64 << 20
_CALIBRATIONS = 5


_numbers = count(1)


class _ThreadState(threading.local):
    """A thread's state: the thread, the ops it is executing, and the contraction that its kernels compute."""

    def __init__(self) -> None:
        self.thread: Thread = Thread(next(_numbers), threading.current_thread().name)
        self.ops: list[str] = []
        self.flop_count: FlopCount | None = None


thread_state: _ThreadState = _ThreadState()


class LaunchRecorder(ProfilerSink):
    """Receives launches from an engine; passes a record of each to ``readers`` when its times are known."""

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self.engine = engine
        self.by_events: bool = has_event_times(engine.queue)
        self.readers: tuple[Callable[[LaunchRecord | Span], None], ...] = ()
        self._offset = _offset(engine.queue) if self.by_events else 0.0
        self._lock = threading.RLock()
        self._pending: list[tuple[Any, LaunchRecord]] = []
        self._pending_bytes = 0

    @property
    def flop_count(self) -> FlopCount | None:
        """The contraction that this thread's kernels compute now."""
        return thread_state.flop_count

    @flop_count.setter
    def flop_count(self, count: FlopCount | None) -> None:
        thread_state.flop_count = count

    def kernel(
        self, began: float, event: Any, name: str, args: Iterable[Any], flop_count: FlopCount | None = None
    ) -> None:
        """Called when a kernel has been enqueued, or has run."""
        operands = tuple(args)
        record = self._record("kernel", name, began, tuple(sizes(operands)))
        record.flop_count = flop_count or thread_state.flop_count
        if operands and isinstance(operands[0], Evaluator):
            # Called by NumPy's evaluator: plan, arrays, scalars, space, stores.
            record.flops = expression_flops(operands[0].outputs, [array.shape for array in operands[1]], operands[3])
        self._seen(event, record)

    def copy(self, began: float, event: Any, name: str, nbytes: int) -> None:
        """Called when a copy has been enqueued."""
        self._seen(event, self._record("copy", name, began, (Size(None, nbytes),)))

    def replay(self, began: float, launches: int) -> None:
        """Called when a recorded step has been enqueued."""
        self._report(Span("replay", f"replay of {launches} launches", thread_state.thread, began, perf_counter()))

    def drain(self) -> None:
        """Waits for pending work, passes it on, and releases its events."""
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
                    self._report(record)

    def _record(self, kind: str, name: str, began: float, operands: tuple[Size, ...]) -> LaunchRecord:
        op = name.op if isinstance(name, Labelled) else current()
        op = op or (thread_state.ops[-1] if thread_state.ops else "")
        return LaunchRecord(
            kind, str(name).lstrip("_"), op, thread_state.thread, began, began, perf_counter(), operands
        )

    def _seen(self, event: Any, record: LaunchRecord) -> None:
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
        elif self.engine.name == "cl":  # without an event
            self.engine.finish()
            record.end = perf_counter()
        self._report(record)

    def _report(self, record: LaunchRecord | Span) -> None:
        for reader in self.readers:
            reader(record)


_recorders: dict[Any, LaunchRecorder] = {}
_lock = threading.RLock()


def start(engine: Any, reader: Callable[[LaunchRecord | Span], None]) -> LaunchRecorder:
    """Registers ``reader`` for everything that ``engine`` runs from now on."""
    with _lock:
        recorder = _recorders.get(engine)
        if recorder is None:
            recorder = _recorders[engine] = LaunchRecorder(engine)
            push_interceptor(engine, recorder)
        recorder.readers = (*recorder.readers, reader)
        return recorder


def stop(engine: Any, reader: Callable[[LaunchRecord | Span], None]) -> None:
    """Passes pending work to ``reader`` and removes it; without readers the engine is no longer profiled."""
    recorder = _recorders[engine]
    try:
        recorder.drain()
    finally:
        with _lock:
            recorder.readers = tuple(other for other in recorder.readers if other != reader)
            if not recorder.readers:
                pop_interceptor(engine, recorder)
                del _recorders[engine]


def _offset(queue: Any) -> float:
    """Returns the offset from the device's clock to the host's: the smallest one seen, as waiting only adds to it."""
    offsets = []
    for _ in range(_CALIBRATIONS):
        event = cl.enqueue_marker(queue)
        event.wait()
        now, times = perf_counter(), event_times(event)
        if times is not None:
            offsets.append(now - times[1])
    return min(offsets, default=0.0)
