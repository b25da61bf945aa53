"""The switches of recording, by thread."""

from __future__ import annotations

import functools
import threading
from typing import Any, Protocol

__all__ = [
    "Nodes", "Switch", "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "set_grad_enabled", "state",
]  # fmt: skip


class Nodes(Protocol):
    """A tape, as the recorder sees it: recorded tensors are appended to ``nodes``."""

    nodes: list[Any]


class _State(threading.local):
    enabled: bool = True
    anomaly: bool = False
    inference: bool = False
    tape: Nodes | None = None
    trace: Any = None


state = _State()


class Switch:
    """Sets one flag of ``state`` for a ``with`` block or a decorated function, in the calling thread."""

    flag = "enabled"

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before: list[bool] = []

    def wanted(self) -> bool:
        """The value of the flag inside of the block."""
        return self.mode

    def __enter__(self) -> Any:
        self._before.append(getattr(state, self.flag))
        setattr(state, self.flag, self.wanted())
        return self

    def __exit__(self, *error: Any) -> None:
        setattr(state, self.flag, self._before.pop())

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.mode):
                return function(*args, **kwargs)

        return called


class enable_grad(Switch):
    """Ops are recorded inside, also within ``no_grad``."""

    value = True

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)

    def wanted(self) -> bool:
        return self.value if self.mode else state.enabled


class no_grad(enable_grad):
    """Nothing is recorded inside; ``no_grad(False)`` changes nothing."""

    value = False


class inference_mode(no_grad):
    """``no_grad`` under PyTorch's other name; its results are ordinary tensors."""

    def __enter__(self) -> Any:
        self._inference = state.inference
        state.inference = self.mode or self._inference
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        state.inference = self._inference
        super().__exit__(*error)


class set_grad_enabled(Switch):
    """Turns recording on or off at once; as a context manager or a decorator, for its extent only."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._outer = state.enabled
        state.enabled = mode

    def __enter__(self) -> Any:
        self._before.append(self._outer)
        state.enabled = self.mode
        return self

    def __call__(self, function: Any) -> Any:
        state.enabled = self._outer
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """True if ops on tensors that require grad are recorded in this thread."""
    return state.enabled


def is_inference_mode_enabled() -> bool:
    """True within ``inference_mode``."""
    return state.inference


def is_anomaly_enabled() -> bool:
    """True while anomalies are detected."""
    return state.anomaly


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns the detection of anomalies, which are NaN and infinities, on or off."""
    if mode and not check_nan:
        raise ValueError("set_anomaly_enabled: NaN and infinities are what is detected; leave check_nan out")
    state.anomaly = bool(mode)
