"""The warm call of an op: one kernel into one fresh output, in as few steps as Python allows.

An op's first run finds its program, its plan and its launch; ``warm_call`` keeps what came of it, so that a later run
on tensors of the same shapes and dtypes takes an output from the pool, sets the buffers and enqueues. Ops that take
more than one launch, or raise a flag, have no warm call.

On 16 elements (Intel's CPU runtime, two cores of a Zen 4 EPYC) a call takes 3.6 microseconds, of which the enqueue is
1.4, and took 11 without this file: ``benchmarks/core.py`` measures it. That is why ``run`` repeats here what
``Tensor._wrap`` and ``Launcher._enqueue`` do: each call of a Python function costs about 0.06.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from netcl.core import queue_state
from netcl.core.backend.opencl.launch import PreparedLaunch, released
from netcl.core.dtypes import compute_type, itemsize
from netcl.core.optable import Operand
from netcl.core.tensor import Tensor

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from netcl.core.backend.opencl import OpenCLBackend
    from netcl.core.expr.schedule import Launch
    from netcl.core.program import Program

Shape = tuple[int, ...]

_PACK = {
    name: struct.Struct(code).pack for name, code in (("float", "f"), ("double", "d"), ("int", "i"), ("long", "q"))
}


def warm_call(
    engine: OpenCLBackend, program: Program, args: Sequence[Any], scalars: Mapping[str, float | int]
) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """The warm call of an op that has just run ``program`` on ``args``, its operands in order; None where there is
    none."""
    places = [position for position, value in enumerate(args) if isinstance(value, Operand)]
    key = (program.outputs, tuple([args[position].shape for position in places]), program.shapes)
    ready = engine.plans.get(key)
    if ready is None or len(ready.launches) != 1 or len(program.outputs) != 1 or ready.plan.temporaries:
        return None
    launch: Launch = ready.launches[0].launch
    if launch.flag or len(launch.outputs) != 1:
        return None
    given = {f"v{position}": position for position, value in enumerate(args) if position not in places}
    first = len(launch.inputs) + 1 + len(launch.numbers)
    numbers = [
        (index, given[name], _PACK[compute_type(dtype)])
        for index, (name, dtype) in enumerate(launch.scalars, first)
        if name in given
    ]
    prepared = ready.launches[0].prepare(scalars, given)
    tensors = [(index, places[slot]) for index, slot in enumerate(launch.inputs)]
    shape, dtype = program.finals[0], program.outputs[0].dtype
    # A bound method: calling an object would take a frame of C in between.
    return WarmCall(engine, prepared, shape, dtype, tensors, len(launch.inputs), numbers).run


_new_tensor = Tensor.__new__


class WarmCall:
    """``run(args)`` computes what an op did on arguments of the same description; None where the op has to take the
    long way: while this thread records, or with a number that the kernel's type cannot hold.
    """

    __slots__ = (
        "_bucket",
        "_context",
        "_dtype",
        "_engine",
        "_global_size",
        "_kernels",
        "_launcher",
        "_local_size",
        "_name",
        "_nbytes",
        "_note",
        "_numbers",
        "_output",
        "_pool",
        "_prepared",
        "_queue",
        "_shape",
        "_tensors",
    )

    def __init__(
        self,
        engine: OpenCLBackend,
        prepared: PreparedLaunch,
        shape: Shape,
        dtype: str,
        tensors: Sequence[tuple[int, int]],
        output: int,
        numbers: Sequence[tuple[int, int, Any]],
    ) -> None:
        self._engine = engine
        self._queue = engine.queue
        self._context = engine.context
        self._launcher = engine.launcher
        self._pool = engine.pool
        self._prepared = prepared
        self._kernels = prepared.kernels
        self._name, self._global_size, self._local_size = prepared.name, prepared.global_size, prepared.local_size
        self._shape, self._dtype = shape, dtype
        self._note = (shape, dtype)
        self._nbytes = math.prod(shape) * itemsize(dtype)
        self._bucket = engine.pool.bucket_for(self._nbytes)
        self._tensors = tuple(tensors)  # (argument of the kernel, argument of the op)
        self._output = output
        self._numbers = tuple(numbers)  # the same, and what makes bytes of the number

    def run(self, args: Sequence[Any]) -> Tensor | None:
        """The result for ``args``, or None."""
        launcher = self._launcher
        if queue_state.forked or launcher.state.lost is not None:
            launcher.check()
        recording = launcher.recording
        if recording is not None and recording.thread == get_ident():
            return None
        bucket = self._bucket
        lease = self._pool.lend_again(bucket, bucket, self._nbytes, self._note)
        if lease is None:
            lease = self._pool.allocate(self._nbytes, None, self._note)
        buffer = lease.buffer
        t = _new_tensor(Tensor)
        t.buffer = buffer
        t.shape = self._shape
        t.dtype = self._dtype
        # mypy does not see the slots of the base class.
        t.engine = self._engine  # type: ignore[misc]
        t.queue = self._queue
        t.context = self._context
        t.pool_handle = lease
        t.persistent = False
        t.requires_grad = False
        t.grad = None
        t.grad_fn = None
        t.backend = "cl"
        t.array = None
        t.pending_event = None
        t.pending_release = None
        t.host_ref = None
        t._version = [0]  # type: ignore[misc]
        # Taken, not shared: another thread, or a finaliser that runs in the middle, may call the same op.
        try:
            kernel = self._kernels.pop()
        except IndexError:
            kernel = self._prepared.new_kernel()
        set_arg = kernel.set_arg
        for index, position in self._tensors:
            tensor = args[position]
            handle = tensor.pool_handle
            if handle is not None and handle.buffer is None:
                raise released(self._name, index)
            set_arg(index, tensor.buffer)
        set_arg(self._output, buffer)
        if self._numbers:
            for index, position, pack in self._numbers:
                try:
                    kernel._set_arg_buf_multi((index, pack(args[position])))
                except (OverflowError, struct.error):
                    return None
        launcher.launched.append(self._name)
        try:
            cl.enqueue_nd_range_kernel(self._queue, kernel, self._global_size, self._local_size)
        except cl.Error:
            launcher.enqueue_again(kernel, self._name, self._global_size, self._local_size)
        if launcher.flushes:
            self._queue.flush()
        self._kernels.append(kernel)
        return t
