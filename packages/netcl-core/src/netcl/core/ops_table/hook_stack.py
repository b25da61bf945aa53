"""The hooks of each thread: they see its calls of the op table, outermost first; a tracer also its writes in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from netcl.core.ops_table.table import OpRow

__all__ = ["LAYERS", "Hook", "Snapshot", "before_write", "hooks_of_thread", "pop_hook", "push_hook", "snapshot"]


class Hook(Protocol):
    """``hook(next, row, args, kwargs)`` returns what the op gives, usually ``next(row, args, kwargs)``.

    If it has a method ``before_write(target, value)``, that is called before this thread writes into a tensor in place
    outside of the op table, with the tensor and a tensor of its new values. These are broadcast, and converted to its
    dtype. ``value`` is None if the values come from the host or if only the shape or the storage changes, ``target`` if
    expressions are computed, which may write into several.
    """

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


LAYERS = ("profiler", "autocast", "recorder", "tracer")


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
    hooks_of_thread.state = record, tuple(sorted(((rank, hook), *hooks), key=lambda entry: entry[0]))
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; raises ValueError if it is not there."""
    record, hooks = hooks_of_thread.state
    rest = tuple(entry for entry in hooks if entry[1] is not hook)
    if len(rest) == len(hooks):
        raise ValueError("this hook is not on the stack of this thread")
    hooks_of_thread.state = record, rest


def before_write(target: Any = None, value: Any = None) -> None:
    """Tells the hooks that this thread is about to write ``value`` into ``target``: deferred work may read what is
    overwritten.
    """
    for _, hook in hooks_of_thread.state[1]:
        told = getattr(hook, "before_write", None)
        if told is not None:
            told(target, value)


class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    def __init__(self) -> None:
        self._state = hooks_of_thread.state

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
