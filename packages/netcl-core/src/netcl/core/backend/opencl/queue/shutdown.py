"""Finishes queues at exit, serves Ctrl-C while a kernel hangs, makes waits interruptible, and handles forks.

API for the engine::

    register_queue_for_cleanup(queue)      finished at exit and drained on SIGINT; held until the process ends
    run_at_exit(callback)                  called at exit after all queues have finished
    install_sigint_handler() -> bool       at the first OpenCLBackend; main thread only, NETCL_SIGINT=0: never
    interruptible_finish(queue, timeout)   queue.finish() that SIGINT can interrupt; DeviceTimeoutError past timeout
    wait_for(event)                        event.wait() that SIGINT can interrupt; short waits cost no thread
    check_process()                        ForkedProcessError in a child forked after a queue was registered

Python runs a signal handler only between its own instructions, in the main thread: a main thread blocked inside the
driver serves no Ctrl-C. But Python's C handler writes to the wakeup descriptor at once, and a watching thread reads it
and keeps the 3 s of grace. So waits block in the driver, which costs nothing: Intel's runtime works inside the wait,
and polling an event instead costs it 200 microseconds. If another library holds the descriptor, and on Windows, since
it is a socket there, waits of the main thread block in a worker thread instead.

A fork copies the driver's state but not its threads: an OpenCL call in the child can hang or harm the parent's device.
So the child makes none, not even the releases of objects that it drops: ``_before_fork`` collects the live buffers and
queues, ``_after_fork_in_child`` raises their reference counts for good.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import gc
import os
import queue as queues
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from netcl.core import config
from netcl.core.backend.opencl.queue import watchdog
from netcl.core.device import health
from netcl.core.device.health import (
    check_lost,
    fault,
    forget_launches,
    is_fault,
    launch_log,
    mark_forked,
    register_queue,
)
from netcl.core.device.health import check_process as check_process
from netcl.core.errors import DeviceLostError, DeviceTimeoutError
from netcl.core.memory.out_of_memory import live_buffers
from netcl.core.process.opencl import cl

GRACE_S = 3.0
_POLL_S = 0.01
_SPIN_S = 100e-6
_EXIT_S = 60.0  # for the calls of daemon threads at exit, which may build kernels on a loaded machine
_EXIT_SIGINT = 130
# Packages with functions that core modules and pyopencl call on the way into the driver. Packages in _WAITING may also
# wait for something else; check_process then keeps the thread out of the driver after the wait.
_HELPERS = sys.stdlib_module_names | {"numpy", "pytools", "platformdirs"}
_WAITING = frozenset(
    ("asyncio", "concurrent", "multiprocessing", "queue", "select", "selectors", "socket", "subprocess", "threading")
)

_queues: dict[int, Any] = {}
_exit_callbacks: list[Callable[[], object]] = []
_snapshot: list[Any] = []


def register_queue_for_cleanup(queue: Any) -> None:
    """Registers ``queue`` to be finished at exit, and drained before a SIGINT is passed on."""
    check_process()
    if not _queues:
        atexit.register(_finish_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_before_fork, after_in_parent=_snapshot.clear, after_in_child=_after_fork_in_child
            )
    _queues[queue.int_ptr] = queue
    register_queue(queue)


def run_at_exit(callback: Callable[[], object]) -> None:
    """Registers ``callback()`` to be called at exit, after every registered queue has finished."""
    _exit_callbacks.append(callback)


def _finish_at_exit() -> None:
    if health.forked:
        return
    health.mark_ending()
    _await_threads()
    for queue in list(_queues.values()):
        with contextlib.suppress(cl.Error, DeviceLostError):  # a lost device has nothing left to finish
            interruptible_finish(queue, None)
    _end_driver_threads()
    for callback in _exit_callbacks:
        callback()


def _await_threads() -> None:
    """Waits until no daemon thread of the user is inside the driver; from now on none enters it (``check_process``)."""
    deadline = time.monotonic() + _EXIT_S
    allowed = {thread.ident for thread in threading.enumerate() if thread.name.startswith("netcl-")}
    allowed.add(threading.get_ident())
    while any(_in_driver(frame) for ident, frame in sys._current_frames().items() if ident not in allowed):
        if time.monotonic() >= deadline:
            return
        time.sleep(0.001)


def _in_driver(frame: FrameType | None) -> bool:
    """True if a thread with this frame may be in an OpenCL call or about to enter one."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(("netcl.core.", "pyopencl")):
            return True
        package = module.partition(".")[0]
        if package in _WAITING or package not in _HELPERS:
            return False
        frame = frame.f_back
    return False


