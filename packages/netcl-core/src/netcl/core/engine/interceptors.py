"""The one ordered list of interceptors of engine calls.

An engine keeps its interceptors in ``engine.interceptors``, outermost first. A computing call of the engine asks
``engine.intercepting``, one branch, and calls its kernel module if that is False; else the call passes the entries in
order. The order, by ``Layer``:

* call log: a captured step writes the call down, a traced function in place of running it;
* FLOP count: the floating-point operations are told to a profiler or to a recording;
* fallback: a call with a kernel that does not build is computed by a plainer kernel; while launches wait for their
  programs, calls are noted for that.

``intercepting`` is False if all entries are idle, as the fallback is until a kernel has failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Any, ClassVar

from netcl.core.errors import KernelBuildError
from netcl.core.process import late_launches
from netcl.core.storage.data import TensorData


class Layer(IntEnum):
    """The order of interceptors, outermost first."""

    CALL_LOG = 0
    FLOP_COUNT = 1
    FALLBACK = 2


def tensors_in(value: Any, kinds: type | tuple[type, ...] = TensorData) -> Iterator[Any]:
    """Yields the tensors, or the values of other ``kinds``, in nested lists, tuples and dicts."""
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item, kinds)


class Interceptor:
    """An entry of the list: called in place of the engine's call ``name``.

    ``proceed(*args, **kwargs)`` is the rest of the list and then the kernel module. The positional parameters of the
    call are in ``args``, its keyword-only ones in ``kwargs``, all of them with their defaults.
    """

    layer: ClassVar[Layer]
    thread: int | None = None  # the thread with calls to intercept; None for all threads
    idle: bool = False  # True while it only proceeds
    sees_launches: ClassVar[bool] = False  # True for a ProfilerSink

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Returns the result of the call; an entry that does not override this only proceeds."""
        return proceed(*args, **kwargs)

    def recovers(self, engine: Any, error: KernelBuildError, name: str, args: tuple[Any, ...]) -> bool:
        """Returns True if it computes the call ``name`` from now on without the kernel that failed with ``error``."""
        return False


_lock = threading.RLock()


def push_interceptor(engine: Any, entry: Interceptor) -> None:
    """Puts ``entry`` in the list of ``engine``: outermost of its layer."""
    if entry.sees_launches:
        late_launches.enqueue()  # what it sees comes after

    def pushed(entries: tuple[Interceptor, ...]) -> tuple[Interceptor, ...]:
        at = 0
        while at < len(entries) and entries[at].layer < entry.layer:
            at += 1
        return (*entries[:at], entry, *entries[at:])

    _change(engine, pushed)


def pop_interceptor(engine: Any, entry: Interceptor) -> None:
    """Takes ``entry`` off the list of ``engine``; raises ValueError if it is not there."""

    def popped(entries: tuple[Interceptor, ...]) -> tuple[Interceptor, ...]:
        rest = tuple([other for other in entries if other is not entry])
        if len(rest) == len(entries):
            raise ValueError("this interceptor is not in the list of the engine")
        return rest

    _change(engine, popped)


def refresh(engine: Any) -> None:
    """Looks again at which interceptors of ``engine`` are idle, as one of them has changed."""
    _change(engine, lambda entries: (*entries,))


def _change(engine: Any, change: Callable[[tuple[Interceptor, ...]], tuple[Interceptor, ...]]) -> None:
    """Replaces the list of ``engine`` by ``change`` of it."""
    with _lock:
        while True:
            before = engine.interceptors
            entries, sink, intercepting = change(before), None, False
            for entry in entries:
                if not entry.idle:
                    intercepting = True
                    if entry.sees_launches and sink is None:
                        sink = entry
            if engine.interceptors is before:  # no signal handler has changed it in the middle
                engine.interceptors, engine.intercepting, engine.sink = entries, intercepting, sink
                return


class interception:
    """A ``with`` block with ``entries`` in the list of ``engine``."""

    def __init__(self, engine: Any, *entries: Interceptor) -> None:
        self._engine, self._entries = engine, entries

    def __enter__(self) -> None:
        for entry in self._entries:
            push_interceptor(self._engine, entry)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for entry in self._entries:
            pop_interceptor(self._engine, entry)


def intercepted(engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the engine's call ``name`` by way of its interceptors."""
    thread = get_ident()
    proceed: Callable[..., Any] = partial(engine.kernel(name), engine)
    for entry in reversed(engine.interceptors):
        if entry.thread is None or entry.thread == thread:
            proceed = partial(_enter, entry, proceed, engine, name)
    return proceed(*args, **kwargs)


def _enter(
    entry: Interceptor, proceed: Callable[..., Any], engine: Any, name: str, /, *args: Any, **kwargs: Any
) -> Any:
    return entry(proceed, engine, name, args, kwargs)


def recovered(engine: Any, error: KernelBuildError, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the call ``name`` after its kernel failed with ``error``, by way of the interceptor that recovers it;
    raises ``error`` if there is none.
    """
    for entry in engine.interceptors:
        if entry.recovers(engine, error, name, args):
            refresh(engine)
            return intercepted(engine, name, args, kwargs)
    raise error
