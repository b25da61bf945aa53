"""profile: records what runs inside a block, on the device and in Python, as tables and as a trace for Perfetto."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter
from types import TracebackType
from typing import Any

from netcl.core.engine.registry import engine_for
from netcl.core.errors import NetclError
from netcl.core.expr.cost import expression_flops
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.dispatch import OpRow, pop_hook, push_hook
from netcl.core.storage.data import TensorData
from netcl.profiling import chrome, launch_recorder, timing
from netcl.profiling.records import (
    KernelStats,
    LaunchRecord,
    OpStats,
    Span,
    kernel_columns,
    kernel_stats,
    op_columns,
    op_stats,
    render,
)
from netcl.runtime.prediction import report

_SORTS: dict[str, Callable[[KernelStats], Any]] = {
    "total": lambda row: -row.seconds,
    "mean": lambda row: -row.mean,
    "calls": lambda row: -row.calls,
    "bytes": lambda row: -row.nbytes,
    "flops": lambda row: -(row.flops or 0),
    "name": lambda row: (row.name, row.op),
}


class profile:
    """Records everything that runs inside ``with profile() as p:`` on one device: kernels, copies, replays, and Python
    ops.

    ``q``: the queue or handle to profile; None: the active device. ``memory``: if True, records the bytes in use too.

    Kernels and copies of the device are recorded from every thread. Ops are recorded from the entering thread, from
    threads that netcl starts for it, and from other threads that enter the same profile. A kernel is charged to the
    innermost op that launched it, including backward and optimizer ops; kernels of a replay to none.

    Times are the device's own if the queue has them: set NETCL_PROFILE_EVENTS=1 before the first queue is made.
    Without, each kernel is waited for as it is launched, so that its wall-clock time is its own: a kernel then takes at
    least the time of a call and a wait (about ten microseconds), and the block is slower. On NumPy, ops run in the
    calling thread and the wall clock is exact. ``event_times`` says which one was used.

    ``launches``, ``spans``: the records, in seconds of ``time.perf_counter``, after the block has ended.
    """

    def __init__(self, q: Any = None, memory: bool = False) -> None:
        self._q = q
        self.memory: bool = memory
        self._lock = threading.RLock()
        self._inside: dict[int, int] = {}  # how often each thread has entered
        self._hooks: dict[int, Any] = {}
        self._engine: Any = None
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._samples: list[tuple[float, int]] = []
        self.event_times: bool = False
        self.device: str = ""
        self.launches: list[LaunchRecord] = []
        self.spans: list[Span] = []
        self.began: float = 0.0
        self.ended: float = 0.0

    def __enter__(self) -> profile:
        with self._lock:
            if not self._inside:
                self._start()
            count = self._inside.get(get_ident(), 0)
            self._inside[get_ident()] = count + 1
        if not count:
            self._hooks[get_ident()] = push_hook(self._op, "profiler")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside[get_ident()] -= 1
            left = not self._inside[get_ident()]
            if left:
                del self._inside[get_ident()]
            last = not self._inside
        if left:
            pop_hook(self._hooks.pop(get_ident()))
        if last:
            # The exception being raised reports an error of the device.
            with contextlib.suppress(*(() if error is None else (NetclError, RuntimeError))):
                self._stop()

    def _start(self) -> None:
        self._engine = engine_for(self._q)
        self.device = self._engine.device_label
        self.event_times = launch_recorder.start(self._engine, self._read).by_events
        timing.listeners.append(self._region)
        self.began = self.began or perf_counter()

    def _stop(self) -> None:
        timing.listeners.remove(self._region)
        try:
            self._engine.finish()
        finally:
            try:
                launch_recorder.stop(self._engine, self._read)
            finally:
                self.ended = perf_counter()
                self._count_operations()

    # -- recording -----------------------------------------------------------------------------------------------------

    def _op(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records an op call, as a hook of the dispatch."""
        ops = launch_recorder.thread_state.ops
        ops.append(row.name)
        began = perf_counter()
        try:
            result = next(row, args, kwargs)
        finally:
            ops.pop()
            span = Span("op", row.name, launch_recorder.thread_state.thread, began, perf_counter())
            self.spans.append(span)
        if self.memory:
            self._record_memory(result)
        return result

    def _region(self, name: str, began: float, ended: float) -> None:
        self.spans.append(Span("region", name, launch_recorder.thread_state.thread, began, ended))

    def _read(self, seen: LaunchRecord | Span) -> None:
        if isinstance(seen, Span):
            self.spans.append(seen)
        else:
            self.launches.append(seen)
            if self.memory:
                self._record_memory(None)

    def _record_memory(self, result: Any) -> None:
        pool = getattr(self._engine, "pool", None)
        if pool is not None:
            in_use = pool.get_stats()["bytes_in_use"]
        else:
            for tensor in result if isinstance(result, (list, tuple)) else (result,):
                if isinstance(tensor, TensorData) and tensor.array is not None:
                    self._count_until_freed(tensor.array)
            in_use = sum(nbytes for _, nbytes in list(self._alive.values()))
        self._samples.append((perf_counter(), in_use))

    def _count_until_freed(self, array: Any) -> None:
        """Counts the memory of a NumPy result until it is collected."""
        while array.base is not None and hasattr(array.base, "nbytes"):
            array = array.base
        alive, key = self._alive, id(array)
        if key not in alive:
            alive[key] = weakref.ref(array, lambda _: alive.pop(key, None)), array.nbytes

    def _count_operations(self) -> None:
        """Determines the floating-point operations of the kernels: for an expression from its plan; the operations of a
        contraction are charged to its longest kernel, since others only copy or pad data.
        """
        planned = _planned(self._engine)
        longest: dict[int, LaunchRecord] = {}
        for launch in self.launches:
            if launch.kind != "kernel":
                continue
            if launch.flops is None:
                launch.flops = planned.get((launch.name, tuple(size.shape for size in launch.sizes)))
            if launch.flop_count is not None:
                launch.flops = launch.flops or 0
                other = longest.setdefault(id(launch.flop_count), launch)
                if _weight(launch) > _weight(other):
                    longest[id(launch.flop_count)] = launch
        for launch in longest.values():
            assert launch.flop_count is not None
            launch.flops = launch.flop_count.flops

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[KernelStats]:
        """The sums by kernel and op, the longest first."""
        return kernel_stats(launch for launch in self.launches if launch.kind == "kernel")

    @property
    def copies(self) -> list[KernelStats]:
        """The sums by the direction of copies between host and device."""
        return kernel_stats(launch for launch in self.launches if launch.kind == "copy")

    @property
    def ops(self) -> list[OpStats]:
        """The sums by op, region and replay on the host, the longest first."""
        return op_stats(self.spans)

    def table(self, sort_by: str = "total") -> str:
        """Returns a table of kernels and copies, sorted by total, mean, calls, bytes, flops or name, and of the Python
        ops; a line about predicted calls if there were some.

        ``moved`` counts each operand of a kernel once, even if the kernel reads it twice; a ``?`` is unknown.
        """
        if sort_by not in _SORTS:
            raise ValueError(f"table: expected sort_by of {', '.join(_SORTS)}, got {sort_by!r}")
        rows = sorted([*self.kernels, *self.copies], key=_SORTS[sort_by])
        total = sum(row.seconds for row in rows)
        if self._engine is not None and self._engine.name == "cpu":
            clock = "the wall clock, in the calling thread"
        elif self.event_times:
            clock = "the device's clock"
        else:
            clock = "the wall clock, each kernel waited for; NETCL_PROFILE_EVENTS=1 gives the device's own times"
        title = (
            f"{self.device}: {total * 1e3:.3f} ms in {sum(row.calls for row in rows)} kernels and copies, "
            f"{(self.ended - self.began) * 1e3:.3f} ms in all; times of {clock}"
        )
        parts = [render(title, rows, kernel_columns(total))]
        if self.spans:
            parts.append(render("Python", self.ops, op_columns()))
        if report().replays:
            parts.append(f"Prediction of training loops in this thread, which a profile turns off: {report()}")
        return "\n\n".join(parts) + "\n"

    def export_chrome(self, path: str | os.PathLike[str]) -> Path:
        """Writes the trace as JSON for https://ui.perfetto.dev or chrome://tracing; returns the file's path."""
        file = Path(path)
        file.write_text(chrome.trace_json(self), encoding="utf-8")
        return file

    def memory_timeline(self) -> list[tuple[float, int]]:
        """Returns (seconds since the beginning, bytes in use) after each op, kernel and copy.

        Bytes in use are the pool's live allocations on the device; for NumPy the live results of ops. Raises
        RuntimeError without ``memory=True``.
        """
        if not self.memory:
            raise RuntimeError("memory_timeline: the memory was not watched; use profile(memory=True)")
        return [(seconds - self.began, in_use) for seconds, in_use in sorted(self._samples)]

    @property
    def queue(self) -> Any:
        """The profiled queue."""
        return engine_for(self._q).queue if self._engine is None else self._engine.queue

    def __repr__(self) -> str:
        return f"<profile of {len(self.launches)} kernels and copies and {len(self.spans)} spans of Python>"