def _end_driver_threads() -> None:
    """Keeps this module's threads out of the driver from now on. Python ends a thread that returns during interpreter
    shutdown with pthread_exit; C++ frames on its stack turn this into an abort of the process.
    """
    global _ended
    with _drain_lock:
        _ended = True
    for lock in _drains:
        lock.acquire()
        lock.release()
    for outcome in list(_Waiter.busy):
        outcome.finished.wait()


class _Waiter:
    """A daemon thread that makes one blocking call at a time, and is idle between them."""

    idle: deque[_Waiter] = deque()
    busy: set[_Outcome] = set()

    def __init__(self) -> None:
        self._calls: queues.SimpleQueue[tuple[Callable[[], object], _Outcome]] = queues.SimpleQueue()
        threading.Thread(target=self._serve, name="netcl-waiter", daemon=True).start()

    @classmethod
    def take(cls) -> _Waiter:
        try:
            return cls.idle.pop()
        except IndexError:
            return cls()

    def start(self, call: Callable[[], object]) -> _Outcome:
        outcome = _Outcome()
        _Waiter.busy.add(outcome)
        self._calls.put((call, outcome))
        return outcome

    def _serve(self) -> None:
        while True:
            call, outcome = self._calls.get()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                outcome.error = error
            _Waiter.idle.append(self)
            _Waiter.busy.discard(outcome)
            outcome.finished.set()
            del call, outcome


class _Outcome:
    def __init__(self) -> None:
        self.finished = threading.Event()
        self.error: BaseException | None = None


def _call_interruptibly(call: Callable[[], object], timeout: float | None) -> bool:
    """Runs ``call`` in a waiter; returns False if it still runs after ``timeout`` seconds. Its error is raised here."""
    try:
        outcome = _Waiter.take().start(call)
    except RuntimeError:  # the interpreter shuts down and starts no more threads
        call()
        return True
    deadline = time.monotonic() + timeout if timeout else None
    while not outcome.finished.wait(_POLL_S):
        if deadline is not None and time.monotonic() >= deadline:
            return False
    if outcome.error is not None:
        raise outcome.error
    return True


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _soon_complete(event: Any) -> bool:
    """Polls the event for a moment and returns True if it completes: a thread costs more than a short wait."""
    deadline = time.perf_counter() + _SPIN_S
    while event.command_execution_status > cl.command_execution_status.COMPLETE:
        if time.perf_counter() >= deadline:
            return False
    return True


def wait_for(event: Any, queue: Any = None) -> None:
    """Waits for a cl.Event of a flushed queue (None: returns at once); SIGINT is served meanwhile.

    With ``queue``, the queue of the event, a long wait is for all work of that queue. Raises DeviceError if a launch
    failed, DeviceLostError if the device is lost; a wait beyond NETCL_WATCHDOG_S names the kernels in a warning.
    """
    if event is None:
        return
    check_process()
    watchdog.begin(event)
    try:
        wait = event.wait if queue is None else queue.finish
        if queue is not None and _soon_complete(event):
            event.wait()
        elif may_block() or _soon_complete(event):
            wait()
        else:
            _call_interruptibly(wait, None)
    except cl.Error as error:
        if is_fault(error):
            raise fault(event.context, "a wait", error) from error
        raise
    finally:
        watchdog.end()


