"""Reads a hostile file as a user would, and reports every outcome that is not promised.

Promised: the file is read, or refused by one of the ``allowed`` exceptions with its path in the message; within 2
seconds of processor time and 256 MB of memory more than a good file. What one case adds is measured by itself: what the
process has kept from earlier cases does not count.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from registry import Run
from shrink import minimal

T = TypeVar("T")
SECONDS = 2.0
MEGABYTES = 256.0
OVERTIME = f"more than {SECONDS:.0f} s of processor time"


class Peak:
    """The memory that a process adds from here on: the largest resident size less the one now.

    Linux lets a process restart its largest size. Elsewhere it is of the whole life of the process, and only memory
    above the earlier peak is seen; 0 if the system does not tell.
    """

    def __init__(self) -> None:
        self._restarted = False
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._restarted = True
        except OSError:
            pass
        self._before = self._largest("VmRSS:")

    def megabytes(self) -> float:
        """Returns the memory that was added."""
        return max(0.0, self._largest("VmHWM:") - self._before)

    def _largest(self, field: str) -> float:
        if self._restarted:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith(field):
                    return int(line.split()[1]) / 2**10
        try:
            import resource
        except ImportError:
            return 0.0
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Judge:
    """Judges files of one format. ``read(path)`` reads one and returns a value; ``expected(value)`` says whether it is
    what the undamaged file holds, for formats with a checksum.
    """

    def __init__(
        self,
        run: Run,
        suffix: str,
        read: Callable[[Path], Any],
        good: bytes,
        allowed: tuple[type[Exception], ...],
        expected: Callable[[Any], bool] | None = None,
    ) -> None:
        self.run, self.suffix, self.read, self.allowed, self.expected = run, suffix, read, allowed, expected
        self.path = run.folder / f"file{suffix}"
        self.path.write_bytes(good)
        read(self.path)  # with what is imported at first use
        peak = Peak()
        read(self.path)
        self.base = peak.megabytes()
        self.outcome = self.detail = ""

    def symptom(self, data: bytes, same: bool = False) -> str:
        """Returns the promise that reading ``data`` breaks, an empty text if it breaks none; ``same``: if the file is
        read, then as the undamaged one.
        """
        self.path.write_bytes(data)
        peak, started = Peak(), time.thread_time()
        found = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = self.read(self.path)
            self.outcome = "read"
            if same and self.expected is not None and not self.expected(value):
                found = "other values than were saved"
        except self.allowed as error:
            self.outcome = "refused"
            if str(self.path) not in str(error):
                found = f"{type(error).__name__} without the file"
        except Exception as error:
            self.outcome = "wrong"
            found = f"{type(error).__name__} instead of {self.allowed[0].__name__}"
            self.detail = f"{error}"[:300]
        seconds, added = time.thread_time() - started, peak.megabytes() - self.base
        self.run.measure("s", seconds)
        self.run.measure("MB beyond a good file", added)
        if seconds > SECONDS:
            found = found or OVERTIME
            self.detail = f"{seconds:.1f} s"
        if added > MEGABYTES:
            found = found or f"more than {MEGABYTES:.0f} MB"
            self.detail = f"{added:.0f} MB more than a good file"
        return found

    def case(self, pieces: Sequence[T], build: Callable[[Sequence[T]], bytes], same: bool = False) -> None:
        """Judges ``build(pieces)``, and reports the smallest sublist of the pieces that breaks the same promise."""
        self.detail = ""
        found = self.symptom(build(pieces), same)
        self.run.count(self.outcome)
        if not found:
            return
        detail = self.detail
        if found == OVERTIME and self.symptom(build(pieces), same) != found:
            return  # a machine under load counts waits for memory as processor time, now and then
        kept = minimal(pieces, lambda part: self.symptom(build(part), same) == found, 60)
        self.run.fail(found, reproducer=detail, data=build(kept), suffix=self.suffix)

    def whole(self, data: bytes, same: bool = False) -> None:
        """Judges one file that is not made of pieces."""
        self.case([data], lambda part: b"".join(part), same)
