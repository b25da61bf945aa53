"""What a profiler is told by the backends: each kernel, copy and replay of an engine whose ``watcher`` is set.

``engine.watcher`` is None while nobody watches, and that is all that a launch asks. What is watched goes the long way:
there are no warm calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from threading import get_ident
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

__all__ = ["Note", "Size", "Watcher", "Work", "note", "sizes", "worked"]

F = TypeVar("F", bound=Callable[..., Any])


class Size(NamedTuple):
    """What is known of an operand that is not kept: its shape (of a bare buffer None) and its bytes."""

    shape: tuple[int, ...] | None
    nbytes: int


class Work:
    """What a contraction computes by all its kernels together: multiplications and additions, known at its end."""

    __slots__ = ("flops",)

    def __init__(self, flops: int = 0) -> None:
        self.flops: int = flops


class Watcher(Protocol):
    """Told of what has just been enqueued, in the thread that did it.

    ``began`` is ``time.perf_counter()`` before the call; ``event`` the cl.Event of what runs now, None where it has run
    already.
    """

    @property
    def work(self) -> Work | None:
        """The contraction that the kernels of this thread compute now."""
        ...

    @work.setter
    def work(self, work: Work | None) -> None: ...

    def kernel(self, began: float, event: Any, name: str, args: Iterable[Any], work: Work | None = None) -> None:
        """A kernel; ``args`` are what it was given: tensors, arrays, Sizes, and what else it takes. ``work`` is that of
        a kernel that is replayed.
        """
        ...

    def copy(self, began: float, event: Any, name: str, nbytes: int) -> None:
        """A copy between the host and the device."""
        ...

    def replay(self, began: float, launches: int) -> None:
        """A recorded step, whose kernels have been told of one by one."""
        ...


class Note(NamedTuple):
    """What a replay tells of a recorded launch."""

    name: str
    args: tuple[Any, ...]
    work: Work | None = None


def note(name: str, args: Iterable[Any]) -> Note:
    """The Note of a kernel with ``args``, which are not kept."""
    return Note(name, tuple(sizes(args)))


def sizes(args: Iterable[Any]) -> Iterator[Size]:
    """The sizes of the tensors, arrays and buffers among ``args`` and in lists there."""
    for arg in args:
        if isinstance(arg, Size):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from sizes(arg)
        elif isinstance(arg, np.generic):
            continue
        elif hasattr(arg, "nbytes") and hasattr(arg, "shape"):
            yield Size(arg.shape, arg.nbytes)
        elif hasattr(arg, "int_ptr") and hasattr(arg, "size"):
            yield Size(None, arg.size)


def worked(flops: Callable[..., int]) -> Callable[[F], F]:
    """Marks a computing call of an engine whose kernels together do ``flops(result, *args, **kwargs)``, which who
    watches is told, and a recording of this thread keeps.
    """

    def mark(method: F) -> F:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            recording, watcher = self.recording, self.watcher
            if recording is not None and recording.thread == get_ident():
                watcher = recording
            if watcher is None:
                return method(self, *args, **kwargs)
            work = watcher.work = Work()
            try:
                result = method(self, *args, **kwargs)
            finally:
                watcher.work = None
            work.flops = flops(result, *args, **kwargs)
            return result

        return call  # type: ignore[return-value]

    return mark
