"""Waiting for other ranks: a deadline, and polling with backoff that yields the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))

# Polling is far more frequent than this, unless the process was stopped or the machine suspended.
_LONGEST_S = 1.0
_SHORTEST_SLEEP_S, _LONGEST_SLEEP_S = 5e-5, 1e-3


def sleep_with_backoff(waited: float) -> None:
    """Sleeps before the next poll, longer the longer the caller has ``waited`` (seconds): each poll takes the
    processor, and Python's lock, from the thread that computes.
    """
    time.sleep(min(max(_SHORTEST_SLEEP_S, waited / 8), _LONGEST_SLEEP_S))


class Deadline:
    """A deadline after ``seconds`` of waiting; ``expired()`` must be called repeatedly during the wait.

    The time between two calls counts as one second at most. Otherwise a process that was stopped with all the others
    (Ctrl-Z, a debugger, a suspended machine) would report them as late the moment it continues.
    """

    def __init__(self, seconds: float) -> None:
        self.left: float = seconds
        self._looked = time.monotonic()

    def expired(self) -> bool:
        """Returns True if the time is up."""
        now = time.monotonic()
        self.left -= min(now - self._looked, _LONGEST_S)
        self._looked = now
        return self.left <= 0
