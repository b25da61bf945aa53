"""Modes of a thread, such as the state of autocast: read, and set again elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["current", "register", "restored"]

_modes: list[tuple[Callable[[], Hashable], Any]] = []


def register(state: Callable[[], Hashable], scope: Any = None) -> Callable[[], Hashable]:
    """Registers ``state()``, which returns the mode of the calling thread, and the ``scope(value)`` that sets it."""
    _modes.append((state, scope))
    return state


def current() -> tuple[Hashable, ...]:
    """All registered modes of the calling thread."""
    return tuple(state() for state, _ in _modes)


@contextmanager
def restored(values: Sequence[Hashable]) -> Iterator[None]:
    """Inside, the modes that have a scope are as ``current()`` returned them; modes registered since are not in use."""
    padded = [*values, *(None,) * (len(_modes) - len(values))]
    with ExitStack() as stack:
        for (_, scope), value in zip(_modes, padded):
            if scope is not None:
                stack.enter_context(scope(value))
        yield
