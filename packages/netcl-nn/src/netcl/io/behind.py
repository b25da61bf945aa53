"""Work on pieces of a file in a second thread, in order, while the first reads or writes the next ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Behind:
    """Calls ``function`` with each piece that it is given, in a thread of its own. Use it in a ``with`` block.

    At most one piece waits behind the one at work, so no more than two are held.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(1, name)
        self._running: list[Future[Any]] = []

    def __enter__(self) -> Behind:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()

    def take(self, *piece: Any) -> None:
        """Hands a piece over; it must not change before the next but one call, or ``settle``, has come back."""
        while len(self._running) > 1:
            self._running.pop(0).result()
        self._running.append(self._pool.submit(self._function, *piece))

    def settle(self) -> None:
        """Waits for all pieces; raises what the function raised."""
        while self._running:
            self._running.pop(0).result()
