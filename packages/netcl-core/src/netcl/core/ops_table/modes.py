"""Registry of thread-local modes that change what an op does; they are part of the key of captured steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import zip_longest
from typing import Any

Scope = Callable[[Any], AbstractContextManager[Any]]

_states: list[Callable[[], Hashable]] = []
_scopes: list[Scope | None] = []


def register(state: Callable[[], Hashable], scope: Scope | None = None) -> Callable[[], Hashable]:
    """Registers ``state()``, which returns the mode of the calling thread.

    ``scope(value)`` is a context manager; ``state()`` returns ``value`` inside. None is the value of a mode that is not
    in use. A mode without a scope is not restored by ``restored``.
    """
    _states.append(state)
    _scopes.append(scope)
    return state


def current() -> tuple[Hashable, ...]:
    """Returns the registered modes of the calling thread, without the last ones that are not in use: so it stays the
    same if a package that is imported later registers one.
    """
    values = [state() for state in _states]
    while values and values[-1] is None:
        values.pop()
    return tuple(values)


@contextmanager
def restored(values: Sequence[Hashable]) -> Iterator[None]:
    """Sets the modes with a scope inside the block to ``values`` of ``current()``; later ones are not in use."""
    with ExitStack() as stack:
        for scope, value in zip_longest(_scopes, values):
            if scope is not None:
                stack.enter_context(scope(value))
        yield
