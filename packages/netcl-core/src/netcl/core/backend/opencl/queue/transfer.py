"""Copies between host arrays and device buffers, and fills.

API for the engine (one Transfer for each queue)::

    transfer = Transfer(launcher)
    event, pending_release, host_ref = transfer.upload(buffer, array, private=, async_copy=, use_pinned=)
    transfer.download(buffer, out)                     waits; out is a C-contiguous array, its nbytes are read
    event = transfer.download_async(buffer, out)       flushed; keep out until the event is complete
    transfer.let_go()                                  after a wait, so that no host array is kept for nothing
    pair = transfer.zero_copy(array)                   (buffer, host_ref) on the array itself, or None
    transfer.copy_from(other, source, target, nbytes)  from a buffer of another queue of the device
    allocation = transfer.adopt_shared(buffer, nbytes)      keeps such a buffer until the work that uses it has ended
    transfer.fill(target, nbytes, value, capacity=)    by a kernel, so that it can be recorded

``upload`` takes the values that ``array`` has at the call, whatever the caller does to it next: an array that no one
else sees (``private``) is read later, a small one is copied first, and a large one is waited for, since another copy
costs more than the wait. Uploads are never recorded: they happen now.

Traps: pyopencl's event of a non-blocking host copy waits in its destructor, with the interpreter lock held; so events
are kept here until they are complete. enqueue_fill is slow on some drivers (2 GB/s on Intel's CPU runtime).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from netcl.core import config
from netcl.core.backend.opencl.queue import shutdown
from netcl.core.backend.opencl.queue.launch import Launcher
from netcl.core.backend.opencl.templates import source
from netcl.core.device.capabilities import profile_of
from netcl.core.device.sub_devices import order_after
from netcl.core.engine.protocol import HostTransfer
from netcl.core.memory.queue_pools import BufferHandle, create_zero_copy_buffer, get_pinned_pool, is_integrated_gpu
from netcl.core.process.opencl import cl

Array = np.ndarray[Any, Any]

_COPIED_FIRST = 1 << 20  # bytes up to which a private copy is cheaper than waiting for the queue
# Bytes up to which a GPU's results are read by one blocking call: 14 us on an H200, with an event 24.
_READ_AT_ONCE = 1 << 14
_STAGE = 16 << 20
_COPIES_IN_FLIGHT = 256
_BYTES_IN_FLIGHT = 64 << 20
_LINE = 64  # bytes that buffers are aligned to
_FILL_GROUP = 128  # work-items of a group of the fill kernel, unless the device is a CPU
_RUN, _CPU_RUN = 16, 64  # bytes written by one store of the fill kernel
_CPU_FILL_ITEMS = 64


class _SharedBuffers:
    """The pool of buffers on host arrays: at the end of an allocation, the buffer, and with it its array, is kept until
    the queue has passed the work that was enqueued before.
    """

    def __init__(self, queue: Any) -> None:
        self.context = queue.context
        self._queue = queue
        self._lock = threading.RLock()
        self._returned: deque[tuple[Any, Any, Any]] = deque()  # BufferHandle appends to it, from the collector too
        self._passing: deque[tuple[Any, list[Any]]] = deque()  # (marker, buffers)

    def drop_passed(self) -> None:
        """Releases the buffers that the queue has passed, and updates the progress of the others."""
        if not self._returned and not self._passing:
            return
        with self._lock:
            count = len(self._returned)  # before the marker: later ones may be in use by work after it
            if count:
                marker = cl.enqueue_marker(self._queue)
                self._queue.flush()
                buffers: list[Any] = []
                self._passing.append((marker, buffers))
                with suppress(IndexError):  # a signal handler may have been here in the middle
                    for _ in range(count):
                        buffers.append(self._returned.popleft()[1])
            with suppress(IndexError):
                while _complete((first := self._passing[0])[0]):
                    if self._passing[0] is first:
                        self._passing.popleft()


class Transfer:
    """Moves bytes between the host and the buffers of one queue."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher: Launcher = launcher
        self.queue: Any = launcher.queue
        self._shares_memory = is_integrated_gpu(self.queue)
        self._is_cpu = profile_of(self.queue).is_cpu
        # Intel's CPU runtime lets the thread that finishes a queue work along, one that waits for an event not: with
        # two cores, reading the result of a second of captured steps took 1.8 times as long.
        self._caller_helps = self._is_cpu and "intel" in self.queue.device.platform.name.lower()
        self._lock = threading.RLock()  # re-entrant: dropping a copy may run a finaliser that makes another
        self._in_flight: deque[tuple[Any, int]] = deque()
        self._bytes_in_flight = 0
        self._shared = _SharedBuffers(self.queue)
        self._staging_queue: Any = None

    def upload(
        self,
        buffer: Any,
        array: Array,
        *,
        private: bool = False,
        async_copy: bool | None = None,
        use_pinned: bool | None = None,
    ) -> tuple[Any, Any, Array | None]:
        """Copies ``array`` (any layout) to the start of ``buffer``; returns (event, pending_release, host_ref).

        ``event`` (None: nothing is pending, or a small copy comes after launches that wait for their programs) is
        complete when the values are there; kernels on this queue need not wait for it. ``host_ref`` is the array being
        read. ``pending_release`` is None: staging returns itself.

        ``async_copy`` None is NETCL_ASYNC_H2D. ``use_pinned`` None is NETCL_PINNED_H2D, but only for devices with
        memory of their own: where the host's memory is shared, staging is a second copy for nothing. It is also left
        out where NETCL_PINNED_MAX_MB is reached.
        """
        if array.nbytes == 0:
            return None, None, None
        asynchronous = config.get("ASYNC_H2D") if async_copy is None else async_copy
        staged = (config.get("PINNED_H2D") and not self._shares_memory) if use_pinned is None else use_pinned
        source = np.ascontiguousarray(array)
        private = private or source is not array and not np.shares_memory(source, array)
        deferred = self.launcher.deferred
        if asynchronous and source.nbytes <= _COPIED_FIRST and deferred.waits:
            deferred.append_copy(partial(self._copy, buffer, source if private else source.copy()))
            return None, None, None
        if staged and self._may_stage(min(source.nbytes, _STAGE)):
            event = self._upload_staged(buffer, source)
            if asynchronous:
                return event, None, None
            self.launcher.wait(event, self._caller_helps)
            return None, None, None
        if asynchronous and not private and source.nbytes <= _COPIED_FIRST:
            source, private = source.copy(), True
        event = self._copy(buffer, source)
        if asynchronous and private:
            return event, None, source
        self.launcher.wait(event, self._caller_helps)
        self.let_go()
        return None, None, None

    def download(self, buffer: Any, out: Array) -> None:
        """Copies the first ``out.nbytes`` bytes of ``buffer`` into the C-contiguous ``out``, after all work before."""
        launches = len(self.launcher.launched)
        at_once = self._caller_helps or not self._is_cpu
        if at_once and self.launcher.sink is None and 0 < out.nbytes <= _READ_AT_ONCE and shutdown.may_block():
            with self.launcher.guard("a copy"):
                shutdown.read_now(self.queue, out, buffer, self._caller_helps)
            self.launcher.free_retired()
        else:
            self.launcher.wait(self.download_async(buffer, out), self._caller_helps)
        self.let_go()
        self.launcher.forget_launches(launches)
        with self.launcher.guard("a marker"):
            self._shared.drop_passed()

    def download_async(self, buffer: Any, out: Array) -> Any:
        """Starts the same copy and returns its event, None if there is nothing to copy."""
        return self._copy(out, buffer) if out.nbytes else None

    def copy_from(self, other: Any, source: Any, target: Any, nbytes: int) -> None:
        """Copies between buffers of a device; ``source`` is of the queue ``other``. Later work of both queues waits."""
        if nbytes == 0:
            return
        with self.launcher.guard("a copy between queues"):
            order_after(self.queue, other)
            copied = cl.enqueue_copy(self.queue, target, source, byte_count=nbytes)
            self.queue.flush()
            order_after(other, copied)  # so that nothing there writes into the source's buffer before

    def zero_copy(self, array: Array) -> tuple[Any, Array] | None:
        """Returns a buffer on ``array`` and the array to keep alive, None if device or array does not allow it."""
        self.launcher.check()
        usable = array.nbytes and array.flags.c_contiguous and array.flags.writeable
        if not self._shares_memory or not usable or array.ctypes.data % self._alignment:
            return None
        buffer, kept = create_zero_copy_buffer(self.queue, array)
        return buffer, kept

    def mapped(self, buffer: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        """Returns the memory of ``buffer``, which is the host's too, as an array, after all work before it."""
        access: Any = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = self.launcher.call(
            lambda: cl.enqueue_map_buffer(self.queue, buffer, access, 0, shape, dtype, is_blocking=True), "a map", 0
        )
        return array  # type: ignore[no-any-return]

    def adopt_shared(self, buffer: Any, nbytes: int) -> BufferHandle:
        """Returns the allocation of a buffer of ``zero_copy``; when it ends, the buffer and its array stay until the
        work on the queue that may use them has ended.
        """
        with self.launcher.guard("a marker"):
            self._shared.drop_passed()
        return BufferHandle(buffer, nbytes, nbytes, self._shared)  # type: ignore[arg-type]

    def fill(self, target: Any, nbytes: int, value: Any, capacity: int = 0) -> None:
        """Sets the first ``nbytes`` bytes of ``target`` (buffer or tensor) to repeats of ``value``, a NumPy scalar.

        ``capacity``, the bytes that may be overwritten (an allocation's bucket_size), saves the kernel for the last
        bytes. The itemsize of the scalar is 1, 2, 4 or 8.
        """
        if nbytes == 0:
            return
        # PoCL compiles a kernel again for each size that it chooses, and NVIDIA's driver chooses small ones.
        group = 1 if self._is_cpu else min(_FILL_GROUP, profile_of(self.queue).max_work_group_size)
        raw = np.asarray(value).tobytes()
        word = np.frombuffer(raw * (8 // len(raw)), np.uint64)[0]
        # Work-items of a GPU write neighbouring vectors of 16 bytes together, work-items of a CPU whole lines.
        each = _CPU_RUN if self._is_cpu else _RUN
        text = source(("fill",), (("RUN", f"ulong{each // 8}"),))
        runs = -(-nbytes // each) if capacity >= -(-nbytes // each) * each else nbytes // each
        if runs:
            items = min(runs, _CPU_FILL_ITEMS) if self._is_cpu else -(-runs // group) * group
            sizes = np.uint64(runs), np.uint64(-(-runs // items))
            self.launcher.launch(text, "fill", (items,), (group,), (target, word, *sizes))
        start = runs * each
        if start < nbytes:
            args = (target, word, np.uint64(start))
            self.launcher.launch(text, "fill_tail", (nbytes - start,), (1,), args)

    @property
    def _alignment(self) -> int:
        return max(_LINE, int(self.launcher.device.mem_base_addr_align) // 8)

    def _copy(self, target: Any, source: Any) -> Any:
        nbytes = min(item.nbytes for item in (target, source) if isinstance(item, np.ndarray))
        sink = self.launcher.sink
        began = 0.0 if sink is None else perf_counter()
        event = self.launcher.call(
            lambda: cl.enqueue_copy(self.queue, target, source, is_blocking=False), "a copy", nbytes
        )
        self.queue.flush()
        if sink is not None:
            sink.copy(began, event, "to host" if isinstance(target, np.ndarray) else "to device", nbytes)
        self._keep(event, nbytes)
        return event

    def _keep(self, event: Any, nbytes: int) -> None:
        """Holds ``event``, and with it the ``nbytes`` of host memory it reads or writes, until it is complete."""
        with self._lock:
            in_flight = self._in_flight
            in_flight.append((event, nbytes))
            self._bytes_in_flight += nbytes
            self.let_go()
            crowded = len(in_flight) > _COPIES_IN_FLIGHT or self._bytes_in_flight > _BYTES_IN_FLIGHT
            oldest = next(iter(tuple(in_flight)), (None,))[0] if crowded else None
        # A host that is faster than the device would pile up copies of its arrays.
        self.launcher.wait(oldest)

    def let_go(self) -> None:
        """Drops completed events, and with them their host arrays; called when a wait is over."""
        in_flight = self._in_flight
        with self._lock, suppress(IndexError):
            # In order: copies after an incomplete one are not complete either.
            while _complete((first := in_flight[0])[0]):
                if in_flight[0] is first:  # a signal handler or a finalizer may have been here in the middle
                    in_flight.popleft()
                    self._bytes_in_flight -= first[1]

    def _may_stage(self, nbytes: int) -> bool:
        """True if ``nbytes`` more of page-locked memory are allowed, perhaps after waiting for copies in flight."""
        pool = get_pinned_pool(self.queue)
        if pool.room_for(nbytes):
            return True
        self.launcher.finish()
        return pool.room_for(nbytes)

    def _upload_staged(self, buffer: Any, source: Array) -> Any:
        """Copies through page-locked memory; the values of ``source`` have been read when this returns."""
        pool = get_pinned_pool(self.queue)
        if self._staging_queue is None:
            # Of its own: a map on the queue of the kernels would wait for them.
            self._staging_queue = cl.CommandQueue(self.launcher.context, self.launcher.device)
        flat = source.reshape(-1).view(np.uint8)
        event = None
        for start in range(0, flat.nbytes, _STAGE):
            part = flat[start : start + _STAGE]
            event = self.launcher.call(lambda: self._stage(pool, buffer, part, start), "a copy", part.nbytes)  # noqa: B023
            self.queue.flush()
            self._keep(event, part.nbytes)
        return event

    def _stage(self, pool: Any, buffer: Any, part: Array, start: int) -> Any:
        staging = self._staging_queue
        sink = self.launcher.sink
        began = 0.0 if sink is None else perf_counter()
        allocation = pool.allocate(part.nbytes)
        host, _ = cl.enqueue_map_buffer(
            staging, allocation.buffer, cl.map_flags.WRITE, 0, (part.nbytes,), np.dtype(np.uint8), is_blocking=True
        )
        host[:] = part
        unmapped = host.base.release(staging)
        staging.flush()
        event = cl.enqueue_copy(
            self.queue, buffer, allocation.buffer, byte_count=part.nbytes, dst_offset=start, wait_for=[unmapped]
        )
        allocation.release_after(event)
        if sink is not None:
            self.queue.flush()
            sink.copy(began, event, "to device", part.nbytes)
        return event


def _complete(event: Any) -> bool:
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)


class DeviceTransfer(HostTransfer):
    """A HostTransfer with an interruptible wait and netcl's errors."""

    def __init__(self, event: Any, finish: Callable[[], Array], launcher: Launcher) -> None:
        super().__init__(event, finish)
        self._launcher = launcher

    def wait(self) -> Array:
        """Waits for the copy, returns values in the tensor's shape; raises errors that the device has reported."""
        self._launcher.wait(self.event)
        return super().wait()
