"""The one error of netcl.data that is not a built-in: a data worker failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["DataLoaderWorkerError"]


class DataLoaderWorkerError(RuntimeError):
    """A worker process of a DataLoader died, went silent, or raised.

    Attributes:
        worker_id: number of the worker, from 0.
        exitcode: exit status of the process, negative for a signal (-9: SIGKILL); None while it is alive.
        indices: the samples the worker held: the failing one when it raised, else those of its open batches.

    An exception raised in the worker is the ``__cause__`` where it could be sent, and its traceback is in the text.
    """

    def __init__(self, worker_id: int, exitcode: int | None, indices: Sequence[Any], message: str) -> None:
        super().__init__(message)
        self.worker_id = worker_id
        self.exitcode = exitcode
        self.indices = list(indices)

    def __reduce__(self) -> tuple[type[DataLoaderWorkerError], tuple[int, int | None, list[Any], str]]:
        return type(self), (self.worker_id, self.exitcode, self.indices, str(self))
