"""Imports pyopencl and the modules of its drivers, queues and probes together, at the first selector other than
``cpu``: they take twice as long to import as NumPy.
"""

from __future__ import annotations

from typing import Any

from netcl.core.device import icd
from netcl.core.device.drivers import quirks
from netcl.core.device.drivers.worker_threads import with_bound_workers
from netcl.core.device.sub_devices import new_queue, sub_devices
from netcl.core.process.opencl import cl

__all__ = ["cl", "has_svm", "icd", "new_queue", "quirks", "sub_devices", "with_bound_workers"]


def has_svm(dev: Any) -> bool:
    """True if the device has shared virtual memory of any kind."""
    try:
        return bool(dev.svm_capabilities)
    except cl.Error:  # before OpenCL 2.0 the query itself raises
        return False
