"""Runs expressions on a queue, by execution plans that are made once for shapes and launch scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.queue.plans.execution_plan import ExecutionPlan, Made, keep, steps_of
from netcl.core.backend.opencl.queue.plans.planned_op import planned_op
from netcl.core.dtypes import compute_type
from netcl.core.expr.nodes import Expr, Load
from netcl.core.expr.schedule import Launch, Plan, Target, make_plan
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.program import Program
from netcl.core.storage.data import TensorData

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext
    from netcl.core.backend.opencl.queue.launch import PreparedLaunch

Shape = tuple[int, ...]
Scalars = Mapping[str, float | int]

SCALAR_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long": np.int64,
    "uint": np.uint32,
    "ulong": np.uint64,
}
_EXACT_DIVISION = 1 << 7  # CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
_VARIANTS_MAX = 16  # plans kept for different values of the launch scalars


class PlannedRun:
    """A run of expressions on inputs of given shapes: the shapes and dtypes of its results, its launches, and its
    execution plans by the values of the launch scalars.
    """

    __slots__ = (
        "_launches",
        "_made",
        "_names",
        "_only",
        "_plans",
        "_sizes",
        "dtypes",
        "empty",
        "engine",
        "launches",
        "shapes",
    )

    def __init__(
        self, engine: QueueContext, plan: Plan, inputs: int, shapes: Sequence[Shape], outputs: Sequence[Expr]
    ) -> None:
        self.engine = engine
        self.shapes = tuple(shapes)
        self.dtypes = tuple(output.dtype for output in outputs)
        self.empty = any(math.prod(shape) == 0 for shape in shapes)
        self.launches: list[Launch] = [] if self.empty else plan.launches
        self._sizes = plan.sizes
        self._made = [
            Made(number, *temporary) for number, temporary in enumerate(plan.temporaries, inputs + len(outputs))
        ]
        names = [name for launch in self.launches for name, _ in launch.scalars if name not in plan.sizes]
        self._names = tuple(dict.fromkeys(names))
        self._plans: dict[tuple[Any, ...], ExecutionPlan] = {}
        # Launches without scalars serve all plans.
        self._launches = [None if self._wants(launch) else self._prepared(launch, {}) for launch in self.launches]
        self._only = None if self._names else self.prepare({})

    def plan(self, scalars: Scalars) -> ExecutionPlan:
        """Returns the plan for these values of the launch scalars."""
        if self._only is not None:
            return self._only
        key = tuple([scalars.get(name) for name in self._names])
        if 0.0 in key:  # -0.0 equals it
            key += tuple([math.copysign(1.0, value) for value in key if value is not None])
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _VARIANTS_MAX:
                self._plans.clear()
            plan = self._plans[key] = self.prepare(scalars)
        return plan

    def prepare(self, scalars: Scalars, later: Container[str] = ()) -> ExecutionPlan:
        """Returns a new plan; the scalars ``later`` are set at each call, like the buffers."""
        launches = [
            (fixed or self._prepared(launch, scalars, later), (*launch.inputs, *launch.outputs, *launch.flag * (-1,)))
            for launch, fixed in zip(self.launches, self._launches)
        ]
        raises_flag = any(launch.flag for launch in self.launches)
        return ExecutionPlan(steps_of(launches, self._made), (None,) * len(self._made), raises_flag)

    def _wants(self, launch: Launch) -> bool:
        return any(name not in self._sizes for name, _ in launch.scalars)

    def _prepared(self, launch: Launch, scalars: Scalars, later: Container[str] = ()) -> PreparedLaunch:
        buffers = [None] * (len(launch.inputs) + len(launch.outputs) + launch.flag)
        numbers = [np.uint64(number) for number in launch.numbers]
        by_name = {**scalars, **self._sizes}
        values = [
            None if name in later else SCALAR_TYPES[compute_type(dtype)](by_name[name])
            for name, dtype in launch.scalars
        ]
        sizes = (_rounded(launch),), (launch.group,)
        args = [*buffers, *numbers, *values]
        options, launcher = self.engine.build_options, self.engine.launcher
        return launcher.prepare(launch.source, launch.name, *sizes, args, options, launch.kernel)


def exact_options(device: Any, is_cpu: bool) -> str:
    """Returns the build options of expressions for a cl.Device. Without this option NVIDIA's compiler chooses the
    division by the surrounding kernel, so that the bits of a fused kernel may differ from its ops'.
    """
    exact = device.single_fp_config & _EXACT_DIVISION
    return "-cl-fp32-correctly-rounded-divide-sqrt" if exact and not is_cpu else ""


def _rounded(launch: Launch) -> int:
    return -(-launch.items // launch.group) * launch.group


def _prepare(
    engine: QueueContext,
    outputs: tuple[Expr, ...],
    inputs: Sequence[TensorData],
    shapes: Sequence[Shape] | None,
    in_place: bool,
) -> PlannedRun:
    space = broadcast_shapes([*(tensor.shape for tensor in inputs), *(shapes or ())], "run")
    result_shapes = [space] * len(outputs) if shapes is None else [tuple(shape) for shape in shapes]
    if any(math.prod(shape) == 0 for shape in result_shapes):
        # Nothing to compute: the space of all outputs is empty.
        return PlannedRun(engine, Plan(), len(inputs), result_shapes, outputs)
    # Memory that has just been read is in the caches: to write past them takes twice as long there.
    target = replace(engine.target, streams=False) if in_place else engine.target
    plan = make_plan(outputs, result_shapes, [t.shape for t in inputs], space, target)
    return PlannedRun(engine, plan, len(inputs), result_shapes, outputs)


def run(
    engine: QueueContext,
    outputs: Sequence[Expr],
    inputs: Sequence[TensorData],
    scalars: Scalars | None = None,
    *,
    shapes: Sequence[Shape] | None = None,
    out: Sequence[TensorData | None] | None = None,
) -> tuple[Any, ...]:
    """Evaluates ``outputs`` over the broadcast shape of inputs and ``shapes``; see DeviceBackend.run."""
    outputs = tuple(outputs)
    result_shapes = None if shapes is None else tuple(map(tuple, shapes))
    in_place = out is not None and _overwrites(inputs, out)
    key: Any = (outputs, tuple([tensor.shape for tensor in inputs]), result_shapes)
    if in_place:
        key += (True,)
    prepared = engine.plans.get(key)
    if prepared is None:
        prepared = keep(engine, key, _prepare(engine, outputs, inputs, shapes, in_place))
    if out is not None and in_place and len(prepared.launches) > 1:
        return _apart(engine, outputs, inputs, scalars, shapes, out)
    results = []
    for k, (shape, dtype) in enumerate(zip(prepared.shapes, prepared.dtypes)):
        target = out[k] if out is not None else None
        if target is None:
            target = engine.empty(shape, dtype)
        results.append(target)
    if not prepared.empty:
        prepared.plan(scalars or {}).run(engine, [*inputs, *results])
    for target in out or ():
        if target is not None:
            target._storage.written()
    return tuple(results)


def planned(
    engine: QueueContext, program: Program, args: Sequence[Any], scalars: Scalars
) -> Callable[[Sequence[Any]], Any] | None:
    """Returns the function that repeats the run of an op's ``program`` on operands like ``args``; see
    ``planned_op.py``. None if there was no such run, or numbers among the operands are arguments of several launches.
    """
    places = [position for position, value in enumerate(args) if isinstance(value, TensorData)]
    ready = engine.plans.get((program.outputs, tuple([args[position].shape for position in places]), program.shapes))
    if ready is None or ready.empty:
        return None
    positions = {f"v{position}": position for position in range(len(args)) if position not in places}
    all_scalars = (scalar for launch in ready.launches for scalar in launch.scalars)
    numbers = [(positions[name], dtype) for name, dtype in all_scalars if name in positions]
    plan = ready.prepare(scalars, positions) if numbers else ready.plan(scalars)
    results = [(shape, output.dtype) for shape, output in zip(program.finals, program.outputs)]
    return planned_op(engine, plan, places, results, numbers)


def _overwrites(inputs: Sequence[TensorData], out: Sequence[TensorData | None]) -> bool:
    written = {id(target._ready_storage().buffer) for target in out if target is not None}
    return any(id(tensor._ready_storage().buffer) in written for tensor in inputs)


def _apart(
    engine: QueueContext,
    outputs: Sequence[Expr],
    inputs: Sequence[TensorData],
    scalars: Scalars | None,
    shapes: Sequence[Shape] | None,
    out: Sequence[TensorData | None],
) -> tuple[Any, ...]:
    """Runs several kernels that would overwrite their own inputs, into temporary tensors, and copies the results."""
    fresh = run(engine, outputs, inputs, scalars, shapes=shapes)
    for result, target in zip(fresh, out):
        if target is not None:
            run(engine, (Load(0, result.dtype),), (result,), out=(target,))
    return tuple(target if target is not None else result for result, target in zip(fresh, out))


def target_of(is_cpu: bool, vector: int, units: int, group: int = 256) -> Target:
    """Returns the schedule's description of a device: ``vector`` lanes of float on a CPU, four on others. On others a
    group shares each row: up to 256 work-items, or the largest power of two that ``group`` allows.
    """
    largest = 1 << (max(1, min(256, group)).bit_length() - 1)
    return Target(width=vector if is_cpu else 4, group=1 if is_cpu else largest, units=max(1, units), is_cpu=is_cpu)
