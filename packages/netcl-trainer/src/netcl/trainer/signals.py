"""What SIGINT and SIGTERM do while a run goes on: the first lets the step end and the run be saved, the second not."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interruption"]

_HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))


class Interruption:
    """In its ``with`` block the first SIGINT or SIGTERM is noted in ``pending``, and the second raises at once.

    Handlers are those of before at the end of the block. Outside of the main thread Python lets nobody set handlers,
    and the block does nothing.
    """

    def __init__(self) -> None:
        self.pending: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in _HANDLED:
                present = signal.getsignal(number)
                # None: set by another language. Ignored: a background job that is not to hear it.
                if present is not None and present is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending is None:
            self.pending = number
            return
        self._restore()
        raise self.error(number)

    @staticmethod
    def error(number: int) -> BaseException:
        """KeyboardInterrupt, for SIGTERM SystemExit(143)."""
        return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