# Name prefixes of kernels that only prepare a contraction, or reduce its partial sums.
_MOVING = ("pad", "pack", "add_parts")


def _weight(launch: LaunchRecord) -> tuple[bool, float]:
    """Returns a weight that ranks the multiplying kernel above the other kernels of a contraction."""
    return not launch.name.startswith(_MOVING) and not launch.flops, launch.end - launch.start


def _planned(engine: Any) -> dict[tuple[str, tuple[Any, ...]], int]:
    """Returns operations by (name, shapes of operands) of the expression kernels that have their own plan."""
    operations: dict[tuple[str, tuple[Any, ...]], int] = {}
    for key, ready in list(getattr(engine, "plans", {}).items()):
        if len(getattr(ready, "launches", ())) != 1:  # of a call of kernels, of several sets of tensors, or of stages
            continue
        outputs, inputs, result_shapes, *_ = key
        (launch,) = ready.launches
        shapes = [*inputs, *ready.shapes]
        if launch.flag or any(slot >= len(shapes) for slot in (*launch.inputs, *launch.outputs)):
            continue
        space = broadcast_shapes([*inputs, *(result_shapes or ())], "profile")
        operands = tuple(shapes[slot] for slot in (*launch.inputs, *launch.outputs))
        operations[launch.name, operands] = expression_flops(outputs, inputs, space)
    return operations
