"""States of a thread that change what an op does: whoever keeps one says here how to read it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

_states: list[Callable[[], Hashable]] = []


def register(state: Callable[[], Hashable]) -> Callable[[], Hashable]:
    """Has ``state()``, which gives what the calling thread is set to, taken into the key of captured steps."""
    _states.append(state)
    return state


def current() -> tuple[Hashable, ...]:
    """All registered states of the calling thread."""
    return tuple([state() for state in _states])


__all__ = ["current", "register"]
