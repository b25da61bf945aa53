"""Shims that disturb the n-th call of a kind: a preloaded library if there is a C compiler, else functions of os."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

KINDS = ("open", "write", "sync", "rename", "unlink", "chmod", "lock", "dup", "space", "list")
ACTIONS = ("fail", "short", "kill")


def compiled(folder: Path) -> Path | None:
    """Returns the library, built in ``folder``; None without a compiler, or on a system without LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "fault_shim.so"
    source = Path(__file__).with_name("fault_shim.c")
    # Some kinds of a library of C have no 64-bit names (musl): the shim of Python is used there.
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source), "-ldl"], check=False
    )
    return library if done.returncode == 0 else None


class LibraryShim:
    """The preloaded library, which sees the calls of every thread and of C code."""

    kinds = KINDS

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_arm  # noqa: B018 - AttributeError if it is not preloaded

    def arm(self, kind: str, at: int, error: int, action: str, *, after: bool = False) -> None:
        """Disturbs the call ``at`` (from 1) of ``kind``: it fails with ``error``, is cut short or kills the process;
        ``after`` it was made, else in its place.
        """
        self._library.shim_arm(KINDS.index(kind), at, error, ACTIONS.index(action), int(after))

    def disarm(self) -> tuple[int, int]:
        """Returns the calls of the kind since, and the disturbed ones among them."""
        self._library.shim_disarm()
        return self._library.shim_calls(), self._library.shim_hits()


class PythonShim:
    """Replaces functions of ``os`` and the files of ``os.fdopen``, for systems without a compiler."""

    kinds = ("open", "write", "sync", "rename", "unlink", "chmod", "dup", "list")
    _names = {
        "open": "open",
        "sync": "fsync",
        "rename": "replace",
        "unlink": "unlink",
        "chmod": "chmod",
        "dup": "dup",
        "list": "scandir",
    }

    def __init__(self) -> None:
        self._real: dict[str, Any] = {}
        self._calls = self._hits = 0

    def arm(self, kind: str, at: int, error: int, action: str, *, after: bool = False) -> None:
        """As ``LibraryShim.arm``."""
        self._calls = self._hits = 0
        name = self._names.get(kind, "fdopen")
        real = self._real[name] = getattr(os, name)

        def disturb(*given: Any, **named: Any) -> Any:
            self._calls += 1
            if self._calls != at:
                return real(*given, **named)
            self._hits += 1
            if after:
                made = real(*given, **named)
                if kind in ("open", "dup"):
                    os.close(made)
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(error, os.strerror(error))

        if kind != "write":
            setattr(os, name, disturb)
            return

        def opened(*given: Any, **named: Any) -> Any:
            file, before = real(*given, **named), file_write
            return _Disturbed(file, lambda data: disturbed_write(file, data, before))

        def file_write(file: Any, data: Any) -> Any:
            return file.write(data)

        def disturbed_write(file: Any, data: Any, write: Any) -> Any:
            self._calls += 1
            if self._calls != at:
                return write(file, data)
            self._hits += 1
            if action == "short":
                return write(file, data)
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(error, os.strerror(error))

        os.fdopen = opened

    def disarm(self) -> tuple[int, int]:
        """As ``LibraryShim.disarm``."""
        for name, function in self._real.items():
            setattr(os, name, function)
        self._real.clear()
        return self._calls, self._hits


class _Disturbed:
    """A file with another function as ``write``."""

    def __init__(self, file: Any, write: Any) -> None:
        self._file = file
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Disturbed:
        return self

    def __exit__(self, *raised: object) -> Any:
        return self._file.__exit__(*raised)
