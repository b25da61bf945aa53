"""Page-locked host memory that devices read and write without a wait of the host, and host calls in the order of a
queue.

An exchange of tensors between devices that share no context goes by way of the host: one device copies into memory of
the host, the other reads it. Copies run at the full rate of the bus, and next to kernels, if that memory is page-locked
and the copies are on queues of their own. ``Staging`` makes any memory such memory, one that several processes share
too; each process, or each device of one, has a ``Staging`` of its own over it::

    memory = mmap.mmap(descriptor, nbytes)             # or a number of bytes
    staging = Staging(x.queue, memory)
    ready = mark(x.queue)                              # the work so far, which computes x
    copied = staging.download(x, 0, x.size, at=0, after=[ready])
    copied.wait()                                      # staging.array[:x.nbytes] has the values of x

``host_call`` gives such work a position among the calls of a queue, so that a captured step repeats it.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from netcl.core.device.sub_devices import order_after as order_queue_after
from netcl.core.dtypes import itemsize
from netcl.core.engine.recording import open_here
from netcl.core.engine.registry import engine_for, ensure_same_backend
from netcl.core.errors import ShapeError
from netcl.core.memory.queue_pools import create_zero_copy_buffer
from netcl.core.process.opencl import cl
from netcl.core.tensor import Tensor
from netcl.runtime.stream import Stream

Array = np.ndarray[Any, Any]
_PART = 4096  # bytes at which the parts of packed tensors begin; drivers require up to 512


class Pending:
    """Work of a device that is under way; on the NumPy engine it has ended already.

    >>> from netcl.core.device import device
    >>> with device("cpu") as handle:
    ...     mark(handle.queue).done()
    True
    """

    __slots__ = ("_engine", "_kept", "event")

    def __init__(self, engine: Any, event: Any, kept: Any = None) -> None:
        self._engine, self._kept = engine, kept
        self.event: Any = event

    def done(self) -> bool:
        """Returns True if the work has ended; raises RuntimeError, DeviceLostError or OutOfMemoryError if it failed."""
        if self.event is None:
            return True
        status = self.event.command_execution_status
        if status < 0:
            self.wait()
        return bool(status <= cl.command_execution_status.COMPLETE)

    def wait(self) -> None:
        """Waits until the work has ended; raises what ``done`` raises."""
        if self.event is not None:
            self._engine.launcher.wait(self.event)


def mark(queue: Any = None) -> Pending:
    """Returns all work enqueued so far on ``queue`` (queue, DeviceHandle; None: the active device), and submits it."""
    engine: Any = engine_for(queue)
    if engine.name != "cl":
        engine.finish()
        return Pending(engine, None)
    with engine.launcher.guard("a marker"):
        event = cl.enqueue_marker(engine.queue)
        engine.queue.flush()
    return Pending(engine, event)


def order_after(queue: Any, work: Iterable[Pending]) -> None:
    """Makes later work of ``queue`` run after all of ``work``; this thread waits only for work of another context."""
    engine: Any = engine_for(queue)
    if engine.name != "cl":
        for pending in work:
            pending.wait()
        return
    with engine.launcher.guard("a barrier"):
        for pending in work:
            if pending.event is not None:
                order_queue_after(engine.queue, pending.event)


class Staging:
    """Host memory, page-locked for the device of ``queue``, with two queues for copies: one for each direction.

    ``queue``: a queue or DeviceHandle, None is the active device. ``memory``: a number of bytes, or writable memory
    that is aligned to pages (an mmap, an array of uint8), such as a file that several processes map. It is made
    available to the device by CL_MEM_USE_HOST_PTR and stays mapped, so that its addresses are valid for copies at any
    time. On one H100 such copies ran at 53 GB/s in each direction, copies of the same segment as plain memory at 14 and
    6.

    ``stream`` is a third queue, for ops on what was uploaded: ``order_after(staging.stream.queue, uploads)``, then
    calls within ``with staging.stream:``. Raises ShapeError for memory that is empty or not aligned to pages,
    OutOfMemoryError if the driver cannot lock so much.

    >>> from netcl.core.device import device
    >>> with device("cpu") as handle:
    ...     staging = Staging(handle.queue, 64)
    ...     x = Tensor.from_host(np.arange(4, dtype=np.float32))
    ...     staging.download(x, 1, 3, at=0).wait()
    ...     staging.array[:12].view(np.float32).tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, queue: Any = None, memory: Any = 0) -> None:
        engine: Any = engine_for(queue)
        self._engine = engine
        held = mmap.mmap(-1, memory) if isinstance(memory, int) and memory > 0 else memory
        if isinstance(held, int) or not memoryview(held).nbytes:
            raise ShapeError("Staging needs at least one byte of memory", op="Staging")
        self._array: Array = np.frombuffer(held, np.uint8)
        self._buffer: Any = None
        self._mapped: Any = None
        self._down: Any = None
        self._up: Any = None
        self._stream = Stream(engine.handle, priority=-1)
        if engine.name != "cl":
            return
        self._down, self._up = (Stream(engine.handle) for _ in range(2))
        copies = self._down.queue
        self._buffer, kept = create_zero_copy_buffer(copies, self._array)
        if kept is not self._array:
            raise ShapeError("Staging needs memory that is aligned to pages: give it an mmap", op="Staging")
        access: Any = cl.map_flags.READ | cl.map_flags.WRITE
        nbytes = self._array.nbytes
        with engine.launcher.guard("a map", nbytes):
            self._mapped, _ = cl.enqueue_map_buffer(
                copies, self._buffer, access, 0, (nbytes,), np.dtype(np.uint8), is_blocking=True
            )

    @property
    def array(self) -> Array:
        """The memory, as uint8."""
        return self._array

    @property
    def stream(self) -> Stream:
        """The queue for ops on tensors that were uploaded."""
        return self._stream

    def download(self, source: Tensor, first: int, count: int, at: int, after: Sequence[Pending] = ()) -> Pending:
        """Copies elements ``first`` to ``first + count`` of ``source``, flat, to ``array[at:]``, in its storage dtype,
        once ``after`` has ended. The tensor must be kept, and not be written, until the copy has ended.

        Raises ShapeError for a range outside the tensor or the memory.
        """
        start, nbytes, host = self._range("download", source, first, count, at)
        if self._down is None:
            host[...] = source.array.reshape(-1).view(np.uint8)[start : start + nbytes]
            return Pending(self._engine, None)
        return self._copy(self._down.queue, host, source.buffer, after, source, src_offset=start)

    def upload(self, target: Tensor, first: int, count: int, at: int, after: Sequence[Pending] = ()) -> Pending:
        """Copies ``array[at:]`` to elements ``first`` to ``first + count`` of ``target``, flat, once ``after`` has
        ended. The memory must not change until the copy has ended. Raises what ``download`` raises.
        """
        start, nbytes, host = self._range("upload", target, first, count, at)
        if self._down is None:
            target.array.reshape(-1).view(np.uint8)[start : start + nbytes] = host
            return Pending(self._engine, None)
        return self._copy(self._up.queue, target.buffer, host, after, target, dst_offset=start)

    def move(
        self, source: Tensor, first: int, count: int, target: Tensor, at: int, after: Sequence[Pending] = ()
    ) -> Pending:
        """Copies elements ``first`` to ``first + count`` of ``source`` to ``target`` from element ``at`` on, on the
        device, in the order of ``stream``. Raises ShapeError for a range outside the tensors.
        """
        size = itemsize(source.dtype)
        if not (0 <= first <= first + count <= source.size and 0 <= at <= at + count <= target.size):
            sizes = f"of {source.size} and {target.size}"
            raise ShapeError(f"move: {count} elements from {first} to {at} {sizes}")
        if self._down is None:
            target.array.reshape(-1)[at : at + count] = source.array.reshape(-1)[first : first + count]
            return Pending(self._engine, None)
        places = {"src_offset": first * size, "dst_offset": at * size, "byte_count": count * size}
        return self._copy(self._stream.queue, target.buffer, source.buffer, after, (source, target), **places)

    def close(self) -> None:
        """Waits for the copies and gives the memory back; the object cannot be used again."""
        if self._mapped is not None:
            queue = self._down.queue
            for stream in (self.stream, self._down, self._up):
                stream.synchronize()
            self._mapped.base.release(queue)
            queue.finish()
            self._mapped = self._buffer = None
        self._array = np.empty(0, np.uint8)

    def _range(self, op: str, tensor: Tensor, first: int, count: int, at: int) -> tuple[int, int, Array]:
        """Returns the first byte in the tensor, the number of bytes, and the host memory."""
        size = itemsize(tensor.dtype)
        nbytes = count * size
        if not (0 <= first <= first + count <= tensor.size and 0 <= at <= at + nbytes <= self.array.nbytes):
            elements = f"elements {first} to {first + count} of a tensor of {tensor.size}"
            raise ShapeError(f"{op}: {elements}, bytes {at} to {at + nbytes} of {self.array.nbytes}")
        memory = self.array if self._mapped is None else self._mapped
        return first * size, nbytes, memory[at : at + nbytes]

    def _copy(
        self, queue: Any, target: Any, source: Any, after: Sequence[Pending], kept: Any, **places: Any
    ) -> Pending:
        options: dict[str, Any] = {
            "wait_for": [transfer.event for transfer in after if transfer.event is not None],
            **places,
        }
        arrays = [item for item in (target, source) if isinstance(item, np.ndarray)]
        if arrays:
            options["is_blocking"] = False
        if not all(array.nbytes for array in arrays):
            return Pending(self._engine, None)
        event = self._engine.launcher.call(lambda: cl.enqueue_copy(queue, target, source, **options), "a copy", 0)
        queue.flush()
        return Pending(self._engine, event, kept)


