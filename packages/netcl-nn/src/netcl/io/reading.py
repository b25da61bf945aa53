"""Opens a file for a reader, and turns every error that its contents cause into a CheckpointError with file and place.

This is the only place of netcl.io where errors of other libraries (zipfile, NumPy, JSON, protobuf, safetensors, ...)
become CheckpointError: a reader does not list the errors that its libraries may raise.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from netcl.core.errors import (
    DeviceLostError,
    DeviceNotFoundError,
    DeviceTimeoutError,
    ForkedProcessError,
    KernelBuildError,
    OutOfMemoryError,
)
from netcl.io.budget import Budget, Meter
from netcl.io.errors import CheckpointError

# Errors of the device or the process, which no file causes. OutOfMemoryError: the device is too small for a good file.
_NOT_OF_THE_FILE = (
    CheckpointError,
    DeviceLostError,
    DeviceNotFoundError,
    DeviceTimeoutError,
    ForkedProcessError,
    KernelBuildError,
    OutOfMemoryError,
)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class Reading:
    """A file that is being read: its path, its size and its meter."""

    def __init__(self, path: str | os.PathLike[str], size: int, budget: Budget | None = None) -> None:
        self.path = path
        self.size = size
        self.meter: Meter = Meter(budget or Budget(), size)

    def at(self, part: str) -> AbstractContextManager[None]:
        """Names the part of the file that errors inside the block are about."""
        return self.meter.at(part)

    def refuse(self, message: str) -> CheckpointError:
        """Returns the error to raise about this file."""
        return CheckpointError(message, self.path, self.size)

    def refused(self, error: BaseException, problem: str) -> CheckpointError:
        """Returns the CheckpointError in place of another error."""
        where = f"{self.meter.part}: " if self.meter.part else ""
        # The text of a KeyError or a MemoryError alone says nothing.
        named = "" if isinstance(error, (ValueError, OSError)) and str(error) else f"{type(error).__name__}: "
        text = f"{named}{error}"[:2000]
        return self.refuse(f"{problem} ({where}{text})")


@contextmanager
def reading(
    path: str | os.PathLike[str],
    size: int,
    budget: Budget | None = None,
    problem: str = "is damaged",
    passing: tuple[type[Exception], ...] = (),
) -> Iterator[Reading]:
    """Reads a file's contents inside the block: an exception becomes a CheckpointError that begins with ``problem``,
    except those about the device and the types in ``passing``.
    """
    file = Reading(path, size, budget)
    try:
        yield file
    except Exception as error:
        if isinstance(error, (*_NOT_OF_THE_FILE, *passing)):
            raise
        raise file.refused(error, problem) from error


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading. Raises CheckpointError for a missing one, and, without reading it, for a
    folder, pipe, socket or device.
    """
    try:
        # O_NONBLOCK: opening a pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise CheckpointError(f"cannot be read ({error.strerror or error})", path, cause=error) from error
    except ValueError as error:  # a null character in the path
        raise CheckpointError(f"cannot be read ({error})", repr(os.fspath(path))) from error
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        cause = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) if kind == stat.S_IFDIR else None
        text = f"cannot be read: this is {_KINDS.get(kind, 'no file')}, not a regular file"
        raise CheckpointError(text, path, cause=cause)
    return os.fdopen(handle, "rb")


@contextmanager
def opened(
    path: str | os.PathLike[str],
    budget: Budget | None = None,
    problem: str = "is damaged",
    passing: tuple[type[Exception], ...] = (),
) -> Iterator[tuple[Any, Reading]]:
    """Opens a regular file and reads it as ``reading`` does; yields the binary file and its Reading."""
    with open_regular(path) as file, reading(path, os.fstat(file.fileno()).st_size, budget, problem, passing) as state:
        yield file, state
