"""Atomic writes: a temporary file in the same folder, synced, then renamed over the target."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from netcl.core.errors import format_bytes
from netcl.io.errors import CheckpointError

# Errors of file systems that cannot sync folders.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


@contextmanager
def replacing(path: str | os.PathLike[str], nbytes: int) -> Iterator[BinaryIO]:
    """Opens a binary file for about ``nbytes`` bytes, which replaces ``path`` if the block ends without an exception.

    Raises CheckpointError, with the old file intact and no temporary file left, if the folder is missing or read-only,
    the disk is too small, or a write fails. Any other exception of the block leaves the same state.
    """
    target = Path(os.path.realpath(path))
    try:
        _check_place(target, path, nbytes)
        temporary = target.parent / f".{target.name[:200]}.{secrets.token_hex(6)}.tmp"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise _failed(error, path, nbytes) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise _failed(error, path, nbytes) from error
    finally:
        # After the rename there is no temporary file; before it, it must be removed in any case.
        with suppress(OSError):
            os.unlink(temporary)


def _check_place(target: Path, path: str | os.PathLike[str], nbytes: int) -> None:
    if target.is_dir():
        raise CheckpointError("this is a folder; give the path of a file", path, nbytes)
    free = shutil.disk_usage(target.parent).free
    if free < nbytes:
        raise CheckpointError(
            f"{format_bytes(nbytes)} to save, {format_bytes(free)} free on the disk; an existing file is untouched",
            path,
            nbytes,
        )


def _failed(error: OSError, path: str | os.PathLike[str], nbytes: int) -> CheckpointError:
    return CheckpointError(
        f"could not be saved ({error.strerror or error}; {format_bytes(nbytes)} to write); an old file is untouched",
        path,
        nbytes,
    )


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself survive a power failure; Windows has no such call."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)
