"""The profiler sink: an interceptor of engine calls that also sees each kernel, copy and replay of the engine.

``engine.sink`` is the ProfilerSink among the engine's interceptors, None without a profiler. A launch asks only for
that. A profiled engine repeats no ops by plans.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from netcl.core.engine.interceptors import Interceptor, Layer
from netcl.core.expr.cost import FLOPS


class Size(NamedTuple):
    """The description of an operand, which is not kept alive: its shape (None for a bare buffer) and its bytes."""

    shape: tuple[int, ...] | None
    nbytes: int


class FlopCount:
    """The multiplications and additions of one contraction, by all its kernels together; known at its end."""

    __slots__ = ("flops",)

    def __init__(self, flops: int = 0) -> None:
        self.flops: int = flops


class CountsFlops(Protocol):
    """A profiler or a recording: its launches belong to ``flop_count``, the contraction that is computed now."""

    flop_count: FlopCount | None


class FlopCounter(Interceptor):
    """Tells ``target`` the floating-point operations of each contraction."""

    layer = Layer.FLOP_COUNT

    def __init__(self, target: CountsFlops, thread: int | None = None) -> None:
        self._target = target
        self.thread = thread

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return _counted(self._target, proceed, name, args, kwargs)


class ProfilerSink(Interceptor):
    """Counts the floating-point operations of all threads, and is told of what has just been enqueued, in the thread
    that did it.

    ``began`` is ``time.perf_counter()`` before the call; ``event`` the cl.Event of what runs now, None if it has run
    already.
    """

    layer = Layer.FLOP_COUNT
    sees_launches = True

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        target: Any = self  # subclasses have flop_count as an attribute or a property with a setter
        return _counted(target, proceed, name, args, kwargs)

    @property
    @abstractmethod
    def flop_count(self) -> FlopCount | None:
        """The contraction that the kernels of this thread compute now."""

    @flop_count.setter
    @abstractmethod
    def flop_count(self, count: FlopCount | None) -> None: ...

    @abstractmethod
    def kernel(
        self, began: float, event: Any, name: str, args: Iterable[Any], flop_count: FlopCount | None = None
    ) -> None:
        """Takes a kernel; ``args`` are its arguments: tensors, arrays, Sizes, and others. ``flop_count`` is a replayed
        kernel's.
        """

    @abstractmethod
    def copy(self, began: float, event: Any, name: str, nbytes: int) -> None:
        """Takes a copy between the host and the device."""

    @abstractmethod
    def replay(self, began: float, launches: int) -> None:
        """Takes a recorded step, after each of its kernels."""


def _counted(
    target: CountsFlops, proceed: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    flops = FLOPS.get(name)
    if flops is None:
        return proceed(*args, **kwargs)
    count = target.flop_count = FlopCount()
    try:
        result = proceed(*args, **kwargs)
    finally:
        target.flop_count = None
    count.flops = flops(result, *args, **kwargs)
    return result


class LaunchRecord(NamedTuple):
    """The record of a launch that a replay reports to a profiler."""

    name: str
    args: tuple[Any, ...]
    flop_count: FlopCount | None = None


def launch_record(name: str, args: Iterable[Any]) -> LaunchRecord:
    """Returns the LaunchRecord of a kernel with ``args``, which are not kept."""
    return LaunchRecord(name, tuple(sizes(args)))


def sizes(args: Iterable[Any]) -> Iterator[Size]:
    """Yields the sizes of the tensors, arrays and buffers among ``args`` and in lists there; of a doubled one once,
    such as an operand that also stands for a missing one of an epilogue.
    """
    yield from _sizes(args, set())


def _sizes(args: Iterable[Any], seen: set[int]) -> Iterator[Size]:
    for arg in args:
        if isinstance(arg, Size):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _sizes(arg, seen)
        elif isinstance(arg, np.generic) or id(arg) in seen:
            continue
        elif hasattr(arg, "nbytes") and hasattr(arg, "shape"):
            seen.add(id(arg))
            yield Size(arg.shape, arg.nbytes)
        elif hasattr(arg, "int_ptr") and hasattr(arg, "size"):
            seen.add(id(arg))
            yield Size(None, arg.size)
