"""torch.profiler, torch.autograd.profiler and torch.cuda.nvtx over netcl.profiling."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from enum import Enum
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.profiling.timing import region
from netcl.profiling.trace import profile as _Profile

TORCH_NAMES = ("emit_nvtx", "profile", "record_function")


class ProfilerActivity(Enum):
    """Kinds of events; kernels of all devices are recorded, with the ops that launched them."""

    CPU = 0
    CUDA = 2
    XPU = 1
    MTIA = 3
    PrivateUse1 = 4


class ProfilerAction(Enum):
    """The work of a step in a schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: int
) -> Callable[[int], ProfilerAction]:
    """Returns the function from the number of a step to what it does: skip, wait, warm up, record."""
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        at = step - skip_first
        if at < 0 or (repeat > 0 and at >= repeat * length):
            return ProfilerAction.NONE
        at %= length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """Returns the function that writes the trace of a profile into a folder as ``*.pt.trace.json``."""

    def handler(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        prof.export_chrome_trace(str(Path(dir_name) / f"{worker_name or 'netcl'}.{time_ns()}.pt.trace.json"))

    return handler


def supported_activities() -> set[ProfilerActivity]:
    """CPU and CUDA."""
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA}


def kineto_available() -> bool:
    """Returns True: ``profile`` records."""
    return True


class _Averages:
    """The kernel table of a profile."""

    def __init__(self, measured: Any) -> None:
        self._measured = measured

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The kernels by time, as text."""
        return str(self._measured.table())

    __str__ = table


class profile:
    """Records kernels within a block: all steps, or the steps that ``schedule`` selects, counted by ``step()``.

    ``key_averages().table()`` is the table of kernels, ``export_chrome_trace(path)`` writes a trace;
    ``on_trace_ready(self)`` is called at the end of each recording.
    """

    def __init__(
        self,
        activities: Any = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        **options: Any,
    ) -> None:
        self._schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready = on_trace_ready
        self._open: Any = None
        self._measured: Any = None
        self.step_num: int = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins at step 0."""
        self._record(self._schedule(self.step_num) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))

    def stop(self) -> None:
        """Ends the recording."""
        self._record(False)

    def step(self) -> None:
        """The end of a step."""
        before = self._schedule(self.step_num)
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._record(False)
        self._record(self._schedule(self.step_num) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE))

    def _record(self, wanted: bool) -> None:
        if wanted and self._open is None:
            self._open = _Profile()
            self._measured = self._open.__enter__()
        elif not wanted and self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
            if self._ready is not None:
                self._ready(self)

    def key_averages(self, *args: Any, **kwargs: Any) -> _Averages:
        """The table of kernels of the last recording."""
        if self._measured is None:
            raise RuntimeError("profile: nothing has been recorded yet")
        return _Averages(self._measured)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the last recording as a trace for https://ui.perfetto.dev."""
        if self._measured is None:
            raise RuntimeError("profile: nothing has been recorded yet")
        self._measured.export_chrome(path)


class record_function(ContextDecorator):
    """A named block of a profile."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self._region: Any = region(name, wait=False)

    def __enter__(self) -> record_function:
        self._region.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._region.__exit__(*error)


def emit_nvtx(*args: Any, **kwargs: Any) -> Any:
    """Refused: raises UnsupportedError; ``profile`` records kernels on all devices."""
    raise UnsupportedError("emit_nvtx: there is no CUDA; write torch.profiler.profile()")


def range_push(msg: str) -> int:
    """Does nothing: there are no NVTX ranges."""
    return 0


def range_pop() -> int:
    """Does nothing: there are no NVTX ranges."""
    return 0


def mark(msg: str) -> None:
    """Does nothing: there are no NVTX marks."""
