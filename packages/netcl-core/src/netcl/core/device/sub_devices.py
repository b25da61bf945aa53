"""Sub-devices of an OpenCL device, new queues, and ordering between two queues."""

from __future__ import annotations

from typing import Any

from netcl.core import config
from netcl.core.process import late_launches

try:
    import pyopencl
except ImportError:
    cl: Any = None
else:
    cl = pyopencl


_PRIORITY = 0x1096  # CL_QUEUE_PRIORITY_KHR of cl_khr_priority_hints, which pyopencl does not define
_HIGH, _LOW = 1 << 0, 1 << 2


def sub_devices(dev: Any, n: int) -> list[Any]:
    """Returns n sub-devices that divide the compute units evenly; [] if the driver cannot."""
    units = int(dev.max_compute_units)
    if units < n:
        return []
    kind = cl.device_partition_property
    counts = [units // n + (index < units % n) for index in range(n)]
    offered = dev.partition_properties
    try:
        if kind.BY_COUNTS in offered:
            parts = dev.create_sub_devices([kind.BY_COUNTS, *counts, kind.BY_COUNTS_LIST_END])
        elif kind.EQUALLY in offered:
            parts = dev.create_sub_devices([kind.EQUALLY, units // n])
        else:
            return []
    except cl.Error as error:
        config.get_logger().debug("%s cannot be split: %s", dev.name, error)
        return []
    return list(parts[:n]) if len(parts) >= n else []


def new_queue(context: Any, dev: Any, priority: int = 0) -> Any:
    """Returns a command queue, with profiling if NETCL_PROFILE_EVENTS is set. A ``priority`` below 0 requests more of
    the device, above 0 less, if the driver supports the hint.
    """
    kind = cl.command_queue_properties.PROFILING_ENABLE if config.get("PROFILE_EVENTS") else 0
    if priority and "cl_khr_priority_hints" in dev.extensions.split():
        hint = _HIGH if priority < 0 else _LOW
        queue = cl.CommandQueue(context, dev, properties=[cl.queue_properties.PROPERTIES, kind, _PRIORITY, hint])
    else:
        queue = cl.CommandQueue(context, dev, properties=kind)
    # Intel's runtime destroys a context that only its queues refer to; pyopencl keeps a context that was asked for.
    _ = queue.context
    return queue


def order_after(queue: Any, work: Any) -> None:
    """Makes later work of a cl.CommandQueue run after ``work``: a cl.Event, or all work so far of another queue. OpenCL
    does not order work across contexts: for another context this thread waits.
    """
    late_launches.enqueue()
    event = cl.enqueue_marker(work) if isinstance(work, cl.CommandQueue) else work
    if isinstance(work, cl.CommandQueue):
        work.flush()  # a queue that is not flushed may never start, and the other would wait forever
    if event.context == queue.context:
        cl.enqueue_barrier(queue, wait_for=[event])
    else:
        event.wait()
