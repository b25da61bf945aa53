"""Probes of OpenCL drivers: half arithmetic, vectors of sixteen lanes, order of kernels.

``half_works`` and ``sixteen_lanes_work`` compile code that drivers may fail on, in a child process; ``needs_flush``
launches dependent kernels in this process. ``choose_work_group_method`` and ``name_processor`` decide by the version,
without a probe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from netcl.core import config
from netcl.core.device.drivers import llvm_processor
from netcl.core.device.drivers.child_probe import RIGHT, WRONG, driver_key, verdict
from netcl.core.device.drivers.kernel_objects import new_kernel, raw_program
from netcl.core.process.opencl import cl

# Distinguishes half arithmetic from float arithmetic with rounded storage: 2048 + 1 is 2048 in half, so the result is
# 0.
_HALF = """
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
__kernel void probe(__global const float* x, __global float* out) {
    size_t i = get_global_id(0);
    half a = (half)x[2 * i], b = (half)x[2 * i + 1];
    half sum = a + b;
    out[2 * i] = (float)(sum - a);
    out[2 * i + 1] = (float)(a * b);
}
"""
# The multiply-add of contractions, and stores and loads as float16 and as bfloat16; LLVM 14 (PoCL 3.0) aborts the
# process on sixteen lanes of them, or passes them to its library in a way that the library does not expect.
_SIXTEEN = """
__kernel void probe(__global const float* x, __global float* out) {
    float16 sum = 0, a = vload16(0, x);
    for (int k = 0; k < 16; k++) sum += x[k] * a;
    vstore16(sum, 0, out);
    out[16] = fma(a, a, sum).s5;
    __global ushort* halves = (__global ushort*)(out + 49);
    vstore_half16_rte(a, 0, (__global half*)halves);
    vstore16(vload_half16(0, (__global half*)halves), 0, out + 17);
    vstore16(convert_ushort16((as_uint16(a) + 0x7fffu + ((as_uint16(a) >> 16) & 1u)) >> 16), 0, halves);
    vstore16(as_float16(convert_uint16(vload16(0, halves)) << 16), 0, out + 33);
}
"""
_SHIFTED = """
__kernel void probe(__global const uint* x, __global uint* out, const uint count) {
    uint i = get_global_id(0);
    out[i] = x[(i * 7u + 4099u) % count] + 1u;
}
"""
_TIMEOUT_S = 30.0
_CHAIN = 48
_COUNT = 1 << 14


def half_works(device: Any) -> bool:
    """True if half arithmetic compiled and gave the right result in a child process."""
    return _tried("half_arithmetic", device)


def sixteen_lanes_work(device: Any) -> bool:
    """True if multiply-adds of sixteen floats, and conversions to and from halves, were right in a child process."""
    return _tried("sixteen_lanes_of_halves", device)


def needs_flush(device: Any) -> bool:
    """True if a kernel sees the writes of the kernel before it only if the queue is flushed between the two."""
    try:
        return not verdict("kernel_order", driver_key(device), partial(_ordered, device))
    except cl.Error as error:  # no kernel runs on it; the first launch of the program reports the error
        config.get_logger().debug("the order of kernels on %s is not known: %s", device.name, error)
        return False


def pocl_major(version: str) -> int | None:
    """Returns the major version of PoCL in the ``version`` of a platform, None if the platform is another one."""
    match = re.search(r"pocl (\d+)", version.lower())
    return int(match[1]) if match else None


def choose_work_group_method(platforms: Iterable[Any]) -> None:
    """Lets PoCL 4 to 6 build kernels with barriers by continuations (``POCL_WORK_GROUP_METHOD=cbs``), unless the user
    chose a method.

    Built by loops over work-items, programs are wrong at random (docs/design/pocl.md). PoCL 3 has no other method,
    and writes a message for each kernel if one is requested.
    """
    versions = {major for platform in platforms if (major := pocl_major(platform.version))}
    if versions & {4, 5, 6} and min(versions) >= 4:
        os.environ.setdefault("POCL_WORK_GROUP_METHOD", "cbs")


def name_processor(platform: Any, device: Any) -> None:
    """Lets a device of PoCL 3 compile for a processor that its LLVM does not know (docs/design/pocl.md)."""
    if pocl_major(platform.version) == 3:
        llvm_processor.name_processor(device)


# os._exit skips the driver's shutdown: PoCL may abort there, which is not tested.
_CHILD = """\
import os
from netcl.core import config
from netcl.core.device import manager
from netcl.core.device.drivers.quirks import run_trial
with config.override(PLATFORM_FILTER=None):
    devices = [device for _, device in manager.discover()]
os._exit(run_trial({name!r}, sys.argv[1], devices))
"""


def _tried(name: str, device: Any) -> bool:
    return verdict(name, driver_key(device), _CHILD.format(name=name), _TIMEOUT_S, driver_key(device))


def run_trial(name: str, key: str, devices: Iterable[Any]) -> int:
    """Returns the exit code of a trial on the first device with the driver ``key``; LookupError without one."""
    device = next((candidate for candidate in devices if driver_key(candidate) == key), None)
    if device is None:
        raise LookupError(f"the child does not find the device {key}")
    return RIGHT if _TRIALS[name](device) else WRONG


def _run(device: Any, source: str, values: Any, count: int, items: int) -> Any:
    """Returns the output of the kernel ``probe(values, out)``, or None if the driver rejects it."""
    result = np.empty(count, values.dtype)
    try:
        context = cl.Context([device])
        queue = cl.CommandQueue(context, device)
        kernel = _kernel(context, device, source)
        flags = cl.mem_flags
        source_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=values)
        target = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
        kernel(queue, (items,), None, source_buffer, target)
        cl.enqueue_copy(queue, result, target)
    except cl.Error as error:
        config.get_logger().debug("%s refuses a probe: %s", device.name, error)
        return None
    return result


def _kernel(context: Any, device: Any, source: str) -> Any:
    program = raw_program(context, source)
    program._build(b"", [device])
    return new_kernel(cl.Program(program), "probe")


def _half(device: Any) -> bool:
    values = np.array([2048.0, 1.0, 1.5, 3.0], np.float32)
    result = _run(device, _HALF, values, 4, 2)
    return result is not None and np.array_equal(result, np.array([0.0, 2048.0, 3.0, 4.5], np.float32))


def _sixteen(device: Any) -> bool:
    values = np.arange(1, 17, dtype=np.float32)
    result = _run(device, _SIXTEEN, values, 57, 1)
    sums = values * values.sum()
    expected = np.concatenate([sums, [values[5] ** 2 + sums[5]], values, values])
    return result is not None and np.array_equal(result[:49], expected)


def _ordered(device: Any) -> bool:
    """True if a chain of kernels is right without a flush; each reads all of its predecessor's output."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    kernel = _kernel(context, device, _SHIFTED)
    start = np.zeros(_COUNT, np.uint32)
    flags = cl.mem_flags
    buffers = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=start) for _ in range(2)]
    for step in range(_CHAIN):
        kernel(queue, (_COUNT,), None, buffers[step % 2], buffers[1 - step % 2], np.uint32(_COUNT))
    result = np.empty_like(start)
    cl.enqueue_copy(queue, result, buffers[_CHAIN % 2])
    return bool((result == _CHAIN).all())


_TRIALS: dict[str, Callable[[Any], bool]] = {
    "half_arithmetic": _half,
    "sixteen_lanes_of_halves": _sixteen,
}
