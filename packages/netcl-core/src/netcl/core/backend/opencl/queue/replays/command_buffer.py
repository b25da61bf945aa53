"""Binds cl_khr_command_buffer through ctypes, as pyopencl has no binding: kernels are recorded once and enqueued by one
call.

``buffered(launches)`` leaves them as they are where the driver lacks the extension, allows a buffer to be enqueued only
when its last run has ended (replays follow each other without a wait), keeps memory for each command of each run, or
saves no time. Intel's runtime for CPUs (2026.22) keeps 2 KB, also after the end of the run and the release of the
buffer: a training run of 20 launches a step would lose about 4 GB in 100000 steps. PoCL 3.1 keeps nothing, but makes
each command again at each enqueue, and the fixed arguments cost copies: a replay of 28 launches takes 108 to 124
microseconds of host time, 84 with separate launches. A child process measures memory and time once for each driver; on
a system without /proc it cannot, and launches stay as they are. The names, constants and argument lists are from the
OpenCL extension specification, cl_khr_command_buffer.
"""

from __future__ import annotations

import ctypes
import mmap
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netcl.core import config
from netcl.core.backend.opencl.queue.event_free import without_event
from netcl.core.backend.opencl.queue.loader import loader, sizes
from netcl.core.device.drivers.child_probe import RIGHT, SLOWER, WRONG, driver_key, verdict
from netcl.core.device.drivers.kernel_objects import new_kernel, raw_program
from netcl.core.process.opencl import cl

_CAPABILITIES = 0x12A9  # CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR
_SIMULTANEOUS_USE = 0x4
_FLAGS, _FLAG_SIMULTANEOUS_USE = 0x1293, 0x1

# Of the trial: commands in the buffer, runs, bytes that may be kept for each command of each run, timed turns, and the
# share of the time of separate launches below which a buffer pays for copies: its arguments are fixed.
_COMMANDS, _RUNS, _BYTES, _TURNS, _SHARE = 64, 500, 128, 100, 0.9
_TIMEOUT_S = 60.0
# os._exit skips the driver's shutdown, which is not measured.
_CHILD = """\
import os
from netcl.core import config
from netcl.core.device import manager
from netcl.core.backend.opencl.queue.replays.command_buffer import run_trial
with config.override(PLATFORM_FILTER=None):
    devices = [device for _, device in manager.discover()]
os._exit(run_trial(sys.argv[1], devices))
"""

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


@lru_cache(maxsize=16)
def _functions(platform: int, device: int) -> _Functions | None:
    library = loader()
    find: Any = getattr(library, "clGetExtensionFunctionAddressForPlatform", None)
    if library is None or find is None:
        return None
    find.restype, find.argtypes = _Handle, (_Handle, ctypes.c_char_p)
    library.clGetDeviceInfo.argtypes = (_Handle, _Count, ctypes.c_size_t, _Handle, _Handle)
    capabilities = ctypes.c_uint64(0)
    library.clGetDeviceInfo(device, _CAPABILITIES, 8, ctypes.byref(capabilities), None)
    if not capabilities.value & _SIMULTANEOUS_USE:
        return None
    entry_points = []
    for name, signature in _SIGNATURES.items():
        address = find(platform, name.encode())
        if not address:
            return None
        entry_points.append(ctypes.CFUNCTYPE(*signature)(address))
    return _Functions(*entry_points)


def is_kernel(launch: Callable[[], object]) -> bool:
    """True for a partial call of ``enqueue_nd_range_kernel(queue, kernel, global_size, local_size)``."""
    return len(getattr(launch, "args", ())) == 4


