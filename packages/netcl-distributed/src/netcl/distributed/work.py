"""Work: the handle of a collective that another thread carries out, and the one thread of a group that does so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, NamedTuple

from netcl.core.errors import CollectiveTimeoutError

__all__ = ["CommThread", "Work"]


class Work:
    """A collective under way: ``wait`` gives its result or raises what it raised, ``done`` asks without waiting."""

    def __init__(self, future: Future[Any], op: str) -> None:
        self._future, self._op = future, op

    def done(self) -> bool:
        """Whether the collective has ended, well or not."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Any:
        """The result of the collective; CollectiveTimeoutError where it has not ended after ``timeout`` seconds, in
        which case it goes on.
        """
        try:
            return self._future.result(timeout)
        except (FutureTimeoutError, TimeoutError) as error:
            if self._future.done():
                raise
            raise CollectiveTimeoutError(f"{self._op} has not ended after {timeout} s", op=self._op) from error


class _Order(NamedTuple):
    future: Future[Any]
    work: Callable[[], Any]


class CommThread:
    """Carries out what it is given, one after the other, in a thread that starts with the first order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Future[Any] | None = None

    @property
    def idle(self) -> bool:
        """Whether everything that was ordered is done."""
        return self._last is None or self._last.done()

    @property
    def here(self) -> bool:
        """Whether this is the thread itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Orders ``work`` behind all that was ordered before."""
        if self._thread is None:
            # A daemon: a collective that waits for a dead rank must not hold back the end of the process.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._last = future
        self._orders.put(_Order(future, work))
        return future

    def close(self) -> None:
        """Ends the thread once what was ordered is done; waits for it."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                result = order.work()
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                order.future.set_exception(error)
            else:
                order.future.set_result(result)
            del order
