"""The state of recording in each thread, and the switches that turn it on and off.

netcl.autograd reads it: its recorder records an op if ``state.enabled``. On netcl-core alone nothing is recorded, and
the switches set the flag.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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
    inference: bool = False
    trace: Any = None  # of the jitted function that is running
    packs: bool = False  # are saved tensors packed by hooks of the program?


state: _State = _State()


@contextmanager
def plain_recording() -> Iterator[None]:
    """A block in which ops of this thread do no more than to record a graph, whatever blocks of the program are open;
    ``state.enabled`` may change in it.
    """
    outer = dict(vars(state))
    vars(state).clear()
    try:
        yield
    finally:
        vars(state).clear()
        vars(state).update(outer)


class Switch:
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
        make = functools.partial(_Flag, self.flag, self.mode)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with make():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class _Flag(Switch):
    """One use of a switch around one call of a decorated function, which may call itself."""

    def __init__(self, flag: str, mode: bool) -> None:
        super().__init__(mode)
        self.flag = flag


class no_grad(Switch):
    """Nothing is recorded inside: ``with no_grad():``, ``@no_grad()`` or ``@no_grad``. ``no_grad(False)`` changes
    nothing.
    """

    def __new__(cls, enabled: Any = True) -> Any:
        return cls()(enabled) if callable(enabled) else super().__new__(cls)

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(state.enabled and not enabled)


class inference_mode(no_grad):
    """``no_grad`` under PyTorch's other name. Its results are ordinary tensors: they may enter a graph later."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)
        self._inference = bool(mode)
        self._around: list[bool] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._around.append(state.inference)
        state.inference = self._inference

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.inference = self._around.pop()
        super().__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        mode = self._inference

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with inference_mode(mode):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class enable_grad(Switch):
    """Ops are recorded inside, in ``no_grad`` too: ``with enable_grad():``, ``@enable_grad()`` or ``@enable_grad``."""

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(Switch):
    """Turns recording on or off at once; as a context manager or a decorator, for its extent only."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: expected a bool, got {type(mode).__name__}")
        super().__init__(mode)
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


def is_inference_mode_enabled() -> bool:
    """Returns True inside of ``inference_mode`` in this thread."""
    return state.inference


def is_anomaly_enabled() -> bool:
    """Returns True while anomalies are detected in this thread."""
    return state.anomaly


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns the detection of anomalies on or off in this thread: ``autograd.set_detect_anomaly``. Raises ValueError for
    ``check_nan=False``, as NaN is what is detected.
    """
    if mode and not check_nan:
        raise ValueError("set_anomaly_enabled: NaN and infinities are what is detected; leave check_nan out")
    state.anomaly = bool(mode)