def buffered(launches: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
    """Returns the same work in fewer calls: adjacent ``launches`` that are partial calls of
    ``enqueue_nd_range_kernel(queue, kernel, global_size, local_size)`` become a command buffer if the driver allows it.
    Each launch must have its own kernel object, with its arguments set.
    """
    calls: list[Callable[[], object]] = []
    for of_kernels, group in groupby(launches, is_kernel):
        together: list[Any] = list(group)
        command_buffer = _together(together) if of_kernels and len(together) > 1 else None
        calls.extend(together if command_buffer is None else [command_buffer])
    return calls


def are_used(queue: Any) -> bool:
    """True if ``buffered`` makes command buffers on a queue of this device."""
    return _functions_of(queue.device) is not None


def _functions_of(device: Any) -> _Functions | None:
    if "cl_khr_command_buffer" not in device.extensions.split():
        return None
    functions = _functions(device.platform.int_ptr, device.int_ptr)
    return None if functions is None or not passes_trial(device) else functions


def _together(launches: Sequence[Any]) -> _CommandBuffer | None:
    queue = launches[0].args[0]
    functions = _functions_of(queue.device)
    return None if functions is None else _made(functions, queue, launches)


def _made(functions: _Functions, queue: Any, launches: Sequence[Any]) -> _CommandBuffer | None:
    queues = (_Handle * 1)(queue.int_ptr)
    properties = (ctypes.c_uint64 * 3)(_FLAGS, _FLAG_SIMULTANEOUS_USE, 0)
    code = _Code(0)
    buffer = functions.create(1, queues, properties, ctypes.byref(code))
    if not buffer or code.value:
        return None
    command_buffer = _CommandBuffer(functions, buffer, launches)
    for launch in launches:
        _, kernel, global_size, local_size = launch.args
        ranges = None, sizes(global_size), sizes(local_size)
        if functions.add(buffer, None, None, kernel.int_ptr, len(global_size), *ranges, 0, None, None, None):
            return None
    return None if functions.finalize(buffer) else command_buffer


class _CommandBuffer:
    """A command buffer; the launches are kept, as it uses their kernels, and are run if it is refused."""

    def __init__(self, functions: _Functions, buffer: int, launches: Sequence[Callable[[], object]]) -> None:
        self._enqueue, self._buffer, self._launches = functions.enqueue, buffer, launches
        weakref.finalize(self, functions.release, buffer).atexit = False

    def __call__(self) -> None:
        if self._enqueue(0, None, self._buffer, 0, None, None):
            for launch in self._launches:
                launch()


# ------------------------------------------------------------------------------------------------------- the trial


def passes_trial(device: Any) -> bool:
    """True if a child process ran a command buffer many times, the driver kept no memory for it, and its runs took less
    time than separate launches.
    """
    return verdict("command_buffers_pay", driver_key(device), _CHILD, _TIMEOUT_S, driver_key(device))


def run_trial(key: str, devices: Iterable[Any]) -> int:
    """Returns the exit code of the trial on the first of ``devices`` with the driver ``key``. Raises LookupError if
    there is none, or no command buffer can be made on it.
    """
    device = next((candidate for candidate in devices if driver_key(candidate) == key), None)
    if device is None:
        raise LookupError(f"the child does not find the device {key}")
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    values = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(16, np.int32))
    launches = _trial_launches(queue, values)
    functions = _functions(device.platform.int_ptr, device.int_ptr)
    command_buffer = None if functions is None else _made(functions, queue, launches)
    if command_buffer is None:
        raise LookupError(f"no command buffer can be made on {device.name}")
    kept = kept_bytes(queue, command_buffer)
    separate = [without_event(*launch.args) or launch for launch in launches]
    times = least_times(queue, [[command_buffer], separate])
    config.get_logger().debug(
        "%s keeps %.0f bytes for each command of a run of a command buffer; host and elapsed seconds of a run %s, of "
        "separate launches %s",
        *(device.name, kept, *times),
    )
    if kept >= _BYTES:
        return WRONG
    return RIGHT if all(ours < _SHARE * theirs for ours, theirs in zip(*times)) else SLOWER


def _trial_launches(queue: Any, values: Any) -> list[Any]:
    """Returns launches of a small kernel on ``values``, which must live as long as they."""
    program = raw_program(queue.context, "__kernel void probe(__global int* x) { x[get_global_id(0)] += 1; }")
    program._build(b"", [queue.device])
    launches = []
    for _ in range(_COMMANDS):
        kernel = new_kernel(cl.Program(program), "probe")
        kernel.set_arg(0, values)
        launches.append(partial(cl.enqueue_nd_range_kernel, queue, kernel, (16,), None))
    return launches


def kept_bytes(queue: Any, run: Callable[[], object]) -> float:
    """Returns the growth of the process in a run of ``_COMMANDS`` commands, in bytes per command."""
    before = 0
    for number in range(_RUNS + _RUNS // 10):
        if number == _RUNS // 10:  # after one-time allocations
            before = _resident_bytes()
        run()
        queue.finish()
    return (_resident_bytes() - before) / (_RUNS * _COMMANDS)


def least_times(queue: Any, contestants: Sequence[Sequence[Callable[[], object]]]) -> list[tuple[float, float]]:
    """Returns for each of ``contestants`` the seconds until all its calls have returned, and until the queue has ended
    them: the least of turns in which one follows the other.
    """
    turns: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for _ in range(_TURNS):
        for calls, seconds in zip(contestants, turns):
            begin = time.perf_counter()
            for call in calls:
                call()
            returned = time.perf_counter()
            queue.finish()
            seconds.append((returned - begin, time.perf_counter() - begin))
    return [(min(host for host, _ in seconds), min(elapsed for _, elapsed in seconds)) for seconds in turns]


def _resident_bytes() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
