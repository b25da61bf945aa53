"""What SIGINT and SIGTERM do while a run goes on: the first lets the step end and the run be saved, the second not.

Python runs a signal handler only between its own instructions, in the main thread, which may be waiting for a device.
But its C handler writes the signal's number to the wakeup descriptor at once, and a thread that reads it ends the
process at the second signal, whatever the main thread does. Where there is no such descriptor (on Windows it is a
socket) the handler does that alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, ClassVar

__all__ = ["Interruption"]

_HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))
# `timeout` and other launchers pass on a signal that the process has had already as one of their group.
_SAME_S = 0.05


class _Count:
    """When the first signal came; the next one ends the process."""

    def __init__(self) -> None:
        self._first: float | None = None

    def add(self, number: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
        elif now - self._first > _SAME_S:
            os.write(2, f"\nnetcl: a second {signal.Signals(number).name}: the process ends at once\n".encode())
            os._exit(128 + number)


class Interruption:
    """In its ``with`` block the first SIGINT or SIGTERM is noted in ``pending``, and the second ends the process at
    once, with exit code 130 or 143.

    Handlers are those of before at the end of the block. Outside of the main thread Python lets nobody set handlers,
    and the block does nothing.
    """

    _entered: ClassVar[list[Interruption]] = []

    def __init__(self) -> None:
        self.pending: int | None = None
        self._count = _Count()
        self._before: dict[int, Any] = {}
        self._wakeup: tuple[int, int] | None = None  # ours, and the one of before

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in _HANDLED:
                present = signal.getsignal(number)
                # None: set by another language. Ignored: a background job that is not to hear it.
                if present is not None and present is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
            if self._before and os.name == "posix":
                self._start_watching()
            self._entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in self._entered:
            self._entered.remove(self)
            self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending is None:
            self.pending = number
        if self._wakeup is None:
            self._count.add(number)

    def _start_watching(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._wakeup = writer, before
        arguments = reader, before, frozenset(self._before), self._count
        threading.Thread(target=_watch, args=arguments, name="netcl-interruption", daemon=True).start()

    def _restore(self) -> None:
        """Handlers and descriptor of before; the thread that watches ends with the pipe."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
        if self._wakeup is not None:
            (writer, before), self._wakeup = self._wakeup, None
            present = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(before if present == writer else present)
            os.close(writer)

    @classmethod
    def forget(cls) -> None:
        """In a forked child, which is no part of the run: its signals are its own, and the pipe is the parent's."""
        while cls._entered:
            with contextlib.suppress(ValueError):
                cls._entered.pop()._restore()

    @staticmethod
    def error(number: int) -> BaseException:
        """KeyboardInterrupt, for SIGTERM SystemExit(143)."""
        return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _watch(reader: int, before: int, numbers: frozenset[int], count: _Count) -> None:
    """Counts the signals of ``numbers``, and passes all others on to the descriptor of before."""
    while data := os.read(reader, 64):
        for number in data:
            if number in numbers:
                count.add(number)
            elif before >= 0:
                with contextlib.suppress(OSError):
                    os.write(before, bytes([number]))
    os.close(reader)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Interruption.forget)
