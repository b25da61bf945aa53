"""Sub-devices of an OpenCL device, queues on it, and the order between two queues."""

from __future__ import annotations

from typing import Any

from netcl.core import config

try:
    import pyopencl
except ImportError:
    cl: Any = None
else:
    cl = pyopencl

__all__ = ["new_queue", "order_behind", "sub_devices"]

_PRIORITY = 0x1096  # CL_QUEUE_PRIORITY_KHR, of cl_khr_priority_hints, which pyopencl does not name
_HIGH, _LOW = 1 << 0, 1 << 2


def sub_devices(dev: Any, n: int) -> list[Any]:
    """n sub-devices that share the compute units out evenly; empty where the driver cannot."""
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
    """A command queue, with profiling where NETCL_PROFILE_EVENTS asks for it; a ``priority`` below 0 is a hint for more
    of the device, above 0 for less, where the driver takes hints.
    """
    kind = cl.command_queue_properties.PROFILING_ENABLE if config.get("PROFILE_EVENTS") else 0
    if priority and "cl_khr_priority_hints" in dev.extensions.split():
        hint = _HIGH if priority < 0 else _LOW
        return cl.CommandQueue(context, dev, properties=[cl.queue_properties.PROPERTIES, kind, _PRIORITY, hint])
    return cl.CommandQueue(context, dev, properties=kind)


def order_behind(queue: Any, work: Any) -> None:
    """Later work of a cl.CommandQueue runs after ``work``: a cl.Event, or all work so far of another queue. For work of
    another context, which OpenCL does not order, this thread waits.
    """
    event = cl.enqueue_marker(work) if isinstance(work, cl.CommandQueue) else work
    if isinstance(work, cl.CommandQueue):
        work.flush()  # a queue that is not flushed may never start, and the other would wait for ever
    if event.context == queue.context:
        cl.enqueue_barrier(queue, wait_for=[event])
    else:
        event.wait()