def read_now(queue: Any, out: Any, buffer: Any, by_map: bool = False) -> None:
    """Copies the start of a buffer into an array by a call that blocks, after all work before it on the queue. Intel's
    runtime computes in the thread that waits for a map, and wakes another one for a copy (``by_map``; without memory
    for a map it copies).

    Raises DeviceError if a launch failed, DeviceLostError if the device is lost.
    """
    check_process()
    watchdog.begin(queue)
    try:
        if not by_map or not _read_by_map(queue, out, buffer):
            cl.enqueue_copy(queue, out, buffer, is_blocking=True)
    except cl.Error as error:
        if is_fault(error):
            raise fault(queue.context, "a copy", error) from error
        raise
    finally:
        watchdog.end()


def _read_by_map(queue: Any, out: Any, buffer: Any) -> bool:
    """Copies the start of a buffer into an array by a map; False if the driver has no memory for one."""
    read: Any = cl.map_flags.READ
    try:
        mapped, _ = cl.enqueue_map_buffer(queue, buffer, read, 0, out.shape, out.dtype, is_blocking=True)
    except cl.MemoryError:
        return False
    out[...] = mapped
    mapped.base.release(queue)
    return True


def may_block() -> bool:
    """True if SIGINT is served while this thread blocks in the driver, or is not handled by netcl."""
    return not _installed or _watched or not _in_main_thread()


def interruptible_finish(queue: Any, timeout: float | None = 30.0) -> None:
    """Calls ``queue.finish()`` in a worker thread, polled every 10 ms, so that SIGINT is served meanwhile.

    Raises DeviceTimeoutError after ``timeout`` seconds (0 or None: no limit), while the work on the device goes on;
    DeviceError if a launch failed; DeviceLostError if the device is lost. ``queue`` is a queue or a DeviceHandle.
    """
    queue = getattr(queue, "queue", queue)
    if cl is None or not isinstance(queue, cl.CommandQueue):
        queue.finish()
        return
    check_process()
    check_lost(queue.context)
    log = launch_log(queue)
    launches = len(log)
    watchdog.begin(queue)
    try:
        if not timeout and may_block():
            queue.finish()
        elif not _call_interruptibly(queue.finish, timeout):
            raise DeviceTimeoutError(
                f"{queue.device.name.strip()} did not finish within {timeout:g} s; its work goes on. "
                "Wait longer (timeout=None: without limit), or look for a kernel that never ends"
            )
    except cl.Error as error:
        if is_fault(error):
            raise fault(queue.context, "a wait", error) from error
        raise
    finally:
        watchdog.end()
    forget_launches(log, launches)


_previous_handler: Any = None
_installed = False
_watched = False
_wakeup = -1
_draining = False
_drain_lock = threading.RLock()  # re-entrant: the handler may interrupt the main thread inside it
_drains: list[Any] = []  # the locks of draining threads that may be inside the driver
_ended = False


def install_sigint_handler() -> bool:
    """Installs netcl's SIGINT handler over the present one, which it calls; returns True if it is installed now.

    On SIGINT the registered queues get 3 s to finish their work. Then the previous handler runs (Python's own raises
    KeyboardInterrupt); if they do not finish, or at a second SIGINT in those seconds, the process ends with exit code
    130. Nothing is installed outside the main thread, with NETCL_SIGINT=0, or if SIGINT is ignored.
    """
    global _previous_handler, _installed
    if _installed and signal.getsignal(signal.SIGINT) is _on_sigint:
        return True
    if not config.get("SIGINT") or not _in_main_thread():
        return False
    present = signal.getsignal(signal.SIGINT)
    if present is signal.SIG_IGN or present is None:  # None: a handler from C, which could not be called in turn
        return False
    if present is not _on_sigint:
        _previous_handler = present
    signal.signal(signal.SIGINT, _on_sigint)
    _installed = True
    _start_watching()
    return True


def _start_watching() -> None:
    """Starts a thread that sees each SIGINT even while the main thread is blocked in the driver."""
    global _watched, _wakeup
    if _watched or os.name != "posix":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    present = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if present != -1:  # an event loop has it
        signal.set_wakeup_fd(present)
        os.close(reader)
        os.close(writer)
        return
    _wakeup, _watched = writer, True
    threading.Thread(target=_watch, args=(reader,), name="netcl-sigint", daemon=True).start()


