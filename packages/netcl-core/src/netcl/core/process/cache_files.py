"""The files of netcl's caches: folders and files of the user alone, each file with a checksum over its key and content.

A cache holds code (programs, the names of drivers to load) and what decides which code runs (measurements, verdicts of
probes). A folder or file that another user could have written is therefore not read: accepted are folders and files of
this user or of root that neither their group nor others may write. Windows has no such modes; there the folder of the
user's profile is trusted.

``write(path, key, content)`` makes folders with mode 0700 and files with mode 0600, and renames a temporary file: a
process killed while writing leaves no half of an entry. ``read(path, key)`` gives the content back. The checksum is
one over the key and the content, so a file that was copied over another's is damaged, as one with a flipped bit is; the
caller makes the entry again. It is not a signature: who may write the folder can also write the checksum.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
import warnings
from pathlib import Path

from netcl.core import config
from netcl.core.process.user_frame import level_outside

_MAGIC = b"netcl-cache-2 "
_HEADER = len(_MAGIC) + 64 + 1
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_HAS_OWNERS = hasattr(os, "geteuid")  # Windows has neither owners nor modes
_STALE_S = 3600.0
_REMOVAL_S = 2.0  # the longest time in which a temporary folder is removed

_warned: set[str] = set()
_warned_lock = threading.RLock()


class DamagedEntryError(ValueError):
    """A file of a cache is not the entry of its key: truncated, changed, of another key or version."""


def shared_folder(name: str) -> Path | None:
    """Returns the folder ``name`` in NETCL_CACHE_DIR, which need not exist; None with NETCL_CACHE=0."""
    return Path(config.get("CACHE_DIR")) / name if config.get("CACHE") else None


def make_private(folder: Path) -> None:
    """Makes a folder, and those above it that are missing, with mode 0700; an existing one is checked. Raises OSError
    if it cannot be made, is no folder, or could have been written by another user.
    """
    if folder.parts[0].startswith("~"):
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder", str(folder))
    missing = []
    above = folder
    while not above.exists():
        missing.append(above)
        if above.parent == above:
            break
        above = above.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process made it
            path.mkdir(0o700)
    _check_folder(folder)


def write(path: Path, key: str, content: bytes) -> None:
    """Writes the entry of ``key`` to ``path``, mode 0600; raises OSError if the folder cannot be used or is full."""
    make_private(path.parent)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_header(key, content) + content)
        os.replace(temporary, path)
    except OSError:
        remove(Path(temporary))
        raise


def read(path: Path, key: str) -> bytes:
    """Returns the content of the entry of ``key``.

    Raises FileNotFoundError if there is none, DamagedEntryError if it is not the entry of ``key`` or (with a warning)
    another user could have written it, PermissionError if another user could have written the folder, OSError if it
    cannot be read.
    """
    _check_folder(path.parent)
    # A fifo would block, a link could lead out of the folder.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        reason = distrust(status)
        if reason:
            _warn(str(path), f"an entry of a cache is ignored and made again: {path} {reason}")
            raise DamagedEntryError(f"{path} {reason}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            stored = file.read()
    finally:
        os.close(descriptor)
    content = stored[_HEADER:]
    if stored[:_HEADER] != _header(key, content):
        raise DamagedEntryError(f"{path} is damaged, or an entry of another key or version")
    return content


def is_own(path: Path) -> bool:
    """Returns True if there is an entry that no other user could have written, for entries that need only exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and not distrust(status)


def remove(path: Path) -> None:
    """Removes a file if it can: it is only a cache."""
    with contextlib.suppress(OSError):
        path.unlink()


def remove_stale(path: Path) -> None:
    """Removes a temporary file that a killed process left, once it is an hour old: a younger one may be in use."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _STALE_S:
            path.unlink()


def temporary_folder(prefix: str, where: str | None = None) -> Path:
    """Returns a new folder in ``where`` (None: the system's temporary folder) that this process removes at its end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() != owner:  # a forked child runs this hook too
            return
        end = time.monotonic() + _REMOVAL_S
        while True:
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists() or time.monotonic() > end:
                return
            time.sleep(0.02)  # a driver's threads may still be writing

    atexit.register(remove)
    return folder


def temporary_of(name: str) -> bool:
    """True if a file of this name is one that ``write`` renames."""
    return name.startswith(".") and name.endswith(".tmp")


def warn_once(folder: Path, reason: object, cache: Path | None = None) -> None:
    """Warns, once per process and cache, that a folder cannot be used, and says what to set. ``cache`` None: the one
    cache that NETCL_CACHE_DIR's folders and PoCL's are.
    """
    _warn(
        str(config.get("CACHE_DIR") if cache is None else cache),
        f"compiled kernels and measurements are kept in memory only: {folder} cannot be used ({reason}). "
        "Set NETCL_CACHE_DIR to a folder that can be written, or NETCL_CACHE=0",
    )


def _warn(subject: str, text: str) -> None:
    with _warned_lock:
        if subject in _warned:
            return
        _warned.add(subject)
    warnings.warn(text, RuntimeWarning, stacklevel=level_outside())


def _header(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(hashlib.sha256(key.encode(errors="surrogateescape")).digest() + content)
    return _MAGIC + digest.hexdigest().encode() + b"\n"


def _check_folder(folder: Path) -> None:
    shared = Path(config.get("CACHE_DIR"))
    for path in (shared, folder) if folder.parent == shared else (folder,):
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        reason = distrust(status)
        if reason:
            raise PermissionError(f"{path} {reason}")


def distrust(status: os.stat_result) -> str:
    """Returns why a folder or file is not trusted, "" if it is."""
    if not _HAS_OWNERS:
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to the user {status.st_uid}, who could have written code into it; remove it"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        return f"has mode {mode:04o}: other users could have written code into it; remove it"
    return ""
