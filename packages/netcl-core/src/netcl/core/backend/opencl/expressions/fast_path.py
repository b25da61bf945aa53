"""The warm call of an op: one kernel into one fresh output, in as few steps as Python allows, or several.

An op's first run finds its program, its plan and its launch; ``warm_call`` keeps what came of it, so that a later run
on tensors of the same shapes and dtypes takes an output from the pool, sets the buffers and enqueues. Ops that raise a
flag have no warm call.

On 16 elements (Intel's CPU runtime, two cores of a Zen 4 EPYC) a call takes 3.5 microseconds, of which the enqueue is
1.4, and took 11 without this file: ``benchmarks/core.py`` measures it. That is why the warm call is one function that
repeats what ``Tensor._wrap`` and ``Launcher._enqueue`` do, with all it needs in its closure: a call of another function
takes 0.06 microseconds, an attribute 0.005, and it needs thirty.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.queue.launch import PreparedLaunch, released
from netcl.core.device import health
from netcl.core.dtypes import OBJECTS, c_type, compute_type, itemsize
from netcl.core.errors import OutOfMemoryError
from netcl.core.expr.c_types import is_small
from netcl.core.late_launches import waiting
from netcl.core.tensor import size
from netcl.core.tensor.data import TensorData
from netcl.core.tensor.storage import Storage
from netcl.core.tensor.tensor import Tensor

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext
    from netcl.core.expr.schedule import Launch
    from netcl.core.ops_table.program import Program

Shape = tuple[int, ...]

_CODES = {"float": "f", "double": "d", "int": "i", "long": "q", "uint": "I", "ulong": "Q"}
_PACK = {name: struct.Struct(code).pack for name, code in _CODES.items()}
_SMALL_CODES = {"char": "b", "uchar": "B", "short": "h", "ushort": "H"}


def _pack(dtype: str) -> Callable[[Any], bytes]:
    """The function that makes bytes of a number of ``dtype``, in the type that kernels compute it in; it raises
    struct.error if the number is out of the range of ``dtype``.
    """
    wide = _PACK[compute_type(dtype)]
    if not is_small(dtype):
        return wide
    stored = struct.Struct(_SMALL_CODES[c_type(dtype)])
    return lambda number: wide(stored.unpack(stored.pack(number))[0])


def warm_call(
    engine: QueueContext, program: Program, args: Sequence[Any], scalars: Mapping[str, float | int]
) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """The fast path of an op that has just run ``program`` on ``args``, its operands in order; None if there is
    none."""
    places = [position for position, value in enumerate(args) if isinstance(value, TensorData)]
    key = (program.outputs, tuple([args[position].shape for position in places]), program.shapes)
    ready = engine.plans.get(key)
    if ready is None or ready.empty or any(one.launch.flag for one in ready.launches):
        return None
    given = {f"v{position}": position for position, value in enumerate(args) if position not in places}
    if len(ready.launches) != 1 or len(program.outputs) != 1:
        if any(args[position] is not None for position in given.values()):  # numbers, which differ from call to call
            return None
        return _several(engine, program, ready, places, scalars)
    launch: Launch = ready.launches[0].launch
    first = len(launch.inputs) + 1 + len(launch.numbers)
    numbers = [
        (index, given[name], _pack(dtype)) for index, (name, dtype) in enumerate(launch.scalars, first) if name in given
    ]
    prepared = ready.launches[0].prepare(scalars, given)
    tensors = [(index, places[slot]) for index, slot in enumerate(launch.inputs)]
    shape, dtype = program.finals[0], program.outputs[0].dtype
    return one_launch(engine, prepared, shape, dtype, tensors, len(launch.inputs), numbers)


def _several(
    engine: QueueContext, program: Program, ready: Any, places: Sequence[int], scalars: Mapping[str, float | int]
) -> Callable[[Sequence[Any]], Any]:
    """The warm call of what takes several launches or has several results, over tensors at ``places``."""
    launcher, state, override_pools, empty = engine.launcher, engine.launcher.state, engine.override_pools, engine.empty
    launches = [(one.prepare(scalars), (*one.launch.inputs, *one.launch.outputs)) for one in ready.launches]
    made = [(shape, output.dtype) for shape, output in zip(program.finals, program.outputs)]
    temporaries = ready.plan.temporaries
    single = len(made) == 1

    def warm(args: Sequence[Any]) -> Any:
        """The result for ``args``, or a tuple of several; None during capture and profiling, and with an overriding
        pool.
        """
        if health.closed or state.lost is not None:
            launcher.check()
        recording = launcher.recording
        if recording is not None and recording.thread == get_ident():
            return None
        if launcher.sink is not None or override_pools:
            return None
        try:
            results = [empty(shape, dtype) for shape, dtype in made]
            tensors = [args[place] for place in places]
            tensors += results
            tensors += [empty(shape, dtype) for shape, dtype in temporaries]
        except OutOfMemoryError:  # the long way says of which op
            return None
        for prepared, slots in launches:
            prepared(*[tensors[slot] for slot in slots])
        return results[0] if single else tuple(results)

    return warm


_new_tensor = Tensor.__new__


def one_launch(
    engine: QueueContext,
    prepared: PreparedLaunch,
    shape: Shape,
    dtype: str,
    tensors: Sequence[tuple[int, int]],
    output: int,
    numbers: Sequence[tuple[int, int, Any]],
) -> Callable[[Sequence[Any]], Tensor | None]:
    """The warm call of what is one launch, over what it needs: ``tensors`` are (argument of the kernel, argument of the
    op), ``numbers`` have also what makes bytes of the number, ``output`` is the result's argument of the kernel.
    """
    queue, launcher, state = engine.queue, engine.launcher, engine.launcher.state
    allocate, try_reuse = engine.pool.allocate, engine.pool.try_reuse
    name, global_size, local_size = prepared.name, prepared.global_size, prepared.local_size
    nbytes, note = math.prod(shape) * itemsize(dtype), (shape, dtype)
    bucket = engine.pool.bucket_for(nbytes)
    dtype_object, shape_object = OBJECTS[dtype], size.Shape(shape)
    kernels, launched, override_pools = prepared.kernels, launcher.launched, engine.override_pools

    def warm(args: Sequence[Any]) -> Tensor | None:
        """The result for ``args``; None during capture and profiling, with an overriding pool, while launches wait
        for their programs, and for a number that the operands' dtype cannot hold."""
        if health.closed or state.lost is not None:
            launcher.check()
        recording = launcher.recording
        if recording is not None and recording.thread == get_ident():
            return None
        if launcher.sink is not None or override_pools or waiting:
            return None
        allocation = try_reuse(bucket, bucket, nbytes, note)
        if allocation is None:
            try:
                allocation = allocate(nbytes, None, note)
            except OutOfMemoryError:  # the long way says of which op
                return None
        buffer = allocation.buffer
        # Tensor._wrap
        t = _new_tensor(Tensor)
        s = t._storage = Storage()
        s.buffer = buffer
        s.array = None
        s.allocation = allocation
        s.version = 0
        s.persistent = False
        s.deferred = None
        s.upload = None
        s.views = None
        t.engine = engine  # type: ignore[assignment]
        t.shape = shape_object
        t.dtype = dtype_object
        t._requires_grad = False
        t._grad = None
        t._grad_fn = None
        t._base = None
        # Taken, not shared: another thread, or a finaliser that runs in the middle, may call the same op.
        try:
            taken = kernels.pop()
        except IndexError:
            taken = prepared.take()
        kernel, set_arg, event_free = taken
        for index, position in tensors:
            s = args[position]._storage
            if s.deferred is not None:
                s.materialize()
                s = args[position]._storage
            handle = s.allocation
            if handle is not None and handle.buffer is None:
                raise released(name, index)
            set_arg(index, s.buffer)
        set_arg(output, buffer)
        if numbers:
            for index, position, pack in numbers:
                try:
                    kernel._set_arg_buf_multi((index, pack(args[position])))
                except (OverflowError, struct.error):
                    return None
        # Launcher._enqueue.
        launched.append(name)
        try:
            if event_free is None:
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            else:
                event_free()
        except cl.Error:
            launcher.enqueue_again(kernel, name, global_size, local_size)
        if launcher.flushes:
            queue.flush()
        kernels.append(taken)
        return t

    return warm
