"""Sub-devices of an OpenCL device, and queues on it."""

from __future__ import annotations

from typing import Any

from . import config

try:
    import pyopencl
except ImportError:
    cl: Any = None
else:
    cl = pyopencl

__all__ = ["new_queue", "sub_devices"]


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


def new_queue(context: Any, dev: Any) -> Any:
    """A command queue, with profiling where NETCL_PROFILE_EVENTS asks for it."""
    if config.get("PROFILE_EVENTS"):
        return cl.CommandQueue(context, dev, properties=cl.command_queue_properties.PROFILING_ENABLE)
    return cl.CommandQueue(context, dev)
