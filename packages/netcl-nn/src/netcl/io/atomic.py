"""Atomic writes: a temporary file in the same folder, synced, then renamed over the target.

The temporary of ``NAME`` is ``.NAME.<12 hex digits>.tmp``, and its writer holds a lock on it (``flock``) until it is
renamed. The system drops the locks of a killed process, so a temporary without a lock is a leftover, which the next
save of the same name removes. Windows has no such locks and needs none: it refuses to remove a file that is open.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from netcl.core.errors import format_bytes
from netcl.io.errors import CheckpointError

if os.name != "nt":
    import fcntl

# Errors of file systems that cannot sync folders, and of folders that may be written but not read.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
# Errors of file systems without locks; temporaries of killed processes stay on them.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_KINDS = {
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
# Bytes of the target's name in the name of its temporary, of the 255 that file systems allow.
_NAME_BYTES = 200


@contextmanager
def replacing(path: str | os.PathLike[str], nbytes: int) -> Iterator[BinaryIO]:
    """Opens a binary file for about ``nbytes`` bytes, which replaces ``path`` if the block ends without an exception.

    Raises CheckpointError, with the old file intact and no temporary file left, if ``path`` is no regular file, the
    folder is missing or read-only, the disk is too small, or a write fails. Any other exception of the block leaves the
    same state. If only the folder cannot be synced, the new file is in place, and the error says so (``replaced``).
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _check_place(target, path, nbytes)
        remove_leftovers(target.parent, target.name)
        temporary, handle = _created(target, mode)
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:
        raise _failed(error, path, nbytes) from error
    lock = None
    try:
        with os.fdopen(handle, "wb") as file:
            # The lock belongs to both descriptors, so it is held until this one is closed, after the rename.
            lock = None if os.name == "nt" else os.dup(handle)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except CheckpointError:
        raise
    except OSError as error:
        raise _failed(error, path, nbytes, _is_at(target, lock)) from error
    finally:
        # After the rename there is no temporary file; before it, it must be removed in any case.
        with suppress(OSError):
            os.unlink(temporary)
        if lock is not None:
            os.close(lock)


def remove_leftovers(folder: Path, name: str) -> None:
    """Removes the temporaries of ``name`` in ``folder`` that processes left when they were killed. A temporary that a
    living process writes stays, and so does any on a file system without locks.
    """
    leftover = re.compile(re.escape(f".{_shortened(name)}.") + r"[0-9a-f]{12}\.tmp")
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if leftover.fullmatch(entry.name)]:
            _remove_unlocked(path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError):
        if os.name == "nt":
            os.unlink(path)
            return
        # A pipe or a link of this name is not ours; opening it must not wait or leave the folder.
        handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
        finally:
            os.close(handle)


def _created(target: Path, mode: int | None) -> tuple[Path, int]:
    """Returns the path and the descriptor of a new temporary, which is locked if its file system has locks."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.parent / f".{_shortened(target.name)}.{secrets.token_hex(6)}.tmp"
        handle = os.open(temporary, flags, 0o666 if mode is None else mode & 0o666)
        if os.name == "nt":
            return temporary, handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            removed = os.fstat(handle).st_nlink == 0
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return temporary, handle
            os.close(handle)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if not removed:
            return temporary, handle
        # Another saver of this name removed it as a leftover, between its creation and its lock.
        os.close(handle)


def _shortened(name: str) -> str:
    return os.fsencode(name)[:_NAME_BYTES].decode(errors="ignore")


def _check_place(target: Path, path: str | os.PathLike[str], nbytes: int) -> int | None:
    """Returns the file mode of the old file, None if there is none."""
    # The path itself, not its target: /dev/stdout leads to a pipe that has no name.
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and stat.S_ISDIR(old.st_mode):
        cause: OSError = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise CheckpointError("this is a folder; give the path of a file", path, nbytes, cause=cause)
    if old is not None and not stat.S_ISREG(old.st_mode):
        kind, cause = _KINDS.get(stat.S_IFMT(old.st_mode), "no regular file"), OSError(errno.EINVAL, "no regular file")
        message = f"this is {kind}, which a saved file would replace; give the path of a file"
        raise CheckpointError(message, path, nbytes, cause=cause)
    free = shutil.disk_usage(target.parent).free
    if free < nbytes:
        raise CheckpointError(
            f"{format_bytes(nbytes)} to save, {format_bytes(free)} free on the disk; an existing file is untouched",
            path,
            nbytes,
            cause=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        )
    return None if old is None else stat.S_IMODE(old.st_mode)


def _is_at(target: Path, lock: int | None) -> bool:
    """True if the written file is at ``target``: an error of a rename does not say that nothing was renamed."""
    if lock is None:
        return False
    with suppress(OSError):
        return os.path.samestat(os.stat(target), os.fstat(lock))
    return False


def _failed(
    error: OSError | ValueError, path: str | os.PathLike[str], nbytes: int, replaced: bool = False
) -> CheckpointError:
    reason = getattr(error, "strerror", None) or error
    if replaced:
        message = (
            f"was saved and is whole, but its folder could not be synced ({reason}): after a power failure the old "
            "file may be there again"
        )
    else:
        message = f"could not be saved ({reason}; {format_bytes(nbytes)} to write); an old file is untouched"
    return CheckpointError(message, path, nbytes, replaced=replaced, cause=error)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself survive a power failure; Windows has no such call."""
    if os.name == "nt":
        return
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        if handle is not None:
            os.close(handle)
