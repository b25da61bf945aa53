"""Shows one line on a terminal while kernels are built for the first time, off by NETCL_PROGRESS=0.

The line begins and ends with a carriage return: it takes the place of a progress bar, a later text of the program
overwrites it, and the rest is erased when no program has been built for a moment. Without a terminal the logger
``netcl.builds`` gets one record in its place, if it has a handler: the Trainer's line in logs and notebooks.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TextIO

from netcl.core import config

_ERASE = "\x1b[K"
_logger = logging.getLogger("netcl.builds")
_logger.setLevel(logging.INFO)
_logger.propagate = False


class BuildProgress:
    """Counts programs built from source, and shows their number once their builds have taken ``patience`` seconds.
    ``stream`` returns the terminal; ``clock`` seconds. The line is erased ``rest`` seconds after the last build.
    """

    def __init__(
        self,
        stream: Callable[[], TextIO | None] = lambda: sys.stderr,
        clock: Callable[[], float] = perf_counter,
        patience: float = 1.0,
        rest: float = 0.8,
    ) -> None:
        self._stream, self._clock = stream, clock
        self._patience, self._rest = patience, rest
        self._lock = threading.RLock()
        self._count = 0
        self._seconds = 0.0  # of the builds so far
        self._told = False  # True if the logger has a record of them
        self._timer: Any = None

    @contextmanager
    def building(self, device_name: str) -> Iterator[None]:
        """Counts the build of one program for a device within the block."""
        with self._lock:
            self._count += 1
            self._show(device_name)
        begun = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._seconds += self._clock() - begun
                self._show(device_name)
                self._erase_later()

    def _show(self, device_name: str) -> None:
        if self._seconds < self._patience:
            return
        if is_terminal(self._stream()):
            self._write(
                f"\rnetcl: building kernels for {device_name[:40]}, kept for next time: {self._count}{_ERASE}\r"
            )

        elif not self._told:
            self._told = True
            _logger.info("building kernels for %s, kept for next time", device_name)

    def _erase_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(self._rest, self.end)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Erases the line; later builds begin to count again."""
        with self._lock:
            if self._seconds >= self._patience:
                self._write(_ERASE)
            self._count, self._seconds, self._told = 0, 0.0, False

    def _write(self, text: str) -> None:
        stream = self._stream()
        try:
            if stream is not None and is_terminal(stream):
                stream.write(text)
                stream.flush()
        except (OSError, ValueError, RuntimeError):  # a lost terminal, a closed or busy stream
            return


def is_terminal(stream: TextIO | None) -> bool:
    """Returns True if the stream is an open terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


_progress = BuildProgress()


@contextmanager
def shown(device_name: str) -> Iterator[None]:
    """Shows the build of one program within the block, if NETCL_PROGRESS is on, on a terminal or by the logger."""
    if not (config.get("PROGRESS") and (is_terminal(sys.stderr) or _logger.handlers)):
        yield
        return
    with _progress.building(device_name):
        yield
