"""Functions that repeat an op by its execution plan: fresh results from the pool, the buffers, the launches.

A function takes the op's arguments and returns its result. It returns None if the call must go through the full
dispatch: during capture and profiling, with a pool of the caller, for a number that its dtype cannot hold, and if
memory is out (full dispatch raises the error).

On 16 elements (Intel's CPU runtime, two cores of a Zen 5 EPYC) a call of an op with one launch takes 2.7 microseconds,
1.4 of them for the enqueue: ``benchmarks/core.py`` measures it. So that function has the lines of ``launch._buffer_of``
and ``Launcher._enqueue`` in it, and ``_fresh`` the lines of ``Tensor._wrap``: a call of another function takes 0.05
microseconds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.queue.launch import PreparedLaunch, released
from netcl.core.device import health
from netcl.core.dtypes import OBJECTS, c_type, compute_type, itemsize
from netcl.core.errors import OutOfMemoryError
from netcl.core.expr.c_types import is_small
from netcl.core.process.late_launches import waiting
from netcl.core.process.opencl import cl
from netcl.core.storage import size
from netcl.core.storage.storage import Storage
from netcl.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext
    from netcl.core.backend.opencl.queue.plans.execution_plan import ExecutionPlan


_CODES = {"float": "f", "double": "d", "int": "i", "long": "q", "uint": "I", "ulong": "Q"}
_PACK = {name: struct.Struct(code).pack for name, code in _CODES.items()}
_SMALL_CODES = {"char": "b", "uchar": "B", "short": "h", "ushort": "H"}


def planned_op(
    engine: QueueContext,
    plan: ExecutionPlan,
    places: Sequence[int],
    results: Sequence[tuple[tuple[int, ...], str]],
    numbers: Sequence[tuple[int, str]] = (),
) -> Callable[[Sequence[Any]], Any] | None:
    """Returns the function that repeats ``plan`` on the arguments of an op. It reads the tensors at ``places`` and
    makes ``results`` of these shapes and dtypes. ``numbers``, arguments by place and dtype, are the open scalars of its
    launch, in order; returns None if a plan with numbers has several launches.
    """
    makers = [_fresh(engine, shape, dtype) for shape, dtype in results]
    plain = len(makers) == 1 and not (plan.others or plan.raises_flag)
    steps: list[tuple[Any, tuple[int, ...]]] = [(step.run, step.tensors) for step in plan.steps]
    if plain and all(isinstance(run, PreparedLaunch) and used.count(len(places)) == 1 for run, used in steps):
        numbers_of_tensors = [*places, None]
        launches: list[tuple[PreparedLaunch, list[tuple[int, int | None]]]] = [
            (run, [(index, numbers_of_tensors[number]) for index, number in zip(run.positions, used)])
            for run, used in steps
        ]
        if len(launches) == 1:
            return _one_launch(engine, *launches[0], makers[0], numbers)
        if not numbers and all(len(run.positions) == len(tensors) for run, tensors in launches):
            return _joining_launches(engine, launches, makers[0], _launches(engine, plan, places, makers))
    return None if numbers else _launches(engine, plan, places, makers)


def _launches(
    engine: QueueContext, plan: ExecutionPlan, places: Sequence[int], makers: Sequence[Callable[[], Tensor | None]]
) -> Callable[[Sequence[Any]], Any]:
    """Returns the function for several launches, or several results, which it returns as a tuple."""
    launcher, state, override_pools = engine.launcher, engine.launcher.state, engine.override_pools
    recordings = launcher.recordings
    single, run = len(makers) == 1, plan.run

    def call(args: Sequence[Any]) -> Any:
        if health.closed or state.lost is not None:
            launcher.check()
        if recordings and get_ident() in recordings:
            return None
        if launcher.sink is not None or override_pools:
            return None
        results: list[Tensor] = []
        for make in makers:
            result = make()
            if result is None:
                return None
            results.append(result)
        try:
            run(engine, [*map(args.__getitem__, places), *results])
        except OutOfMemoryError:
            return None
        return results[0] if single else tuple(results)

    return call


def _one_launch(
    engine: QueueContext,
    prepared: PreparedLaunch,
    tensors: Sequence[tuple[int, int | None]],
    make: Callable[[], Tensor | None],
    numbers: Sequence[tuple[int, str]],
) -> Callable[[Sequence[Any]], Tensor | None]:
    """Returns the function for one launch with one result. ``tensors`` are the places among the arguments of the kernel
    and of the op, None for the result.
    """
    queue, launcher, state, override_pools = engine.queue, engine.launcher, engine.launcher.state, engine.override_pools
    recordings = launcher.recordings
    name, global_size, local_size = prepared.name, prepared.global_size, prepared.local_size
    take, give_back, log = prepared.kernels.pop, prepared.kernels.append, launcher.launched.append
    read = [(index, position) for index, position in tensors if position is not None]
    (written,) = [index for index, position in tensors if position is None]
    open_scalars = prepared.positions[len(tensors) :]
    packed = [(index, position, _pack(dtype)) for index, (position, dtype) in zip(open_scalars, numbers)]

    def noted(args: Sequence[Any]) -> Tensor | None:
        # Launches may wait for their programs, and this one behind them.
        if packed:
            return None
        operands = [args[position] for _, position in read]
        for operand in operands:
            if operand._storage.deferred is not None:
                return None
        result = make()
        if result is None:
            return None
        buffers = [result if position is None else args[position] for _, position in tensors]
        return result if launcher.deferred.launch_noted(prepared, buffers, operands, result) else None

    def call(args: Sequence[Any]) -> Tensor | None:
        # The states in which the call goes through the full dispatch.
        if health.closed or state.lost is not None:
            launcher.check()
        if recordings and get_ident() in recordings:
            return None
        if launcher.sink is not None or override_pools:
            return None
        if waiting:
            return noted(args)
        result = make()
        if result is None:
            return None

        # The kernel: taken, not shared, as another thread or a finaliser in the middle may call the same op.
        try:
            taken = take()
        except IndexError:
            taken = prepared.take()
        kernel, set_arg, event_free = taken

        # Its arguments.
        for index, position in read:
            storage = args[position]._storage
            if storage.deferred is not None:
                storage.materialize()
                storage = args[position]._storage
            allocation = storage.allocation
            if allocation is not None and allocation.buffer is None:
                raise released(name, index)
            set_arg(index, storage.buffer)
        set_arg(written, result._storage.buffer)
        if waiting:  # computing a tensor now has deferred launches
            return None
        if packed:
            try:
                for index, position, pack in packed:
                    kernel._set_arg_buf_multi((index, pack(args[position])))
            except (OverflowError, struct.error):
                return None

        # The launch.
        log(name)
        try:
            if event_free is None:
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            else:
                event_free()
        except cl.Error:
            launcher.enqueue_again(kernel, name, global_size, local_size)
        if launcher.flushes:
            launcher.flush(name)
        give_back(taken)
        return result

    return call


def _joining_launches(
    engine: QueueContext,
    launches: Sequence[tuple[PreparedLaunch, Sequence[tuple[int, int | None]]]],
    make: Callable[[], Tensor | None],
    deferring: Callable[[Sequence[Any]], Any],
) -> Callable[[Sequence[Any]], Any]:
    """Returns the function for launches that write parts of one result, as of a join. ``deferring`` does the same if
    launches wait for their programs. The lines of a launch stand here too: by calls a join of two takes 6.7
    microseconds of the host where this takes 3.7.
    """
    queue, launcher, state, override_pools = engine.queue, engine.launcher, engine.launcher.state, engine.override_pools
    recordings, log = launcher.recordings, launcher.launched.append
    places = sorted({position for _, tensors in launches for _, position in tensors if position is not None})
    parts = [
        (
            prepared,
            [(index, position) for index, position in tensors if position is not None],
            next(index for index, position in tensors if position is None),
            (prepared.name, prepared.global_size, prepared.local_size),
        )
        for prepared, tensors in launches
    ]

    def call(args: Sequence[Any]) -> Any:
        if health.closed or state.lost is not None:
            launcher.check()
        if recordings and get_ident() in recordings:
            return None
        if launcher.sink is not None or override_pools:
            return None
        for position in places:
            storage = args[position]._storage
            if storage.deferred is not None:
                storage.materialize()
                storage = args[position]._storage
            if storage.allocation is not None and storage.allocation.buffer is None:
                return None
        if waiting or launcher.flushes:
            return deferring(args)
        result = make()
        if result is None:
            return None
        written = result._storage.buffer
        for prepared, read, at, (name, global_size, local_size) in parts:
            taken = prepared.take()
            kernel, set_arg, event_free = taken
            for index, position in read:
                set_arg(index, args[position]._storage.buffer)
            set_arg(at, written)
            log(name)
            try:
                if event_free is None:
                    cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
                else:
                    event_free()
            except cl.Error:
                launcher.enqueue_again(kernel, name, global_size, local_size)
            prepared.kernels.append(taken)
        return result

    return call


def _fresh(engine: QueueContext, shape: tuple[int, ...], dtype: str) -> Callable[[], Tensor | None]:
    """Returns the function that makes a tensor in the engine's pool, of undefined content; None if memory is out."""
    allocate, try_reuse = engine.pool.allocate, engine.pool.try_reuse
    nbytes, note = math.prod(shape) * itemsize(dtype), (shape, dtype)
    bucket = engine.pool.bucket_for(nbytes)
    dtype_object, shape_object, new = OBJECTS[dtype], size.Shape(shape), Tensor.__new__

    def make() -> Tensor | None:
        allocation = try_reuse(bucket, bucket, nbytes, note)
        if allocation is None:
            try:
                allocation = allocate(nbytes, None, note)
            except OutOfMemoryError:
                return None
        t = new(Tensor)
        s = t._storage = Storage()
        s.buffer = allocation.buffer
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
        return t

    return make


def _pack(dtype: str) -> Callable[[Any], bytes]:
    """Returns the function that packs a number of ``dtype`` to bytes of its computing type; it raises struct.error if
    the number is out of the range of ``dtype``.
    """
    wide = _PACK[compute_type(dtype)]
    if not is_small(dtype):
        return wide
    stored = struct.Struct(_SMALL_CODES[c_type(dtype)])
    return lambda number: wide(stored.unpack(stored.pack(number))[0])
