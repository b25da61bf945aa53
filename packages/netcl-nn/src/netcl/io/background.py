"""Background io: processes pieces of a file in a second thread, in order, while the caller reads or writes the next
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundWorker:
    """Calls ``function`` with each submitted piece in a separate thread. Use it in a ``with`` block.

    At most one piece is queued while another is processed, so at most two are held in memory.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(1, name)
        self._running: list[Future[Any]] = []

    def __enter__(self) -> BackgroundWorker:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()

    def submit(self, *piece: Any) -> Future[Any]:
        """Queues a piece; it must not change until the next but one call, or ``wait``, has returned. Its result is the
        result of the function.
        """
        while len(self._running) > 1:
            self._running.pop(0).result()
        self._running.append(self._pool.submit(self._function, *piece))
        return self._running[-1]

    def wait(self) -> None:
        """Waits for all pieces; raises the exception of the function, if any."""
        while self._running:
            self._running.pop(0).result()
