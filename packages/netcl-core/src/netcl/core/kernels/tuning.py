"""Measures local sizes of a kernel on copies of its arguments, and drops those that change what it writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

__all__ = ["fastest"]

_RUNS = 5
Size = tuple[int, ...]


def fastest(
    new_kernel: Callable[[], Any], queue: Any, size: Size, plain: Size | None, args: Sequence[Any]
) -> tuple[Size | None, list[Size]]:
    """The fastest local size for ``args``, and those dropped because they write other bits than ``plain`` does.

    ``plain`` None is the driver's choice. None for the fastest where all were dropped.
    """
    wanted = _written(new_kernel(), queue, size, plain, args)
    candidates = _local_sizes(new_kernel(), queue.device, size)
    right = [local for local in candidates if _written(new_kernel(), queue, size, local, args) == wanted]
    copies = [_copied(queue, arg) for arg in args]
    best = min(right, key=lambda local: _seconds(new_kernel(), queue, size, local, copies), default=None)
    return best, [local for local in candidates if local not in right]


def _written(kernel: Any, queue: Any, size: Size, local: Size | None, args: Sequence[Any]) -> list[bytes]:
    """What a run on copies of the arguments leaves in each of their buffers."""
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


def _seconds(kernel: Any, queue: Any, size: Size, local: Size, args: Sequence[Any]) -> float:
    kernel.set_args(*args)
    times = []
    for _ in range(_RUNS + 1):
        queue.finish()
        start = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, size, local)
        queue.finish()
        times.append(time.perf_counter() - start)
    return min(times[1:])  # the first compiles on some drivers


def _local_sizes(kernel: Any, device: Any, size: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Local sizes worth a try: powers of two along the first side that divide it."""
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
