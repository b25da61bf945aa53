"""How ranks wait: with patience for so many seconds, and giving way to whoever has something to do."""

from __future__ import annotations

import os
import time

__all__ = ["Patience", "give_way", "nap"]

give_way = getattr(os, "sched_yield", lambda: time.sleep(0))

# Who polls looks far more often than that, unless the process was stopped, or the machine asleep.
_LONGEST_S = 1.0
_SHORT_NAP_S, _LONG_NAP_S = 5e-5, 1e-3


def nap(waited: float) -> None:
    """Sleeps before the next look, the longer the longer one has ``waited`` (seconds): each look takes the processor,
    and Python's lock, from the thread that computes.
    """
    time.sleep(min(max(_SHORT_NAP_S, waited / 8), _LONG_NAP_S))


class Patience:
    """``seconds`` of waiting, spent by looking: ``over()`` is to be called again and again while one waits.

    Between two looks a second counts at most. A process that was stopped with all the others (Ctrl-Z, a debugger, a
    machine that was frozen) would otherwise call them late the moment it goes on.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._looked = time.monotonic()

    def over(self) -> bool:
        """Whether the time is up."""
        now = time.monotonic()
        self.left -= min(now - self._looked, _LONGEST_S)
        self._looked = now
        return self.left <= 0
