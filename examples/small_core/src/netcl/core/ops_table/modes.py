"""Modes of a thread, such as autocast's, that a jitted or captured function depends on."""

from contextlib import ExitStack, contextmanager

_modes = []


def register(state, scope=None):
    """Registers ``state()``, the mode of the calling thread, and the context manager that sets it."""
    _modes.append((state, scope))
    return state


def current():
    """All modes of the calling thread."""
    return tuple(state() for state, _ in _modes)


@contextmanager
def restored(values):
    """Inside, the modes that have a scope are as ``current()`` returned them."""
    with ExitStack() as stack:
        for (_, scope), value in zip(_modes, values):
            if scope is not None:
                stack.enter_context(scope(value))
        yield
