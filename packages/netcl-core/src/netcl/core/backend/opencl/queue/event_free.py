"""clEnqueueNDRangeKernel without an event, which pyopencl always asks for.

An event costs the driver of a GPU time on the host and on the device: with NVIDIA's driver 580 on an H200 the replay of
a step of GPT-2 in float32 took 51 ms of host time with events and 8.5 without, the step 73.6 and 70.8. Through ctypes,
with arguments that are converted once, a call takes 0.4 microseconds more than the driver's own time. Drivers of CPUs
run pyopencl's call faster (docs/design/execution-plans.md).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from netcl.core.backend.opencl.queue.loader import loader, sizes
from netcl.core.process.opencl import cl

_CPU = 1 << 1  # CL_DEVICE_TYPE_CPU


@lru_cache(maxsize=1)
def _function() -> Any:
    return getattr(loader(), "clEnqueueNDRangeKernel", None)


def without_event(
    queue: Any, kernel: Any, global_size: tuple[int, ...], local_size: tuple[int, ...] | None
) -> Callable[[], None] | None:
    """Returns the launch of ``kernel`` without an event, None if the device is a CPU or the loader is not found. The
    arguments of the kernel may change between calls. A call raises pyopencl's error if the driver refuses the launch.
    """
    function = None if queue.device.type & _CPU else _function()
    if function is None:
        return None
    handles = ctypes.c_void_p(queue.int_ptr), ctypes.c_void_p(kernel.int_ptr)
    ranges = None, sizes(global_size), sizes(local_size)
    enqueue = partial(function, *handles, len(global_size), *ranges, 0, None, None)

    def launch() -> None:
        if enqueue():
            cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)

    return launch
