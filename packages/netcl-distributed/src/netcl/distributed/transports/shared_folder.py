"""The folder of files that are shared memory, and their names: the id of the process that makes them is part
of them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["PREFIX", "segment_folder", "segment_prefix"]

PREFIX = "netcl-"


def segment_folder() -> Path:
    """Returns the folder of shared memory, or of temporary files if there is none."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def segment_prefix() -> str:
    """Returns the beginning of the names of this process's files, by which ``sweep`` knows those of dead processes."""
    return f"{PREFIX}{os.getpid()}-"
