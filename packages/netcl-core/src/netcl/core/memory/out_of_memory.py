"""What is known of all pools: which there are, who holds most, and making room when a device is full."""

from __future__ import annotations

import gc
import os
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from netcl.core.device.health import check_lost, check_process, is_lost, lose
from netcl.core.errors import OutOfMemoryError
from netcl.core.memory.allocation import BufferHandle, Pool

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

_HOLDERS_SHOWN = 5

T = TypeVar("T")

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_pools_lock = threading.RLock()


def register_pool(pool: Pool) -> None:
    """Add a pool to those that are emptied when its context runs out of memory."""
    with _pools_lock:
        _pools.add(pool)


def pools_of(context: Any = None) -> list[Pool]:
    with _pools_lock:
        pools = list(_pools)
    return [pool for pool in pools if context is None or pool.context == context]


def leases() -> list[BufferHandle]:
    """Every lease that has not ended; found by a walk over all objects, so that a lease costs nothing to make."""
    return [handle for handle in gc.get_objects() if type(handle) is BufferHandle and not handle.released]


def live_buffers() -> list[Any]:
    """Every cl.Buffer that a lease or a pool holds now (for the fork guard)."""
    leased = [handle.buffer for handle in leases()]
    cached = [entry[1] for pool in pools_of() for stack in list(pool._free.values()) for entry in list(stack)]
    returned = [entry[1] for pool in pools_of() for entry in list(pool._returned)]
    return [buffer for buffer in (*leased, *cached, *returned) if buffer is not None]


def largest_buffer(context: Any) -> int:
    return min(int(device.max_mem_alloc_size) for device in context.devices)


def is_out_of_memory(error: Any) -> bool:
    """Whether a cl.Error says that a buffer has no room on the device."""
    status = cl.status_code
    return isinstance(error, cl.MemoryError) or error.code in (
        status.MEM_OBJECT_ALLOCATION_FAILURE,
        status.OUT_OF_RESOURCES,
        status.OUT_OF_HOST_MEMORY,
        status.INVALID_BUFFER_SIZE,
    )


def release_cached(context: Any) -> None:
    """Collect garbage and empty every pool of the context, so that the driver has all unused memory back."""
    gc.collect()
    for pool in pools_of(context):
        pool.clear()


def out_of_memory(context: Any, requested: int, free: int | None = None) -> OutOfMemoryError:
    """The OutOfMemoryError for a request of that many bytes, with the leases of the context that hold most.

    While tracemalloc traces, each holder also says where it was allocated.
    """
    held = [handle for handle in leases() if handle.pool is not None and handle.pool.context == context]
    held.sort(key=lambda handle: -handle.bucket_size)
    holders = [(_describe(handle), handle.bucket_size) for handle in held[:_HOLDERS_SHOWN]]
    devices = ", ".join(str(device.name).strip() for device in context.devices)
    return OutOfMemoryError(requested, free, largest_buffer(context), holders, device=devices)


def with_room(context: Any, make: Callable[[], T], requested: int) -> T:
    """``make()``, which takes ``requested`` bytes of the device, and once more with empty caches if there is no room.

    OutOfMemoryError, DeviceLostError or RuntimeError for the driver's errors.
    """
    check_process()
    check_lost(context)
    for last in (False, True):
        try:
            return make()
        except cl.Error as error:
            if is_lost(error):
                raise lose(context, f"{requested} bytes were asked for", error) from error
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
        # The newest frame outside netcl; with a trace too short to have one, the oldest there is.
        inside = tuple(folder + os.sep for folder in sys.modules["netcl"].__path__)
        frame = next((frame for frame in reversed(trace) if not frame.filename.startswith(inside)), trace[0])
        text += f" allocated at {frame.filename}:{frame.lineno}"
    return text
