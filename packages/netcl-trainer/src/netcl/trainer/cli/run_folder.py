"""The folder of a run: a second run of a configuration is saved next to the first one, not over it."""

from __future__ import annotations

import re
from pathlib import Path

# Each run writes one of them after its first epoch.
_FILES = ("last.netcl", "history.csv", "model.netcl")


def _written(folder: Path) -> float:
    """Returns the time of the last save in a folder; 0.0 if no run was saved there."""
    return max((path.stat().st_mtime for name in _FILES if (path := folder / name).is_file()), default=0.0)


def free_folder(folder: Path) -> Path:
    """Returns ``folder`` if no run was saved there, else the first of ``folder-2``, ``folder-3``.. without a run."""
    number, candidate = 1, folder
    while _written(candidate):
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def last_run(folder: Path) -> Path:
    """Returns the one of ``folder``, ``folder-2``.. that was saved to last; ``folder`` if there is no run."""
    numbered = re.compile(rf"{re.escape(folder.name)}(-\d+)?")
    parent = folder.parent
    runs = [path for path in parent.iterdir() if numbered.fullmatch(path.name)] if parent.is_dir() else []
    return max([folder, *runs], key=_written)
