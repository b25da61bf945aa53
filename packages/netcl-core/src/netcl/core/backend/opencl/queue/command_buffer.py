"""cl_khr_command_buffer through ctypes, as pyopencl has no binding: kernels written down once, enqueued by one call.

``buffered(launches)`` leaves them as they are where the driver lacks the extension, or allows a buffer to be enqueued
only when its last run has ended: replays follow each other without a wait. The names, constants and argument lists are
those of the OpenCL extension specification, cl_khr_command_buffer.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["buffered"]

_CAPABILITIES = 0x12A9  # CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR
_SIMULTANEOUS_USE = 0x4
_FLAGS, _FLAG_SIMULTANEOUS_USE = 0x1293, 0x1

_Handle, _Code, _Count = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32


class _Functions(NamedTuple):
    create: Callable[..., Any]
    add: Callable[..., int]
    finalize: Callable[..., int]
    enqueue: Callable[..., int]
    release: Callable[..., int]


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "clCreateCommandBufferKHR": (_Handle, _Count, _Handle, _Handle, _Handle),
    "clCommandNDRangeKernelKHR": (
        *(_Code, _Handle, _Handle, _Handle, _Handle),
        *(_Count, _Handle, _Handle, _Handle, _Count, _Handle, _Handle, _Handle),
    ),
    "clFinalizeCommandBufferKHR": (_Code, _Handle),
    "clEnqueueCommandBufferKHR": (_Code, _Count, _Handle, _Handle, _Count, _Handle, _Handle),
    "clReleaseCommandBufferKHR": (_Code, _Handle),
}


@lru_cache(maxsize=1)
def _loader() -> Any:
    """The OpenCL loader that pyopencl has opened; None if it cannot be found."""
    try:
        with Path("/proc/self/maps").open() as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libOpenCL" in line}
        library = ctypes.CDLL(min(paths))
        find = library.clGetExtensionFunctionAddressForPlatform
        find.restype, find.argtypes = _Handle, (_Handle, ctypes.c_char_p)
        library.clGetDeviceInfo.argtypes = (_Handle, _Count, ctypes.c_size_t, _Handle, _Handle)
    except (OSError, ValueError, AttributeError):  # not Linux, or a driver without a loader
        return None
    return library


@lru_cache(maxsize=16)
def _functions(platform: int, device: int) -> _Functions | None:
    library = _loader()
    if library is None:
        return None
    capabilities = ctypes.c_uint64(0)
    library.clGetDeviceInfo(device, _CAPABILITIES, 8, ctypes.byref(capabilities), None)
    if not capabilities.value & _SIMULTANEOUS_USE:
        return None
    found = []
    for name, signature in _SIGNATURES.items():
        address = library.clGetExtensionFunctionAddressForPlatform(platform, name.encode())
        if not address:
            return None
        found.append(ctypes.CFUNCTYPE(*signature)(address))
    return _Functions(*found)


def _sizes(values: tuple[int, ...] | None) -> Any:
    return None if values is None else (ctypes.c_size_t * len(values))(*values)


def buffered(launches: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
    """The same work in fewer calls: neighbours among ``launches`` that are partial calls of
    ``enqueue_nd_range_kernel(queue, kernel, global_size, local_size)`` become a command buffer where the driver allows
    it. Each kernel is its launch's own, its arguments set.
    """
    found: list[Callable[[], object]] = []
    for is_kernel, group in groupby(launches, lambda launch: len(getattr(launch, "args", ())) == 4):
        together: list[Any] = list(group)
        made = _together(together) if is_kernel and len(together) > 1 else None
        found.extend(together if made is None else [made])
    return found


def _together(launches: Sequence[Any]) -> _CommandBuffer | None:
    queue = launches[0].args[0]
    device = queue.device
    if "cl_khr_command_buffer" not in device.extensions.split():
        return None
    functions = _functions(device.platform.int_ptr, device.int_ptr)
    if functions is None:
        return None
    queues = (_Handle * 1)(queue.int_ptr)
    properties = (ctypes.c_uint64 * 3)(_FLAGS, _FLAG_SIMULTANEOUS_USE, 0)
    code = _Code(0)
    buffer = functions.create(1, queues, properties, ctypes.byref(code))
    if not buffer or code.value:
        return None
    made = _CommandBuffer(functions, buffer, launches)
    for launch in launches:
        _, kernel, global_size, local_size = launch.args
        sizes = None, _sizes(global_size), _sizes(local_size)
        if functions.add(buffer, None, None, kernel.int_ptr, len(global_size), *sizes, 0, None, None, None):
            return None
    return None if functions.finalize(buffer) else made


class _CommandBuffer:
    """A command buffer; the launches are kept, as it uses their kernels, and are run if it is refused."""

    def __init__(self, functions: _Functions, buffer: int, launches: Sequence[Callable[[], object]]) -> None:
        self._enqueue, self._buffer, self._launches = functions.enqueue, buffer, launches
        weakref.finalize(self, functions.release, buffer).atexit = False

    def __call__(self) -> None:
        if self._enqueue(0, None, self._buffer, 0, None, None):
            for launch in self._launches:
                launch()
