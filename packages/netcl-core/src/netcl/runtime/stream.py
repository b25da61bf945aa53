"""Streams, queues of a device that run concurrently, and the scheduler that distributes ops over them.

Work on one stream runs in the order of its calls; two streams are ordered only if one waits for the other::

    copies = Stream()
    with copies:                        # tensors made and ops called here belong to that stream
        y = nc.exp(Tensor.from_host(array))
    here = y.to(device.queue)           # a copy on the other queue, automatically ordered after exp

The NumPy backend computes in the calling thread, so a stream there never has pending work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import Any

from netcl.core.device import CPUQueue, DeviceHandle, device, get_active_device
from netcl.core.device.sub_devices import new_queue, order_after
from netcl.core.engine.protocol import HostTransfer
from netcl.core.engine.registry import engine_for
from netcl.core.ops_table import dispatch
from netcl.core.process.hook_stack import flush
from netcl.core.tensor import Tensor

# Engines and their kernels live as long as their queues, so queues are reused, by (device, priority).
_idle: dict[Any, list[DeviceHandle]] = {}


class Stream:
    """A separate queue on the device of ``queue`` (a queue or DeviceHandle; None: the active device).

    ``priority`` below 0 requests more of the device than others get, above 0 less; a driver without
    cl_khr_priority_hints treats all as equal. ``with stream:`` makes it the thread's active device.
    """

    def __init__(self, queue: Any = None, priority: int = 0) -> None:
        base: DeviceHandle = engine_for(queue).handle
        self.priority: int = priority
        self._key = (base.context, base.device, min(max(priority, -1), 1))
        try:
            self.handle: DeviceHandle = _idle.setdefault(self._key, []).pop()
        except IndexError:
            self.handle = replace(base, queue=_new_queue(base, priority))
        self._entered: list[Any] = []

    @property
    def queue(self) -> Any:
        """The cl.CommandQueue, or the CPUQueue of the NumPy backend."""
        return self.handle.queue

    def wait_for(self, x: Any) -> None:
        """Makes later work of this stream run after ``x``: a HostTransfer or cl.Event, or all work so far of a Stream,
        queue or DeviceHandle, or of a tensor's queue. If no driver orders the two (another context, NumPy) this thread
        waits.
        """
        work = x.event if isinstance(x, HostTransfer) else x
        if isinstance(x, Tensor):
            work = x.engine.queue
        elif isinstance(x, (Stream, DeviceHandle)):
            work = x.queue
        if work is None or isinstance(work, CPUQueue) or work == self.queue:
            return
        if self.handle.backend == "cl":
            order_after(self.queue, work)
        elif isinstance(x, HostTransfer):
            x.wait()
        else:
            engine_for(work).finish()

    def synchronize(self) -> None:
        """Waits until all work of the stream is done; raises the errors that the device has reported."""
        flush()
        engine: Any = engine_for(self.queue)
        engine.finish()
        engine.wait()

    def __enter__(self) -> Stream:
        block = device(self.handle)
        block.__enter__()
        self._entered.append(block)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            _idle[self._key].append(handle)

    def __repr__(self) -> str:
        return f"Stream({self.handle.device_name!r}, priority={self.priority})"


def _new_queue(base: DeviceHandle, priority: int) -> Any:
    if base.backend == "cpu":
        return CPUQueue("stream")
    if base.backend != "cl":  # of another distribution
        return copy(base.queue)
    return new_queue(base.context, base.device, priority)


class Scheduler:
    """Runs ops, functions without arguments, in the order in which they were submitted.

    With ``async_mode`` each stream has its own thread: ops of one stream keep their order, ops of different streams run
    concurrently. Otherwise ``run`` calls all of them in this thread.

    >>> scheduler = Scheduler()
    >>> answer = scheduler.submit(lambda: 6 * 7)
    >>> scheduler.run()
    >>> answer.result()
    42
    """

    def __init__(self, async_mode: bool = False) -> None:
        self.async_mode: bool = async_mode
        self._waiting: list[tuple[Stream | None, Future[Any], Callable[[], None]]] = []

    def submit(
        self, op: Callable[[], Any], stream: Stream | None = None, after: Sequence[Future[Any]] = ()
    ) -> Future[Any]:
        """Adds ``op()``, called on ``stream`` (None: where the caller of ``run`` works) once the ops in ``after`` have
        returned; the Future holds its result. If one of those failed, this op fails with the same error.
        """
        if not callable(op):
            raise TypeError(f"expected an op as a function without arguments, got {type(op).__name__}")
        future: Future[Any] = Future()
        earlier_ops = tuple(after)

        def call() -> None:
            try:
                for earlier in earlier_ops:
                    earlier.result()
                with stream or nullcontext():
                    result = op()
            except Exception as error:  # noqa: BLE001 - it belongs to the reader of the future
                future.set_exception(error)
            else:
                future.set_result(result)

        self._waiting.append((stream, future, call))
        return future

    def run(self, wait: bool = True) -> None:
        """Starts all submitted ops. ``wait``: returns when all of them are done, on the devices too, and raises the
        error of the first op that failed; otherwise the errors are in the Futures alone.
        """
        waiting, self._waiting = self._waiting, []
        by_stream: dict[Stream | None, list[Callable[[], None]]] = {}
        for stream, _, call in waiting:
            by_stream.setdefault(stream, []).append(call)
        if self.async_mode:
            place, hooks = get_active_device(), dispatch.snapshot()
            for calls in by_stream.values():
                threading.Thread(target=_work, args=(calls, place, hooks), daemon=True).start()
        else:
            for _, _, call in waiting:
                call()
        if not wait:
            return
        errors = [error for _, future, _ in waiting if (error := future.exception()) is not None]
        for stream in by_stream:
            if stream is not None:
                stream.synchronize()
        if errors:
            raise errors[0]


def _work(calls: Sequence[Callable[[], None]], place: DeviceHandle, hooks: Any) -> None:
    with device(place), hooks.active():
        for call in calls:
            call()