def packed_tensors(
    shapes: Sequence[Sequence[int]], dtype: str = "float32", queue: Any = None
) -> tuple[Tensor, list[Tensor]]:
    """Returns one flat tensor of zeros on ``queue`` (None: the active device), and a tensor of each of ``shapes`` on
    consecutive parts of its storage, so that all of them are copied as one. All are persistent.

    Each part begins at an address that the device requires of buffers: there may be elements of the flat tensor between
    two parts. The parts are valid as long as the flat tensor is referenced. A write into one of them does not count as
    a write of the others. Raises OutOfMemoryError.

    >>> from netcl.core.device import device
    >>> with device("cpu"):
    ...     flat, (a, b) = packed_tensors([(2,), (2, 2)])
    ...     b.write(np.ones((2, 2), np.float32))
    ...     float(flat.sum())
    4.0
    """
    engine: Any = engine_for(queue)
    size = itemsize(dtype)
    # The same on all devices, as far as they allow it, so that the flat tensors of two devices have the same size.
    line = _PART if engine.name != "cl" else max(_PART, int(engine.queue.device.mem_base_addr_align) // 8)
    counts = [math.prod(shape) for shape in shapes]
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + -(-count * size // line) * line // size)
    total = max(starts[-1], 1)
    if engine.name != "cl":
        flat = engine.zeros((total,), dtype, persistent=True)
        memory = [flat.array[start : start + count] for start, count in zip(starts, counts)]
        parts = [
            Tensor._wrap(engine, tuple(shape), dtype, None, part.reshape(shape), None)
            for shape, part in zip(shapes, memory)
        ]
    else:
        # Not from a pool: its buffers may be parts of others, and a part of a part is no OpenCL buffer.
        flags = cl.mem_flags.READ_WRITE
        buffer = engine.launcher.call(lambda: cl.Buffer(engine.context, flags, total * size), "a buffer", total * size)
        flat = Tensor._wrap(engine, (total,), dtype, buffer, None, None)
        flat.persistent = True
        engine.fill(flat, 0)
        parts = []
        for shape, start, count in zip(shapes, starts, counts):
            part = buffer.get_sub_region(start * size, max(count * size, 1))
            parts.append(Tensor._wrap(engine, tuple(shape), dtype, part, None, None))
    for part in parts:
        part.persistent = True
    return flat, parts


def host_call(
    action: Callable[[Sequence[Tensor], Sequence[Tensor]], object], reads: Sequence[Tensor], out: Sequence[Tensor]
) -> None:
    """Calls ``action(reads, out)`` in the order of the calls of their queue: now, or, if this thread captures a step,
    in its position in each replay.

    The action enqueues work that reads the values of ``reads`` and writes ``out``, such as copies after
    ``mark(reads[0].queue)``; it returns without waiting for the device and calls no op on that queue. In a replay it is
    called with other tensors of the same storage. Host calls that must keep their order among each other share a tensor
    in ``out``.

    >>> from netcl.core.device import device
    >>> with device("cpu"):
    ...     x = Tensor.ones((2,))
    ...     host_call(lambda reads, out: print(reads[0].tolist()), (x,), ())
    [1.0, 1.0]
    """
    tensors = [*reads, *out]
    engine: Any = ensure_same_backend(tensors, "host_call")
    engine.host_call(action, tuple(reads), out=tuple(out))
    if open_here(engine) is None:
        for tensor in out:
            tensor._storage.written()
