"""Per-queue state: registered queues, launch log, lost devices, fork detection."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any

from netcl.core import config
from netcl.core.errors import DeviceError, DeviceLostError, ForkedProcessError

_LOGGED = 256

# CL_DEVICE_NOT_AVAILABLE; CL_INVALID_COMMAND_QUEUE, which for a live queue means that its context died; -9999, NVIDIA's
# code for a device that faulted.
_LOST = (-2, -36, -9999)
# CL_OUT_OF_RESOURCES: a fault of a kernel, or too much local memory; of an allocation, that there is no room.
_FAULTS = (*_LOST, -5)

# Each launch appends the name of a kernel, each replay the names of all its kernels.
LaunchLog = deque["str | tuple[str, ...]"]


class ContextState:
    """The registered queues of a context, and why its device is lost (None: it is not)."""

    __slots__ = ("lost", "queues")

    def __init__(self) -> None:
        self.lost: str | None = None
        self.queues: tuple[Any, ...] = ()

    def check(self) -> None:
        """Raises DeviceLostError if the device is lost."""
        if self.lost is not None:
            raise DeviceLostError(self.lost)


_lock = threading.RLock()
# By the driver's handles: pyopencl makes a new Python object at each request. The registry keeps a reference, so that
# the driver does not reuse the number.
_states: dict[int, tuple[Any, ContextState]] = {}
_logs: dict[int, tuple[Any, LaunchLog]] = {}


# True in a child that was forked after a queue was registered, and at the end of a process.
forked: bool = False
ending: bool = False
# True if either is. Read as ``health.closed`` before OpenCL calls.
closed: bool = False


def mark_forked() -> None:
    """Marks this process as a child; its queues belong to the parent."""
    global forked, closed
    forked = closed = True


def mark_ending() -> None:
    """Marks the process as one that ends: threads other than the main thread make no more OpenCL calls."""
    global ending, closed
    ending = closed = True


def check_process() -> None:
    """Raises ForkedProcessError if this process was forked from one that used OpenCL.

    At the end of the process raises SystemExit in a daemon thread: Python ends such a thread with pthread_exit when it
    comes back from a call, which C++ frames on its stack turn into an abort.
    """
    if forked:
        raise forked_error()
    if ending and threading.current_thread() is not threading.main_thread():
        raise SystemExit


def forked_error() -> ForkedProcessError:
    return ForkedProcessError(
        "this process was forked from one that already used OpenCL, so it cannot use the devices: "
        "start processes by spawn or forkserver, or fork before the first use of a device"
    )


def state_of(context: Any) -> ContextState:
    """Returns the state of a cl.Context, the same object each time."""
    with _lock:
        return _states.setdefault(context.int_ptr, (context, ContextState()))[1]


def launch_log(queue: Any) -> LaunchLog:
    """Returns the log of the newest launches on a queue that no wait has confirmed as finished."""
    with _lock:
        return _logs.setdefault(queue.int_ptr, (queue, deque(maxlen=_LOGGED)))[1]


def register_queue(queue: Any) -> None:
    """Registers a queue of the context: its pending work may use any buffer of it."""
    state = state_of(queue.context)
    with _lock:
        if all(other.int_ptr != queue.int_ptr for other in state.queues):
            state.queues = (*state.queues, queue)


def queues_of(context: Any) -> tuple[Any, ...]:
    """Returns the registered queues of a context."""
    entry = _states.get(context.int_ptr)
    return () if entry is None else entry[1].queues


def check_lost(context: Any) -> None:
    """Raises DeviceLostError if the device of the context is lost."""
    entry = _states.get(context.int_ptr)
    if entry is not None:
        entry[1].check()


def is_lost(error: Any) -> bool:
    """True if a cl.Error says that the device is lost."""
    return error.code in _LOST


def is_fault(error: Any) -> bool:
    """True if a cl.Error, of a call without allocation, says that a launch failed or the device is lost."""
    return error.code in _FAULTS


def fault(context: Any, what: str, error: Any) -> DeviceError:
    """Returns the DeviceError for an ``is_fault`` error of a call that allocates nothing; ``what`` names the call."""
    if is_lost(error):
        return mark_lost(context, what, error)
    return DeviceError(
        f"{_names(context)}: {what} failed: {error}. The device reported a fault, or a kernel needs more local memory "
        f"or registers than there are{_in_flight(context)}"
    )


def mark_lost(context: Any, what: str, error: Any) -> DeviceLostError:
    """Marks the context's device as lost, returns the DeviceLostError to raise; ``what`` names the failed action."""
    state = state_of(context)
    if state.lost is None:
        state.lost = (
            f"{_names(context)} is lost since {what}: {error}. Its tensors are gone; save what the host has copies of, "
            f"and start a new process{_in_flight(context)}"
        )
    return DeviceLostError(state.lost)


def _names(context: Any) -> str:
    devices = [(str(device.name).strip(), str(device.platform.name).strip()) for device in context.devices]
    return ", ".join(f"{device} ({platform})" for device, platform in devices)


def _in_flight(context: Any) -> str:
    """Returns the end of a message about a fault: kernels that no wait has confirmed, how to find the faulty one."""
    if config.get("SYNC"):  # the call that failed names it
        return ""
    names = [name for queue in queues_of(context) for name in kernel_names(launch_log(queue))]
    kernels = f". Kernels in flight: {', '.join(dict.fromkeys(names))}" if names else ""
    return f"{kernels}. Set NETCL_SYNC=1 to find the launch"


def forget_launches(log: LaunchLog, count: int) -> None:
    """Removes the oldest ``count`` launches from the log: a wait has confirmed that they finished."""
    if len(log) <= count:
        log.clear()
        return
    with contextlib.suppress(IndexError):  # another thread waited too and was faster
        for _ in range(count):
            log.popleft()


def kernel_names(log: LaunchLog) -> list[str]:
    """Returns the names of the kernels in a log, each once, the oldest first."""
    names: dict[str, None] = {}
    for entry in list(log):
        names.update(dict.fromkeys((entry,) if isinstance(entry, str) else entry))
    return list(names)
