"""Allocations of device buffers, which end when they are released or collected, and the counters of a pool."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

_ENDED = (0, None, None)


class Pool(Protocol):
    """The part of a pool that an allocation and the out-of-memory report use."""

    context: Any
    _returned: deque[Any]
    _free: dict[Any, Any]

    def get_stats(self) -> dict[str, Any]: ...

    def clear(self) -> Any:
        """Gives all unused buffers back to the driver."""
        ...


class BufferHandle:
    """A one-shot allocation of ``nbytes`` bytes in ``buffer``, given back by ``release()`` or when it is collected.

    ``bucket_size`` is the size of the buffer in bytes (0: read from the buffer). ``pool`` takes the buffer back (None:
    it is dropped). ``buffer`` is None after the release. If ``keep`` is set the buffer never enters a free list:
    release drops it. ``note`` is shown for it in an out-of-memory report, such as (shape, dtype). ``key`` is the free
    list that the buffer returns to (None: the list of ``bucket_size``).

    The entry that the pool gets back is made with the handle, so that the end of a handle makes no object: CPython 3.12
    can begin a collection inside a collection if finalizers make containers, which corrupts its lists of objects.
    """

    __slots__ = ("__weakref__", "_entry", "_live", "bucket_size", "buffer", "nbytes", "note", "pool")

    def __init__(
        self,
        buffer: Any,
        nbytes: int,
        bucket_size: int = 0,
        pool: Pool | None = None,
        key: Any = None,
        note: Any = None,
    ) -> None:
        self.buffer: Any = buffer
        self.nbytes: int = nbytes
        self.bucket_size: int = bucket_size
        self.pool: Pool | None = pool
        self.note: Any = note
        # (free list, buffer or None if it is dropped, no event)
        self._entry: tuple[Any, Any, Any] = bucket_size if key is None else key, buffer, None
        self._live = True

    @property
    def keep(self) -> bool:
        """True if the release drops the buffer."""
        return self._entry[1] is None

    @keep.setter
    def keep(self, keep: bool) -> None:
        self._entry = self._entry[0], None if keep else self.buffer, None

    def release(self) -> None:
        """Gives the buffer back to the pool; a second call does nothing."""
        if self.buffer is None:
            return
        try:
            del self._live  # one atomic step: of two threads, or a finalizer and a caller, only one passes
        except AttributeError:
            return
        entry = self._entry
        self.buffer, self._entry = None, _ENDED
        if self.pool is not None:
            self.pool._returned.append(entry)

    def __del__(self) -> None:
        # No other reference to the handle exists any more, so there is no race.
        if self.buffer is not None:
            pool = self.pool
            if pool is not None:
                pool._returned.append(self._entry)

    def release_after(self, event: Any) -> None:
        """Gives the buffer back; the pool reuses it only when ``event`` (cl.Event) is complete."""
        try:
            del self._live
        except AttributeError:
            return
        key, buffer = self._entry[0], self.buffer
        self.buffer, self._entry = None, _ENDED
        if self.pool is not None:
            self.pool._returned.append((key, buffer, event))

    @property
    def released(self) -> bool:
        """True if the allocation has ended."""
        return not hasattr(self, "_live")

    def __repr__(self) -> str:
        state = "released" if self.released else f"{self.bucket_size} bytes"
        return f"<BufferHandle of {self.nbytes} bytes, {state}>"


@dataclass(frozen=True)
class PoolStats:
    """Counters of a pool: allocations served from it (hits) and not (misses), bytes held, and how many are unused."""

    hits: int = 0
    misses: int = 0
    bytes_allocated: int = 0
    bytes_cached: int = 0

    @property
    def hit_rate(self) -> float:
        """hits / (hits + misses), 0.0 before the first allocation."""
        requests = self.hits + self.misses
        return self.hits / requests if requests else 0.0
