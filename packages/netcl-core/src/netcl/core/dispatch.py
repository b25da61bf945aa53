"""The op table and the one hook stack: every computation on tensors is a row here, and every call of it passes here.

Order of a call, outermost first: profiler, autocast, recorder, tracer, backend. The recorder is one for the process
(set by importing ``netcl.autograd``) and sees calls with ``record=True``; the others are pushed per thread. With no
hook pushed a call is one branch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from netcl.core.optable import TABLE, Domain, Operand, OpRow, by_own_names, make_row, register_op, row_of
from netcl.core.program import (
    Bound,
    Program,
    Space,
    assign,
    bind,
    bound,
    check_out,
    evaluate,
    program_row,
    set_shape,
)

__all__ = [
    "TABLE",
    "Bound",
    "Domain",
    "Hook",
    "OpRow",
    "Operand",
    "Program",
    "Snapshot",
    "Space",
    "assign",
    "bind",
    "bound",
    "call",
    "call_row",
    "evaluate",
    "execute",
    "make_row",
    "pop_hook",
    "program_row",
    "push_hook",
    "register_op",
    "row_of",
    "set_recorder",
    "set_shape",
    "set_watcher",
    "snapshot",
]


class Hook(Protocol):
    """``hook(next, row, args, kwargs)`` returns what the op gives, usually ``next(row, args, kwargs)``."""

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


_LAYERS = ("profiler", "autocast", "recorder", "tracer")
_recorder: Hook | None = None
_watcher: Callable[[OpRow, tuple[Any, ...], dict[str, Any]], None] | None = None


class _Thread(threading.local):
    hooks: tuple[tuple[int, Hook], ...] = ()
    record: bool = False


_thread = _Thread()


def call(name: str, *args: Any, record: bool | None = None, **kwargs: Any) -> Any:
    """Runs the op ``name``. ``record=None`` inherits from the composite op that is running (False outside of one)."""
    return call_row(TABLE.get(name) or row_of(name), args, kwargs, record)


def call_row(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None = None) -> Any:
    """Runs ``row`` through the hook stack."""
    if kwargs:
        kwargs = by_own_names(row, kwargs)
        if row.expression is None and "out" in kwargs and "out" not in row.signature.parameters:
            return _call_into(row, args, kwargs, record)
    if record is None:
        record = _thread.record
        if _watcher is not None and not record:
            _watcher(row, args, kwargs)
    if row.composite is not None:
        outer, _thread.record = _thread.record, record
        try:
            return row.composite(*args, **kwargs)
        finally:
            _thread.record = outer
    hooks = _thread.hooks
    if not hooks:
        if record and _recorder is not None:
            return _recorder(execute, row, args, kwargs)
        return execute(row, args, kwargs)
    return _through(hooks, record, row, args, kwargs)


def _call_into(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
    """The op with ``out=`` where it is no expression: computed, then copied into ``out``."""
    out = kwargs["out"]
    result = call_row(row, args, {name: value for name, value in kwargs.items() if name != "out"}, record)
    if out is None:
        return result
    if not isinstance(result, Operand):
        raise TypeError(f"{row.name}: out= is for ops with one result")
    check_out(row.name, out, result.shape, result.dtype, result.engine)
    assign(out, result)
    return out


def _through(
    hooks: tuple[tuple[int, Hook], ...], record: bool, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    stack = [hook for layer, hook in hooks if layer < 2]
    if record and _recorder is not None:
        stack.append(_recorder)
    stack.extend(hook for layer, hook in hooks if layer > 2)

    def run(at: int) -> Callable[..., Any]:
        if at == len(stack):
            return execute
        return lambda row, args, kwargs: stack[at](run(at + 1), row, args, kwargs)

    return run(0)(row, args, kwargs)


def set_recorder(hook: Hook | None) -> Hook | None:
    """Makes ``hook`` the process's recorder and returns the one before; netcl.autograd calls this once."""
    global _recorder
    previous, _recorder = _recorder, hook
    return previous


def set_watcher(watcher: Callable[[OpRow, tuple[Any, ...], dict[str, Any]], None] | None) -> None:
    """Shows ``watcher(row, args, kwargs)`` every call that is not recorded, as from ``netcl.ops``; None: no more."""
    global _watcher
    _watcher = watcher


def push_hook(hook: Hook, layer: str = "profiler") -> Hook:
    """Puts ``hook`` on this thread's stack: outermost of its layer, profiler, autocast or tracer."""
    rank = _LAYERS.index(layer)
    _thread.hooks = tuple(sorted(((rank, hook), *_thread.hooks), key=lambda entry: entry[0]))
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; ValueError where it is not there."""
    rest = [entry for entry in _thread.hooks if entry[1] is not hook]
    if len(rest) == len(_thread.hooks):
        raise ValueError("this hook is not on the stack of this thread")
    _thread.hooks = tuple(rest)


class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    def __init__(self) -> None:
        self._hooks, self._record = _thread.hooks, _thread.record

    @contextmanager
    def active(self) -> Iterator[None]:
        """This snapshot's hooks in the current thread, for the duration of the block."""
        outer = _thread.hooks, _thread.record
        _thread.hooks, _thread.record = self._hooks, self._record
        try:
            yield
        finally:
            _thread.hooks, _thread.record = outer


def snapshot() -> Snapshot:
    """This thread's hooks, for a thread that netcl starts."""
    return Snapshot()


def execute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The innermost of the stack: computes the op, on plain tensors, and records nothing."""
    if row.expression is None:
        return _compute(row, args, kwargs)
    out = kwargs.pop("out", None) if "out" in kwargs else None
    ready = bound(row, args, kwargs)
    if out is not None:
        check_out(row.name, out, ready.program.finals[0], ready.program.outputs[0].dtype, ready.inputs[0].engine)
    results = ready.run(None if out is None else (out,))
    return results[0] if ready.program.single else results


def _compute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the function of a computed row; nothing inside of it is recorded, as the row itself has been."""
    assert row.call is not None
    if not _thread.record:
        return row.call(*args, **kwargs)
    _thread.record = False
    try:
        return row.call(*args, **kwargs)
    finally:
        _thread.record = True
