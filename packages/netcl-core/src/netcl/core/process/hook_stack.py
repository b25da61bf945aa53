"""The hooks of each thread: they see its calls of the op table, outermost first; a tracer also its writes in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Hook(Protocol):
    """``hook(next, row, args, kwargs)`` returns what the op gives, usually ``next(row, args, kwargs)``.

    If it has a method ``before_write(target, value)``, that is called before this thread writes into a tensor in place
    outside of the op table, with the tensor and a tensor of its new values. These are broadcast, and converted to its
    dtype. ``value`` is None if the values come from the host or if only the shape or the storage changes, ``target`` if
    expressions are computed, which may write into several.
    """

    def __call__(self, next: Callable[..., Any], row: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class Predictor(Protocol):
    """Predicts the calls of a loop: the first entry of a thread's hooks, with the rank ``PREDICTOR``, if it is active.
    It is called in place of a whole op or of an ``event``, before recorder and hooks, and not for what these call.
    """

    def call(self, row: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Returns the result of ``call_row``."""
        ...

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the result of an event."""
        ...

    @property
    def passed(self) -> bool:
        """True if a backward pass is among the calls so far."""
        ...

    def settle(self, cause: str, reads: bool = False) -> None:
        """Computes what was predicted and not computed; the calls that follow are computed at once. ``reads``: what
        follows changes nothing that calls depend on.
        """
        ...

    def flush(self) -> None:
        """Computes a period that is predicted to its end, before the program waits for the device."""
        ...


LAYERS = ("profiler", "autocast", "recorder", "tracer")
PREDICTOR = -1


class HooksOfThread(threading.local):
    """In one attribute, since each access to a thread's own takes a while: True if the running composite op is recorded
    (None inside of another op, which has warned if necessary), and the hooks with the ranks of their layers.
    """

    state: tuple[bool | None, tuple[tuple[int, Hook], ...]] = (False, ())

    @property
    def hooks(self) -> tuple[tuple[int, Hook], ...]:
        """The hooks of this thread with the ranks of their layers."""
        return self.state[1]


hooks_of_thread: HooksOfThread = HooksOfThread()


def push_hook(hook: Hook, layer: str = "profiler") -> Hook:
    """Puts ``hook`` on this thread's stack: outermost of its layer, profiler, autocast or tracer."""
    rank = LAYERS.index(layer)
    record, hooks = hooks_of_thread.state
    at = 0
    while at < len(hooks) and hooks[at][0] < rank:
        at += 1
    hooks_of_thread.state = record, (*hooks[:at], (rank, hook), *hooks[at:])
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; raises ValueError if it is not there."""
    record, hooks = hooks_of_thread.state
    for at, entry in enumerate(hooks):
        if entry[1] is hook:
            hooks_of_thread.state = record, (*hooks[:at], *hooks[at + 1 :])
            return
    raise ValueError("this hook is not on the stack of this thread")


def event(function: F) -> F:
    """Decorates a function outside of the op table that changes tensors or gradients: predictors see its calls."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hooks = hooks_of_thread.state[1]
        if hooks and hooks[0][0] == PREDICTOR:
            return hooks[0][1].run(function, args, kwargs)  # type: ignore[attr-defined]
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def is_passed() -> bool:
    """Returns True if this thread's calls are logged or predicted, and a backward pass is among them."""
    hooks = hooks_of_thread.state[1]
    return bool(hooks) and hooks[0][0] == PREDICTOR and hooks[0][1].passed  # type: ignore[attr-defined]


def settle(cause: str, reads: bool = False) -> None:
    """Computes what this thread has predicted, before work that predictors do not see; ``reads``: that only reads."""
    hooks = hooks_of_thread.state[1]
    if hooks and hooks[0][0] == PREDICTOR:
        hooks[0][1].settle(cause, reads)  # type: ignore[attr-defined]


def flush() -> None:
    """Computes a period that this thread has predicted to its end, before the program waits for the device."""
    hooks = hooks_of_thread.state[1]
    if hooks and hooks[0][0] == PREDICTOR:
        hooks[0][1].flush()  # type: ignore[attr-defined]


def before_write(target: Any = None, value: Any = None) -> None:
    """Tells the hooks that this thread is about to write ``value`` into ``target``: deferred work may read it."""
    for _, hook in hooks_of_thread.state[1]:
        told = getattr(hook, "before_write", None)
        if told is not None:
            told(target, value)


class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    def __init__(self) -> None:
        record, hooks = hooks_of_thread.state
        self._state = record, tuple([entry for entry in hooks if entry[0] != PREDICTOR])

    @contextmanager
    def active(self) -> Iterator[None]:
        """This snapshot's hooks in the current thread, for the duration of the block."""
        outer, hooks_of_thread.state = hooks_of_thread.state, self._state
        try:
            yield
        finally:
            hooks_of_thread.state = outer


def snapshot() -> Snapshot:
    """This thread's hooks, for a thread that netcl starts."""
    return Snapshot()
