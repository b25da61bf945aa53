"""Huge pages (MADV_HUGEPAGE) for the buffers of CPU devices, if the system offers them.

A driver allocates pages of 4 KB. On pages of 2 MB kernels with long strides, along columns or by index, wait less for
address translation (column sums, embeddings and transpositions were 1.2 to 1.8 times faster on Intel's runtime), and
the first touch of memory takes half the time.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from netcl.core.process.opencl import cl

LARGE = 4 << 20  # bytes of a buffer from which the request, 0.2 ms, pays off
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def has_huge_pages(context: Any) -> bool:
    """True if buffers of ``context`` are this system's memory, and the system offers huge pages."""
    return _ADVICE is not None and all(device.type & cl.device_type.CPU for device in context.devices)


def advise_huge_pages(queue: Any, buffer: Any, nbytes: int) -> None:
    """Requests huge pages for a new ``buffer``; an error leaves the buffer as it is, and its first use reports it. The
    buffer is mapped only for its address and has no pending writes, so the call does not wait.
    """
    try:
        array, _ = cl.enqueue_map_buffer(
            queue, buffer, cl.map_flags.READ, 0, (nbytes,), np.dtype(np.uint8), is_blocking=False
        )
        start, page = array.ctypes.data, mmap.PAGESIZE
        first, last = -(-start // page) * page, (start + nbytes) // page * page
        if first < last:
            _advise(first, last - first)
        array.base.release(queue)
    except cl.Error:
        return


def _advise(address: int, nbytes: int) -> int:
    """Calls madvise(2); the result is not 0 if the kernel has no huge pages, and the pages then stay small."""
    madvise = ctypes.CDLL(None).madvise
    return int(madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), ctypes.c_int(_ADVICE or 0)))
