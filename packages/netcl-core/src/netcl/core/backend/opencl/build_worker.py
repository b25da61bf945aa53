"""The child process that builds programs for another: reads requests on its standard input, answers with a byte.

The parent finds the programs in the caches on disk: netcl's, and the driver's own. A driver that compiles a kernel at
its launch, for the size of a group (PoCL), gets such a launch on zeroed buffers of the same sizes as in the parent: one
group, or all groups if the driver compiles for the global size.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import IO, Any

import numpy as np

from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import engine_of_driver
from netcl.core.backend.opencl.queue.builds.build_request import READY, Request
from netcl.core.device.drivers.kernel_objects import new_kernel
from netcl.core.process.opencl import cl


def answer(key: str) -> None:
    """Builds the programs requested on the standard input, on the device with the driver ``key``, until the input is
    closed. It writes READY, then for each request the byte 1, or 0 if the program does not build.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is the parent's
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    with open(os.devnull, "wb") as nothing:  # a driver may write to the standard output
        os.dup2(nothing.fileno(), 1)
    engine = engine_of_driver(key)
    answers.write(READY)
    while (request := _next(sys.stdin.buffer)) is not None:
        try:
            _build(engine, request)
        except Exception:  # noqa: BLE001 (of any kind: the parent builds the program itself, and reports the error)
            answers.write(b"\0")
        else:
            answers.write(b"\1")


def _next(requests: IO[bytes]) -> Request | None:
    try:
        request: Request = pickle.load(requests)
    except EOFError:
        return None
    return request


def _build(engine: Any, request: Request) -> None:
    queue = engine.queue
    program = engine.launcher.programs.get_program(queue.context, request.source, queue.device, request.options)
    launch = request.launch
    if launch is None:
        return
    kernel = new_kernel(program, launch.kernel)
    kept = [_argument(queue.context, *argument) for argument in launch.arguments]
    for index, argument in enumerate(kept):
        kernel.set_arg(index, argument)
    cl.enqueue_nd_range_kernel(queue, kernel, launch.global_size, launch.local_size)
    queue.finish()


def _argument(context: Any, kind: str, value: int | bytes) -> Any:
    if kind == "buffer":  # on memory that is zero without having been written
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(context, flags, hostbuf=np.zeros(value, np.uint8))
    return value if isinstance(value, bytes) else cl.LocalMemory(value)