def _watch(reader: int) -> None:
    while True:
        if signal.SIGINT in os.read(reader, 64) and signal.getsignal(signal.SIGINT) is _on_sigint:
            locks = _start_draining()
            deadline = time.monotonic() + GRACE_S
            while not _drained(locks, deadline, _POLL_S):
                ready, _, _ = select.select([reader], [], [], 0)
                if ready and signal.SIGINT in os.read(reader, 64):
                    os._exit(_EXIT_SIGINT)
                if time.monotonic() >= deadline:
                    _leave()


def _leave() -> None:
    os.write(2, f"netcl: a kernel still runs {GRACE_S:g} s after the interrupt; the process ends\n".encode())
    os._exit(_EXIT_SIGINT)


def _on_sigint(number: int, frame: Any) -> None:
    global _draining
    if _draining:
        os._exit(_EXIT_SIGINT)
    if not health.forked:
        _draining = True
        deadline = time.monotonic() + GRACE_S
        drained = _drained(_start_draining(), deadline, GRACE_S)
        _draining = False
        if not drained:
            _leave()
    if callable(_previous_handler):
        _previous_handler(number, frame)
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _start_draining() -> list[Any]:
    """Returns one lock for each registered queue, released when the queue has finished."""
    # Not threading.Thread: the handler may have interrupted the main thread inside that module's lock.
    locks: list[Any] = []
    with _drain_lock:
        for queue in () if _ended else list(_queues.values()):
            lock = _thread.allocate_lock()
            lock.acquire()
            _thread.start_new_thread(_finish_then_release, (queue, lock))
            locks.append(lock)
        _drains[:] = [lock for lock in _drains if lock.locked()] + locks
    return locks


def _drained(locks: list[Any], deadline: float, patience: float) -> bool:
    """True if all locks are released by ``deadline``, or within ``patience`` seconds if that is sooner."""
    until = min(deadline, time.monotonic() + patience)
    while locks and locks[-1].acquire(timeout=max(0.0, until - time.monotonic())):
        locks.pop().release()
    return not locks


def _finish_then_release(queue: Any, lock: Any) -> None:
    try:
        with contextlib.suppress(cl.Error):  # a lost device has nothing left to finish
            queue.finish()
    finally:
        lock.release()


def _before_fork() -> None:
    """Collects every live OpenCL object, so that the child can keep them from being released."""
    kinds = (cl.Buffer, cl.CommandQueue, cl.Kernel, cl.Program, cl.Context)
    _snapshot[:] = live_buffers()
    _snapshot.extend(_queues.values())
    objects = gc.get_objects()
    _snapshot.extend(item for item in objects if issubclass(type(item), kinds))  # __class__ may be code of others
    _snapshot.extend(_events(objects))


def _events(objects: list[Any]) -> Iterator[Any]:
    """Yields the events that ``objects`` and the frames of this thread hold. The collector does not track events, nor
    tuples and dictionaries that hold nothing else of its own; it knows what they hold.
    """
    reachable = gc.get_referents(*objects)
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        reachable.extend(frame.f_locals.values())
        frame = frame.f_back
    seen: set[int] = set()
    while reachable:
        yield from (item for item in reachable if issubclass(type(item), cl.Event))
        untracked = {id(item): item for item in reachable if type(item) in (tuple, dict) and not gc.is_tracked(item)}
        inner = [item for key, item in untracked.items() if key not in seen]
        seen.update(untracked)
        reachable = gc.get_referents(*inner)


def _after_fork_in_child() -> None:
    """Raises the reference counts of the snapshot, so that no destructor calls the driver, and refuses devices."""
    mark_forked()
    for item in _snapshot:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    _Waiter.idle.clear()  # their threads stayed with the parent
    watchdog.forget()
    if _watched:
        # The pipe is the parent's too: a SIGINT of the child must not look like one of the parent.
        with contextlib.suppress(ValueError):
            present = signal.set_wakeup_fd(-1)
            if present != _wakeup:
                signal.set_wakeup_fd(present)
