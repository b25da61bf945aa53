"""The folder of PoCL's compiled kernels: private, and with room.

PoCL shows no platform if it cannot make its folder (POCL_CACHE_DIR), and its compiler ends the process ("LLVM ERROR: IO
failure on output stream") if a file cannot be written there. It reads the variable once, so another folder is chosen
before its first call. Each build first checks for a folder that has filled up, and raises OSError.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netcl.core.errors import format_bytes
from netcl.core.process import cache_files

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


# PoCL 3.0 writes the preprocessed text of a program, 1.1 MB with its header of built-in functions, and 55 KB per
# kernel (measured).
# It built with a limit of 2 MiB per file, and not with 1 MiB.
_ROOM_FOR_A_BUILD = 4 << 20
_ROOM_FOR_A_PROCESS = 32 << 20  # several hundred kernels
_NO_EXECUTION = getattr(os, "ST_NOEXEC", 0)


def folder_in_use() -> Path:
    """Returns the folder of PoCL's compiled kernels."""
    for name, below in (("POCL_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pocl/kcache"), ("HOME", ".cache/pocl/kcache")):
        if os.environ.get(name):
            return Path(os.environ[name]) / below
    return Path("/tmp/pocl/kcache")


def give_folder() -> None:
    """Sets POCL_CACHE_DIR to a temporary folder, with a warning, if PoCL could not make its own, another user could
    have written code there, or it has no room. An empty POCL_CACHE_DIR, which PoCL takes for a folder, is unset.
    """
    if not os.environ.get("POCL_CACHE_DIR", "unset"):
        del os.environ["POCL_CACHE_DIR"]
    folder = folder_in_use()
    try:
        cache_files.make_private(folder)
        _write(folder)
        return
    except OSError as error:
        reason: object = error
    if _largest_file() >= _ROOM_FOR_A_BUILD:  # else there is no better folder, and ``check_room`` says so
        try:
            os.environ["POCL_CACHE_DIR"] = str(cache_files.temporary_folder("netcl-pocl-", next(_with_room(), None)))
        except OSError as error:
            reason = error
    cache_files.warn_once(folder, reason)


def check_room(platform: Any) -> None:
    """Raises OSError if PoCL is the driver and could not write files of a build, which would end the process."""
    if platform.name != "Portable Computing Language":
        return
    folder = folder_in_use()
    needs = f"PoCL needs {format_bytes(_ROOM_FOR_A_BUILD)} to build a kernel, and ends the process without"
    if _largest_file() < _ROOM_FOR_A_BUILD:
        limit = format_bytes(_largest_file())
        raise OSError(errno.EFBIG, f"files may have {limit} (RLIMIT_FSIZE): {needs}; raise the limit (ulimit -f)")
    free = _free(folder)
    if free < _ROOM_FOR_A_BUILD:
        text = f"{format_bytes(free)} are free: {needs}; make room, or set POCL_CACHE_DIR to another folder"
        raise OSError(errno.ENOSPC, text, str(folder))


def _write(folder: Path) -> None:
    """Raises OSError if a process could not write its kernels to a folder: of another owner, read-only (as root,
    os.access allows /proc), full, or beyond a quota, which only a write shows.
    """
    with tempfile.TemporaryFile(prefix=".netcl-", dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, _ROOM_FOR_A_BUILD)
    if _free(folder) < _ROOM_FOR_A_PROCESS:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {format_bytes(_free(folder))} are free", str(folder))


def _with_room() -> Iterator[str]:
    """Yields the folders for temporary files with room and with permission to load code."""
    for folder in (tempfile.gettempdir(), "/var/tmp", "/dev/shm"):
        try:
            _write(Path(folder))
            if not hasattr(os, "statvfs") or not os.statvfs(folder).f_flag & _NO_EXECUTION:
                yield folder
        except OSError:
            continue


def _free(folder: Path) -> int:
    """Returns the free bytes at a folder; without a folder (another error is due then) the least."""
    try:
        return shutil.disk_usage(folder).free
    except (OSError, AttributeError):  # a system without statvfs
        return _ROOM_FOR_A_PROCESS


def _largest_file() -> int:
    """Returns the bytes that a file of this process may have."""
    limit = -1 if resource is None else resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return limit if limit >= 0 else 1 << 62
