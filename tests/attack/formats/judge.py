"""Reads a hostile file as a user would, and reports every outcome that is not promised.

Promised: the file is read, or refused by one of the ``allowed`` exceptions with its path in the message; within 2
seconds of processor time and 256 MB of memory beyond the process as it was after it had read a good file.
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


def peak_megabytes() -> float:
    """Returns the largest resident size of this process so far; 0 where the system does not tell."""
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
        read(self.path)
        self.base = peak_megabytes()

    def symptom(self, data: bytes, same: bool = False) -> str:
        """Returns the promise that reading ``data`` breaks, an empty text if it breaks none; ``same``: if the file is
        read, then as the undamaged one.
        """
        self.path.write_bytes(data)
        started, before = time.thread_time(), peak_megabytes()
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
        seconds = time.thread_time() - started
        if seconds > SECONDS:
            found = found or f"more than {SECONDS:.0f} s"
            self.detail = f"{seconds:.1f} s"
        peak = peak_megabytes()
        if peak > before and peak > self.base + MEGABYTES:
            found = found or f"more than {MEGABYTES:.0f} MB"
            self.detail = f"{peak - self.base:.0f} MB more than a good file"
        return found

    def case(self, pieces: Sequence[T], build: Callable[[Sequence[T]], bytes], same: bool = False) -> None:
        """Judges ``build(pieces)``, and reports the smallest sublist of the pieces that breaks the same promise."""
        self.detail = ""
        found = self.symptom(build(pieces), same)
        self.run.count(self.outcome)
        if not found:
            return
        kept: Sequence[T] = pieces
        if "MB" not in found:  # the peak of a process does not fall again
            kept = minimal(pieces, lambda part: self.symptom(build(part), same) == found, 60)
        self.run.fail(found, reproducer=self.detail, data=build(kept), suffix=self.suffix)

    def whole(self, data: bytes, same: bool = False) -> None:
        """Judges one file that is not made of pieces."""
        self.case([data], lambda part: b"".join(part), same)
