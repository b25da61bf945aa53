"""Storage: the memory behind tensors, shared by aliases; deferred storage is materialized at its first use."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class Computation(Protocol):
    """A pending computation of deferred storage; ``materialize`` makes the storage ready."""

    def materialize(self) -> None:
        """Computes all that is deferred here."""
        ...

    def keep(self, tensor: Any) -> None:
        """Makes sure that the deferred ``tensor`` is computed: another tensor on its storage is made."""
        ...


# Held while a call is traced and while deferred storage is materialized, as another thread may use what is deferred
# here. One lock for all, since threads that wait for each other's computations would deadlock.
lock: AbstractContextManager[bool] = threading.RLock()

UNCOUNTED = 1 << 30  # added to a version by a write through ``data``, which backward passes must not see


class Upload(NamedTuple):
    """A copy from the host: its event, what is released after it, and the host array that it or the device works on."""

    event: Any = None
    release: Any = None
    host_ref: Any = None


class Storage:
    """The memory of one or more tensors: a ``buffer`` on OpenCL, an ``array`` on NumPy.

    ``allocation`` returns the buffer to its pool when the last tensor on it is gone. ``version`` counts writes in
    place, those through ``data`` in steps of UNCOUNTED. ``persistent`` storage never goes into a free list. ``upload``
    is the last copy from the host, None for none. ``deferred`` is None once the memory is there; before, it is the
    computation and the number of the value in it. A computation that failed is replaced by ``Failed``, which raises its
    error again. ``views`` are weak references to the storages of views, None for none; see ``views.py``.
    """

    __slots__ = (
        "__weakref__",
        "allocation",
        "array",
        "buffer",
        "deferred",
        "persistent",
        "upload",
        "version",
        "views",
    )

    buffer: Any
    array: Any
    allocation: Any
    version: int
    persistent: bool
    deferred: tuple[Computation, int] | None
    upload: Upload | None
    views: list[Any] | None

    @staticmethod
    def of(buffer: Any, array: Any, allocation: Any) -> Storage:
        """Storage of memory that has just been allocated."""
        # No __init__, without which a class is called faster: a planned op of OpenCL makes one each time, and repeats
        # these lines.
        self = Storage()
        self.buffer = buffer
        self.array = array
        self.allocation = allocation
        self.version = 0
        self.persistent = False
        self.deferred = None
        self.upload = None
        self.views = None
        return self

    @property
    def identity(self) -> int:
        """A number that no other storage has that is there at the same time."""
        return id(self)

    def materialize(self) -> None:
        """Computes the content, unless it is there."""
        with lock:
            if self.deferred is not None:  # else another thread has just done it
                work = self.deferred[0]
                work.materialize()
                if self.deferred is not None:
                    work.materialize()  # a predicted part may have been without this tensor
                if self.deferred is not None:
                    raise RuntimeError(f"a tensor was left pending by {work!r}")

    def written(self) -> None:
        """Counts a write in place, and makes views of this storage stale; called after the write."""
        self.version += 1
        if self.views is not None:
            self.invalidate_views()

    def invalidate_views(self, besides: Storage | None = None) -> None:
        """Makes the views of this storage stale, except for ``besides``."""
        for ref in self.views or ():
            view = ref()
            if view is not None and view is not besides:
                view.invalidate()

    def fill(self, other: Storage) -> None:
        """Gives deferred storage the memory of ``other``, which becomes its own."""
        self.allocation = other.allocation
        self.buffer = other.buffer
        self.array = other.array
        self.deferred = None  # last, since other threads ask for no lock from here on


class Failed:
    """The computation of storage that could not be computed: raises the error at each use."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def materialize(self) -> None:
        """Raises RuntimeError, from the error of the computation."""
        raise RuntimeError(f"this tensor could not be computed: {self._error}") from self._error

    def keep(self, tensor: Any) -> None:
        """Nothing: there is nothing to compute."""
