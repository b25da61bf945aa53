"""The switches of recording, one state for each thread."""

import threading
from contextlib import ContextDecorator
from functools import partial


class _State(threading.local):
    enabled, anomaly, tape, trace = True, False, None, None


state = _State()


class Nodes:
    """A tape, as the recorder sees it: it appends recorded tensors to ``nodes``."""

    def __init__(self):
        self.nodes = []


class Switch(ContextDecorator):
    """Sets ``state.enabled`` for a ``with`` block or a decorated function."""

    def __init__(self, mode):
        self.mode, self.before = mode, []

    def __enter__(self):
        self.before.append(state.enabled)
        state.enabled = self.mode

    def __exit__(self, *error):
        state.enabled = self.before.pop()


# Nothing is recorded inside, or ops are: ``with no_grad():``, ``@no_grad()``.
no_grad = inference_mode = partial(Switch, False)
enable_grad = partial(Switch, True)


class set_grad_enabled(Switch):
    """Turns recording on or off at once, or for the extent of a block."""

    def __init__(self, mode):
        super().__init__(mode)
        self.outside, state.enabled = state.enabled, mode

    def __exit__(self, *error):
        state.enabled = self.outside


def is_grad_enabled():
    """True if ops are recorded in this thread."""
    return state.enabled
