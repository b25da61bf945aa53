"""What is known of the queues in use: which there are, what was launched on them last, whose device is lost, and
whether they are this process's.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any

from netcl.core.errors import DeviceLostError, ForkedProcessError

__all__ = [
    "ContextState",
    "LaunchLog",
    "check_lost",
    "check_process",
    "forked_error",
    "is_lost",
    "log_of",
    "lose",
    "mark_forked",
    "names_in",
    "queues_of",
    "register_queue",
    "settle",
    "state_of",
]

_LOGGED = 256

# CL_DEVICE_NOT_AVAILABLE; CL_INVALID_COMMAND_QUEUE, which for a queue that is held means that its context died; -9999,
# NVIDIA's code for a device that faulted.
_LOST = (-2, -36, -9999)

# What launches append to: the name of a kernel, or the names of all kernels of a replay.
LaunchLog = deque["str | tuple[str, ...]"]


class ContextState:
    """A context's registered queues, and why its device is lost (None: it is not)."""

    __slots__ = ("lost", "queues")

    def __init__(self) -> None:
        self.lost: str | None = None
        self.queues: tuple[Any, ...] = ()

    def check(self) -> None:
        """DeviceLostError once the device is lost."""
        if self.lost is not None:
            raise DeviceLostError(self.lost)


_lock = threading.Lock()
# By the driver's handles: pyopencl makes a new Python object each time it is asked for one. What is registered here is
# held, so its number is not given to another.
_states: dict[int, tuple[Any, ContextState]] = {}
_logs: dict[int, tuple[Any, LaunchLog]] = {}


# True in a child that was forked after a queue was registered. Read as ``queue_state.forked`` before OpenCL calls.
forked: bool = False


def mark_forked() -> None:
    """Say that this process is a child whose queues are its parent's."""
    global forked
    forked = True


def check_process() -> None:
    """ForkedProcessError where this process was forked from one that used OpenCL."""
    if forked:
        raise forked_error()


def forked_error() -> ForkedProcessError:
    return ForkedProcessError(
        "this process was forked from one that already used OpenCL, whose devices it cannot use: "
        "start processes by spawn or forkserver, or fork before the first use of a device"
    )


def state_of(context: Any) -> ContextState:
    """The state of a cl.Context, the same object each time."""
    with _lock:
        return _states.setdefault(context.int_ptr, (context, ContextState()))[1]


def log_of(queue: Any) -> LaunchLog:
    """The newest launches on a queue that no wait has seen the end of."""
    with _lock:
        return _logs.setdefault(queue.int_ptr, (queue, deque(maxlen=_LOGGED)))[1]


def register_queue(queue: Any) -> None:
    """Add a queue to those whose work a buffer of the context may still be used by."""
    state = state_of(queue.context)
    with _lock:
        if all(other.int_ptr != queue.int_ptr for other in state.queues):
            state.queues = (*state.queues, queue)


def queues_of(context: Any) -> tuple[Any, ...]:
    """The registered queues of a context."""
    known = _states.get(context.int_ptr)
    return () if known is None else known[1].queues


def check_lost(context: Any) -> None:
    """DeviceLostError once the device of the context is lost."""
    known = _states.get(context.int_ptr)
    if known is not None:
        known[1].check()


def is_lost(error: Any) -> bool:
    """Whether a cl.Error says that the device is gone."""
    return error.code in _LOST


def lose(context: Any, what: str, error: Any) -> DeviceLostError:
    """The DeviceLostError for an error met in ``what``; from now on the state of the context has it too."""
    state = state_of(context)
    if state.lost is None:
        devices = ", ".join(
            f"{str(device.name).strip()} ({str(device.platform.name).strip()})" for device in context.devices
        )
        state.lost = (
            f"{devices} is lost since {what}: {error}. Its tensors are gone; save what the host has copies of, and "
            "start a new process"
        )
    return DeviceLostError(state.lost)


def settle(log: LaunchLog, count: int) -> None:
    """Forget the oldest ``count`` launches: a wait has seen their end."""
    if len(log) <= count:
        log.clear()
        return
    with contextlib.suppress(IndexError):  # another thread has waited too, and was faster
        for _ in range(count):
            log.popleft()


def names_in(log: LaunchLog) -> list[str]:
    """The names of the kernels in a log, each once, the oldest first."""
    names: dict[str, None] = {}
    for entry in list(log):
        names.update(dict.fromkeys((entry,) if isinstance(entry, str) else entry))
    return list(names)
