"""Registry of all pools, report of the largest holders, and a retry with empty caches if a device is full."""

from __future__ import annotations

import gc
import os
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from netcl.core.device.health import check_lost, check_process, is_lost, mark_lost
from netcl.core.errors import OutOfMemoryError
from netcl.core.memory.allocation import BufferHandle, Pool
from netcl.core.process import late_launches
from netcl.core.process.opencl import cl

_HOLDERS_SHOWN = 5

T = TypeVar("T")

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_pools_lock = threading.RLock()


def register_pool(pool: Pool) -> None:
    """Registers a pool to be emptied when its context runs out of memory."""
    with _pools_lock:
        _pools.add(pool)


def pools_of(context: Any = None) -> list[Pool]:
    with _pools_lock:
        pools = list(_pools)
    return [pool for pool in pools if context is None or pool.context == context]


def live_allocations() -> list[BufferHandle]:
    """Returns every allocation that has not ended. It scans all objects, so that making an allocation costs nothing."""
    return [handle for handle in gc.get_objects() if type(handle) is BufferHandle and not handle.released]


def live_buffers() -> list[Any]:
    """Returns every cl.Buffer that an allocation or a pool holds now (for the fork guard)."""
    allocated = [handle.buffer for handle in live_allocations()]
    cached = [entry[1] for pool in pools_of() for stack in list(pool._free.values()) for entry in list(stack)]
    returned = [entry[1] for pool in pools_of() for entry in list(pool._returned)]
    return [buffer for buffer in (*allocated, *cached, *returned) if buffer is not None]


def largest_buffer(context: Any) -> int:
    return min(int(device.max_mem_alloc_size) for device in context.devices)


def is_out_of_memory(error: Any) -> bool:
    """True if a cl.Error says that the device has no room for a buffer."""
    status = cl.status_code
    return isinstance(error, cl.MemoryError) or error.code in (
        status.MEM_OBJECT_ALLOCATION_FAILURE,
        status.OUT_OF_RESOURCES,
        status.OUT_OF_HOST_MEMORY,
        status.INVALID_BUFFER_SIZE,
    )


def release_cached(context: Any) -> None:
    """Collects garbage and empties every pool of the context, so that the driver gets all unused memory back."""
    late_launches.enqueue()
    gc.collect()
    for pool in pools_of(context):
        pool.clear()


def out_of_memory(context: Any, requested: int, free: int | None = None) -> OutOfMemoryError:
    """Returns the OutOfMemoryError for a request of that many bytes, with the largest allocations of the context. While
    tracemalloc traces, each holder also has its place of allocation.
    """
    held = [handle for handle in live_allocations() if handle.pool is not None and handle.pool.context == context]
    held.sort(key=lambda handle: -handle.bucket_size)
    holders = [(_describe(handle), handle.bucket_size) for handle in held[:_HOLDERS_SHOWN]]
    devices = ", ".join(str(device.name).strip() for device in context.devices)
    return OutOfMemoryError(requested, free, largest_buffer(context), holders, device=devices)


def retry_on_out_of_memory(context: Any, make: Callable[[], T], requested: int) -> T:
    """Calls ``make()``, which takes ``requested`` bytes of the device, and if there is no room again with empty caches.
    Raises OutOfMemoryError, DeviceLostError or RuntimeError for the driver's errors.
    """
    check_process()
    check_lost(context)
    for last in (False, True):
        try:
            return make()
        except cl.Error as error:
            if is_lost(error):
                raise mark_lost(context, f"{requested} bytes were asked for", error) from error
            if not is_out_of_memory(error):
                raise RuntimeError(f"a buffer of {requested} bytes cannot be made: {error}") from error
            if last:
                raise out_of_memory(context, requested) from error
        release_cached(context)
    raise AssertionError("unreachable")


def _describe(handle: BufferHandle) -> str:
    note = handle.note
    if isinstance(note, tuple) and len(note) == 2:
        text = f"{note[1]} tensor of shape {tuple(note[0])}"
    else:
        text = "a buffer" if note is None else str(note)
    trace = tracemalloc.get_object_traceback(handle) if tracemalloc.is_tracing() else None
    if trace:
        # The newest frame outside netcl; if the trace is too short to have one, its oldest frame.
        inside = tuple(folder + os.sep for folder in sys.modules["netcl"].__path__)
        frame = next((frame for frame in reversed(trace) if not frame.filename.startswith(inside)), trace[0])
        text += f" allocated at {frame.filename}:{frame.lineno}"
    return text
