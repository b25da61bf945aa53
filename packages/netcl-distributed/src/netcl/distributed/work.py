"""Work, the handle of an asynchronous collective, and CommThread, the thread of a group that runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, NamedTuple

from netcl.core.errors import CollectiveTimeoutError


class Work:
    """A running collective: ``wait`` returns its result or raises its error, ``done`` tests without waiting."""

    def __init__(self, future: Future[Any], op: str) -> None:
        self._future, self._op = future, op

    def done(self) -> bool:
        """Returns True if the collective has ended, with or without an error."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Any:
        """Returns the result of the collective; raises CollectiveTimeoutError if it has not ended after ``timeout``
        seconds; the collective then continues.
        """
        try:
            return self._future.result(timeout)
        except (FutureTimeoutError, TimeoutError) as error:
            if self._future.done():
                raise
            raise CollectiveTimeoutError(f"{self._op} has not ended after {timeout} s", op=self._op) from error


class _Task(NamedTuple):
    future: Future[Any]
    work: Callable[[], Any]


class CommThread:
    """Runs submitted functions in order, in a thread that starts with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Future[Any] | None = None

    @property
    def idle(self) -> bool:
        """True if all submitted functions have ended."""
        return self._last is None or self._last.done()

    @property
    def here(self) -> bool:
        """True in the thread itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Queues ``work`` after all functions submitted before."""
        if self._thread is None:
            # A daemon: a collective that waits for a dead rank must not delay the end of the process.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._last = future
        self._tasks.put(_Task(future, work))
        return future

    def close(self) -> None:
        """Waits for the submitted functions and ends the thread."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                result = task.work()
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                task.future.set_exception(error)
            else:
                task.future.set_result(result)
            del task
