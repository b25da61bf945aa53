"""Labels of launches: the layer and the op that each comes from, kept in a captured step for its profile.

Within ``labelled()`` the calls of a recording, and the launches made of them, have the label of the op that makes them.
Otherwise nothing is labelled, and a capture costs nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from netcl.core.graph.schedule import joined_label
from netcl.core.process.hook_stack import pop_hook, push_hook

__all__ = ["Labelled", "current", "label_launches", "label_merged", "labelled", "set_layer"]


class _State(threading.local):
    """A thread's state: the blocks that label, the running ops, and the layer."""

    def __init__(self) -> None:
        self.blocks: int = 0
        self.ops: list[str] = []
        self.layer: str = ""


_state = _State()


class Labelled(str):
    """The name of a kernel, with the label of its launch: ``op``."""

    op: str

    def __new__(cls, name: str, op: str) -> Labelled:
        made = super().__new__(cls, name)
        made.op = op
        return made


def set_layer(name: str) -> str:
    """Sets the layer that the next ops of this thread belong to; returns the one before."""
    before, _state.layer = _state.layer, name
    return before


def current() -> str:
    """Returns the label of the running op: ``"conv1: conv2d"``; "" outside of ``labelled()``."""
    if not _state.blocks:
        return ""
    return ": ".join(filter(None, (_state.layer, _state.ops[-1] if _state.ops else "")))


def _note(next: Callable[..., Any], row: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _state.ops.append(row.name)
    try:
        return next(row, args, kwargs)
    finally:
        _state.ops.pop()


@contextmanager
def labelled() -> Iterator[None]:
    """Labels the launches that this thread records within the block."""

    def note(next: Callable[..., Any], row: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _note(next, row, args, kwargs)

    _state.blocks += 1
    push_hook(note, "profiler")
    try:
        yield
    finally:
        pop_hook(note)
        _state.blocks -= 1


def label_launches(recording: Any, first: int, label: str, count: int | None = None) -> None:
    """Labels the launches of a recording from ``first`` on, all or ``count`` of them, that have no label."""
    if not label:
        return
    records = recording._records
    for at in range(first, len(records) if count is None else first + count):
        if records[at] is not None and not isinstance(records[at].name, Labelled):
            records[at] = records[at]._replace(name=Labelled(records[at].name, label))


def label_merged(recording: Any, before: Iterable[Any], begin: int = 0) -> None:
    """Labels the launches from ``begin`` on that replace several after ``recording.merge()``; ``before`` are the
    records of all that were there.

    A record has the sizes of its operands alone. A launch that is gone is counted to the smallest merged launch that
    could hold its largest operand; merged launches of one size have the labels of both.
    """
    records = recording._records
    before = list(before)
    there, held = set(map(id, records)), set(map(id, before))
    gone = [record for record in before if record is not None and id(record) not in there]
    merged = [at for at in range(begin, len(records)) if records[at] is not None and id(records[at]) not in held]
    sizes = sorted({_largest(records[at]) for at in merged})
    for size in sizes:
        parts = [part for part in gone if _largest(part) <= size or size == sizes[-1]]
        gone = [part for part in gone if part not in parts]
        for at in (at for at in merged if _largest(records[at]) == size):
            label_launches(recording, at, joined_label(getattr(part.name, "op", "") for part in parts), 1)


def _largest(record: Any) -> int:
    return max((size.nbytes for size in record.args), default=0)
