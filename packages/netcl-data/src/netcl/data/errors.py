"""The errors of netcl.data: a file that cannot be read, and a worker process that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DataFileError(ValueError):
    """A data file is damaged, of another format, or asks for more than its budget; the message names the file."""


class DataLoaderWorkerError(RuntimeError):
    """A worker process of a DataLoader died, stopped responding, or raised.

    Attributes:
        worker_id: number of the worker, from 0.
        exitcode: exit status of the process, negative for a signal (-9: SIGKILL); None while it is alive.
        indices: the failing sample if the worker raised, else the samples of its unfinished batches.

    An exception raised in the worker is the ``__cause__`` if it can be pickled; its traceback is part of the message.
    """

    def __init__(self, worker_id: int, exitcode: int | None, indices: Sequence[Any], message: str) -> None:
        super().__init__(message)
        self.worker_id = worker_id
        self.exitcode = exitcode
        self.indices: list[Any] = list(indices)

    def __reduce__(self) -> tuple[type[DataLoaderWorkerError], tuple[int, int | None, list[Any], str]]:
        return type(self), (self.worker_id, self.exitcode, self.indices, str(self))
