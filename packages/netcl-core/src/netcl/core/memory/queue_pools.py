"""Registry of the pools: one per queue, one pinned per context; and buffers that host and device share."""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np

from netcl.core.device.capabilities import profile_of
from netcl.core.device.discovery import CPUQueue, get_active_device
from netcl.core.errors import ShapeError, UnsupportedError, format_bytes
from netcl.core.memory.out_of_memory import pools_of, retry_on_out_of_memory
from netcl.core.memory.pools import BufferHandle, BufferPool, PersistentBufferPool, PinnedBufferPool, PoolStats
from netcl.core.memory.regions import Regions, has_regions
from netcl.core.process.opencl import cl

__all__ = [
    "BufferHandle",
    "BufferPool",
    "PersistentBufferPool",
    "PinnedBufferPool",
    "PoolStats",
    "create_pinned_buffer",
    "create_zero_copy_buffer",
    "empty_cache",
    "get_persistent_pool",
    "get_pinned_pool",
    "has_svm_support",
    "is_integrated_gpu",
    "memory_summary",
    "opencl_queue",
]

_registry_lock = threading.RLock()
# By the driver's handle: pyopencl makes a new Python object for a queue or context at each request. The pool keeps its
# queue alive, so the driver does not reuse the number.
_pinned_pools: dict[int, PinnedBufferPool] = {}
_persistent_pools: dict[int, PersistentBufferPool] = {}


def opencl_queue(q: Any = None) -> Any:
    """Returns the cl.CommandQueue of a queue, a DeviceHandle, or (None) of the thread's active device. Raises
    ImportError without pyopencl, UnsupportedError for a NumPy device.
    """
    if cl is None:
        raise ImportError("pyopencl required: this works on OpenCL devices only")
    if isinstance(q, cl.CommandQueue):
        return q
    if q is None:
        q = get_active_device()
    queue = getattr(q, "queue", q)
    if not isinstance(queue, cl.CommandQueue):
        if isinstance(queue, CPUQueue):
            raise UnsupportedError(
                f"expected an OpenCL queue or DeviceHandle, got NumPy's {q!r}: kernels in OpenCL C run on OpenCL "
                "devices; write `with netcl.device('opencl'):`, and compute with NumPy if x.device.backend is 'cpu'"
            )
        raise UnsupportedError(f"expected an OpenCL queue or DeviceHandle, got {q!r}")
    return queue


def get_pinned_pool(q: Any = None) -> PinnedBufferPool:
    """Returns the PinnedBufferPool of the queue's context, one for each context."""
    queue = opencl_queue(q)
    context = queue.context
    with _registry_lock:
        pool = _pinned_pools.get(context.int_ptr)
        if pool is None:
            pool = _pinned_pools[context.int_ptr] = PinnedBufferPool(context)
        return pool


def get_persistent_pool(q: Any = None) -> PersistentBufferPool:
    """Returns the PersistentBufferPool of the queue, one for each queue; ``Tensor.from_shape`` allocates from it."""
    queue = opencl_queue(q)
    with _registry_lock:
        pool = _persistent_pools.get(queue.int_ptr)
        if pool is None:
            regions = Regions() if has_regions(queue) else None
            pool = _persistent_pools[queue.int_ptr] = PersistentBufferPool(queue.context, queue, regions=regions)
        return pool


def is_integrated_gpu(q: Any = None) -> bool:
    """True if host and device share memory: Intel's integrated GPUs, AMD's APUs, OpenCL CPU devices, NumPy."""
    if getattr(getattr(q, "queue", q), "backend", None) == "cpu":
        return True
    return profile_of(opencl_queue(q)).unified_memory


def has_svm_support(q: Any = None) -> bool:
    """True if the device has shared virtual memory (any cl_device_svm_capabilities)."""
    try:
        return bool(opencl_queue(q).device.svm_capabilities)
    except (cl.Error, AttributeError):  # OpenCL 1.2 has no such query
        return False


def create_pinned_buffer(q: Any, nbytes: int) -> tuple[Any, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Returns an ALLOC_HOST_PTR buffer and its host side, a mapped uint8 array of ``nbytes`` bytes. The mapping ends
    when the array is collected; until then the device must not use the buffer.
    """
    queue = opencl_queue(q)
    if operator.index(nbytes) <= 0:
        raise ShapeError(f"expected at least one byte for a pinned buffer, got {nbytes}")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    access = cl.map_flags.READ | cl.map_flags.WRITE

    def make() -> tuple[Any, Any]:
        buffer = cl.Buffer(queue.context, flags, nbytes)
        return buffer, cl.enqueue_map_buffer(queue, buffer, access, 0, (nbytes,), np.dtype(np.uint8))[0]  # type: ignore[arg-type]

    return retry_on_out_of_memory(queue.context, make, nbytes)


def create_zero_copy_buffer(q: Any, array: np.ndarray[Any, Any]) -> tuple[Any, np.ndarray[Any, Any]]:
    """Returns a USE_HOST_PTR buffer on ``array``'s memory, and the array that owns it, to be kept as long as the
    buffer.

    The returned array is a copy if ``array`` is not C-contiguous or not aligned as the device requires. A read-only
    array gives a READ_ONLY buffer. The host sees device writes after a map or, on devices that share memory, a finish.
    """
    queue = opencl_queue(q)
    if array.nbytes == 0:
        raise ShapeError(f"an empty array of shape {array.shape} has no memory to share")
    alignment = max(64, queue.device.mem_base_addr_align // 8)
    if not array.flags.c_contiguous or array.ctypes.data % alignment:
        array = _aligned_copy(array, alignment)
    access = cl.mem_flags.READ_WRITE if array.flags.writeable else cl.mem_flags.READ_ONLY
    flags = access | cl.mem_flags.USE_HOST_PTR
    return retry_on_out_of_memory(
        queue.context, lambda: cl.Buffer(queue.context, flags, hostbuf=array), array.nbytes
    ), array


def _aligned_copy(array: np.ndarray[Any, Any], alignment: int) -> np.ndarray[Any, Any]:
    raw = np.empty(array.nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    copy: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def empty_cache(q: Any = None) -> None:
    """Gives the unused buffers of the queue's context (None: of all) back to the driver."""
    context = None if q is None else opencl_queue(q).context
    for pool in pools_of(context):
        pool.clear()


def memory_summary(q: Any = None) -> str:
    """Returns a table of the pools of the queue's context (None: of all): in use, cached, peak, hit rate."""
    context = None if q is None else opencl_queue(q).context
    rows = [f"{'pool':<22}{'device':<28}{'in use':>12}{'cached':>12}{'peak':>12}{'hit rate':>10}"]
    for pool in sorted(pools_of(context), key=lambda pool: (type(pool).__name__, id(pool))):
        stats = pool.get_stats()
        sizes = "".join(f"{format_bytes(stats[name]):>12}" for name in ("bytes_in_use", "bytes_cached", "peak_bytes"))
        device = str(pool.context.devices[0].name).strip()[:26]
        rows.append(f"{type(pool).__name__:<22}{device:<28}{sizes}{stats['hit_rate']:>10.1%}")
    return "\n".join(rows)
