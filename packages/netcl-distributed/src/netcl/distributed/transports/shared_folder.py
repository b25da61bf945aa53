"""The folder of files that are shared memory, and their names, which identify the process of origin."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PREFIX = "netcl-"


def segment_folder() -> Path:
    """Returns the folder of shared memory, or of temporary files if there is none."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def segment_prefix() -> str:
    """Returns the beginning of the names of this process's files; ``sweep`` knows files of dead processes by it."""
    return f"{PREFIX}{os.getpid()}-{_namespace()}-{_start(os.getpid())}-"


def is_abandoned(name: str) -> bool:
    """True if a file is of a process that has ended: of this system's numbering of processes, as containers that share
    the folder have numbers of their own, and by its start, as numbers are used again.
    """
    number, namespace, start, *_ = [*name[len(PREFIX) :].split("-"), "", "", ""]
    if os.name == "nt" or not number.isdigit() or namespace != _namespace():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _start(int(number)) not in (start, "")


def _namespace() -> str:
    """Returns the number of the namespace of this process's id; "0" if the system has one alone."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _start(pid: int) -> str:
    """Returns the time at which a process was started, in the system's units; "" if the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
