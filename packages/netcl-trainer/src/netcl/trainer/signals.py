"""Handling of SIGINT, SIGTERM and SIGHUP during a run: the first ends it after the current step, the second at once.

Python runs a signal handler only between its own instructions, in the main thread, which may be waiting for a device.
But its C handler writes the signal's number to the wakeup descriptor at once, and a thread that reads it ends the
process at the second signal, in any state of the main thread. Without such a descriptor (on Windows it is a socket)
only the handler counts signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, ClassVar

_HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# `timeout` and other launchers forward a signal that the process has already received as a member of their group.
_SAME_S = 0.05


class _Count:
    """The time of the first signal; the next one ends the process."""

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
    """In its ``with`` block the first SIGINT, SIGTERM or SIGHUP (a terminal was closed) is stored in ``pending``; the
    second ends the process at once, with exit code 130, 143 or 129.

    The previous handlers are restored at the end of the block. Python allows handlers only in the main thread; in other
    threads the block does nothing.
    """

    _entered: ClassVar[list[Interruption]] = []

    def __init__(self) -> None:
        self.pending: int | None = None
        self._count = _Count()
        self._before: dict[int, Any] = {}
        self._wakeup: tuple[int, int] | None = None  # ours, and the previous one

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in _HANDLED:
                present = signal.getsignal(number)
                # None: set by another language. Ignored: a background job that should not receive it.
                if present is not None and present is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
            if self._before and os.name == "posix":
                self._start_signal_thread()
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

    def _start_signal_thread(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._wakeup = writer, before
        arguments = reader, before, frozenset(self._before), self._count
        threading.Thread(target=_read_signals, args=arguments, name="netcl-interruption", daemon=True).start()

    def _restore(self) -> None:
        """Restores the previous handlers and descriptor; the watching thread ends with the pipe."""
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
        """Leaves signals to a forked child, which is not part of the run; the pipe is the parent's."""
        while cls._entered:
            with contextlib.suppress(ValueError):
                cls._entered.pop()._restore()

    @staticmethod
    def error(number: int) -> BaseException:
        """Returns KeyboardInterrupt, for SIGTERM SystemExit(143), for SIGHUP SystemExit(129)."""
        return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _read_signals(reader: int, before: int, numbers: frozenset[int], count: _Count) -> None:
    """Counts the signals of ``numbers``, and forwards all others to the previous descriptor."""
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
