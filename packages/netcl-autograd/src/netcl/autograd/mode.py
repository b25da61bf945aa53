"""The state of recording in this thread: the grad mode, the current tape, and anomaly detection."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from netcl.core.ops_table import modes

if TYPE_CHECKING:
    from types import TracebackType

F = TypeVar("F", bound=Callable[..., Any])


class Nodes(Protocol):
    """A tape, as the recorder sees it: recorded tensors are appended to ``nodes``."""

    nodes: list[Any]


class _State(threading.local):
    enabled: bool = True
    tape: Nodes | None = None
    anomaly: bool = False
    trace: Any = None  # of the jitted function that is running


state = _State()
modes.register(lambda: state.enabled)


class _Switch:
    """Sets one flag of ``state`` for a ``with`` block or a decorated function, in the calling thread."""

    flag = "enabled"

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._outer: list[bool] = []

    def __enter__(self) -> None:
        self._outer.append(getattr(state, self.flag))
        setattr(state, self.flag, self.mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        setattr(state, self.flag, self._outer.pop())

    def __call__(self, function: F) -> F:
        mode, make = self.mode, _Switch if type(self) is not detect_anomaly else detect_anomaly

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with make(mode):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Switch):
    """Nothing is recorded inside: ``with no_grad():`` or ``@no_grad()``. ``no_grad(False)`` changes nothing."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(state.enabled and not enabled)


class enable_grad(_Switch):
    """Ops are recorded inside, also within ``no_grad``."""

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(_Switch):
    """Turns recording on or off at once; as a context manager or a decorator, for its extent only."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._before = state.enabled
        state.enabled = self.mode

    def __enter__(self) -> None:
        self._outer.append(self._before)
        state.enabled = self.mode

    def __call__(self, function: F) -> F:
        state.enabled = self._before
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Returns True if ops on tensors that require grad are recorded in this thread."""
    return state.enabled


class detect_anomaly(_Switch):
    """Inside, each op stores the line that called it, and a backward pass that finds NaN or Inf raises NonFiniteError
    with both.

    Each gradient is read on the host, so this is for debugging.
    """

    flag = "anomaly"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


def set_detect_anomaly(mode: bool) -> None:
    """Turns anomaly detection on or off in this thread."""
    state.anomaly = bool(mode)
