"""The lock of a folder that a run saves to, so that two runs do not mix their files."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from netcl.io import CheckpointError

if os.name != "nt":
    import fcntl

# A run that was killed may have workers that hold its lock until they have noticed.
_PATIENCE_S = 10.0


@contextmanager
def locked(folders: Iterable[Path]) -> Iterator[None]:
    """Holds a lock of the system (``flock``) on each folder, which is made if it is missing, within the block.

    Raises CheckpointError if another run holds one. The system drops the locks of a killed process. Windows, and file
    systems without such locks, have none.
    """
    with ExitStack() as held:
        if os.name != "nt":
            for folder in sorted({os.path.realpath(folder) for folder in folders}):
                held.enter_context(_locked(folder))
        yield


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # the first save says why
        yield
        return
    try:
        _lock(handle, folder)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # of workers, too, which were forked in between
    finally:
        os.close(handle)


def _lock(handle: int, folder: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:  # a file system without locks
                return
        if time.monotonic() > end:
            raise CheckpointError(
                "another run saves to this folder, expected one run at a time; give ModelCheckpoint another folder, or "
                "wait until that run has ended",
                folder,
            )
        time.sleep(0.05)
