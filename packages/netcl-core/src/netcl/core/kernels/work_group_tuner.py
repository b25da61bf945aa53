"""Measures local sizes of a kernel on copies of its arguments, and drops sizes that change its output."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.core.process.opencl import cl

_RUNS = 5
Size = tuple[int, ...]


def fastest(
    new_kernel: Callable[[], Any], queue: Any, size: Size, plain: Size | None, args: Sequence[Any]
) -> tuple[Size | None, list[Size]]:
    """Returns the fastest local size for ``args``, and the sizes dropped because they write other bits than ``plain``.
    ``plain`` None is the driver's choice. The fastest is None if all sizes were dropped.
    """
    expected = _written(new_kernel(), queue, size, plain, args)
    candidates = local_sizes(new_kernel(), queue.device, size)
    right = [local for local in candidates if _written(new_kernel(), queue, size, local, args) == expected]
    kernel, copies = new_kernel(), [_copied(queue, arg) for arg in args]
    kernel.set_args(*copies)
    times = {local: taken for local in right if (taken := seconds(kernel, queue, size, local)) is not None}
    best = min(times, key=lambda local: times[local], default=None)
    return best, [local for local in candidates if local not in right]


def _written(kernel: Any, queue: Any, size: Size, local: Size | None, args: Sequence[Any]) -> list[bytes]:
    """Returns the contents of each buffer after a run on copies of the arguments."""
    copies = [_copied(queue, arg) for arg in args]
    kernel.set_args(*copies)
    cl.enqueue_nd_range_kernel(queue, kernel, size, local)
    contents = []
    for copy in copies:
        if isinstance(copy, cl.Buffer):
            content = np.empty(copy.size, np.uint8)
            cl.enqueue_copy(queue, content, copy)
            contents.append(content.tobytes())
    return contents


def seconds(kernel: Any, queue: Any, size: Size, local: Size) -> float | None:
    """Returns the fastest of a few runs of a kernel with arguments set, or None if the driver refuses the local size.
    The time is the event's if the queue records one that is not longer than the wall clock's.
    """
    times = []
    for _ in range(_RUNS + 1):
        queue.finish()
        start = time.perf_counter()
        try:
            event = cl.enqueue_nd_range_kernel(queue, kernel, size, local)
        except cl.LogicError:
            return None
        queue.finish()
        times.append(min(time.perf_counter() - start, _on_device(event) or float("inf")))
    return min(times[1:])  # the first run compiles on some drivers


def _on_device(event: Any) -> float:
    """Returns the seconds of a complete event by the device's clock; 0 if it has none."""
    try:
        return float(event.profile.end - event.profile.start) * 1e-9
    except cl.Error:
        return 0.0


def local_sizes(kernel: Any, device: Any, size: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the local sizes to try: powers of two along the first side that divide it."""
    limit = min(
        kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device), device.max_work_item_sizes[0]
    )
    sides = [1 << power for power in range(int(limit).bit_length()) if size[0] % (1 << power) == 0]
    return [(side, *(1 for _ in size[1:])) for side in sides]


def _copied(queue: Any, arg: Any) -> Any:
    buffer = getattr(arg, "buffer", arg)
    if not isinstance(buffer, cl.Buffer):
        return arg
    copy = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, buffer.size)
    cl.enqueue_copy(queue, copy, buffer)
    return copy
