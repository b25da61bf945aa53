"""Runs expressions on a queue: plans are made once per shapes, and a warm run only swaps buffers in prepared
launches.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.queue.context import PLANS_MAX
from netcl.core.dtypes import compute_type
from netcl.core.expr.nodes import Expr, Load
from netcl.core.expr.schedule import Launch, Plan, Target, make_plan
from netcl.core.layout import broadcast_shapes

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext
    from netcl.core.tensor.data import TensorData

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
_VARIANTS_MAX = 16  # prepared launches kept for different values of the launch scalars


class _Ready:
    """One launch of a plan, prepared for the values of its scalars."""

    __slots__ = ("_fixed", "_prepared", "engine", "launch", "sizes")

    def __init__(self, engine: QueueContext, launch: Launch, sizes: Mapping[str, int]) -> None:
        self.engine = engine
        self.launch = launch
        self.sizes = sizes
        self._prepared: dict[tuple[Any, ...], Any] = {}
        self._fixed: Any = None
        if all(name in sizes for name, _ in launch.scalars):
            self._fixed = self.prepare({})

    def __call__(self, storages: Sequence[Any], scalars: Scalars) -> None:
        launch = self.launch
        prepared = self._fixed
        if prepared is None:
            key = tuple([scalars.get(name) for name, _ in launch.scalars])
            if 0.0 in key:  # -0.0 equals it
                key += tuple([math.copysign(1.0, value) for value in key if value is not None])
            prepared = self._prepared.get(key)
            if prepared is None:
                if len(self._prepared) >= _VARIANTS_MAX:
                    self._prepared.clear()
                prepared = self._prepared[key] = self.prepare(scalars)
        buffers = [storages[slot] for slot in launch.inputs]
        buffers.extend(storages[slot] for slot in launch.outputs)
        if launch.flag:
            buffers.append(self.engine.flag)
        prepared(*buffers)

    def prepare(self, scalars: Scalars, later: Container[str] = ()) -> Any:
        """The launch with its numbers set; those of the scalars ``later`` are set at each call, like the buffers."""
        if self._fixed is not None:
            return self._fixed
        launch = self.launch
        buffers = [None] * (len(launch.inputs) + len(launch.outputs) + launch.flag)
        numbers = [np.uint64(number) for number in launch.numbers]
        given = {**scalars, **self.sizes}
        values = [
            None if name in later else SCALAR_TYPES[compute_type(dtype)](given[name]) for name, dtype in launch.scalars
        ]
        sizes = (_rounded(launch),), (launch.group,)
        args = [*buffers, *numbers, *values]
        options, launcher = self.engine.build_options, self.engine.launcher
        return launcher.prepare(launch.source, launch.name, *sizes, args, options, launch.kernel)


def exact_options(device: Any, is_cpu: bool) -> str:
    """The build options of expressions for a cl.Device. Without this NVIDIA's compiler divides one way or another as
    the kernel around asks for it, and a fused kernel has not always the bits of its ops.
    """
    exact = device.single_fp_config & _EXACT_DIVISION
    return "-cl-fp32-correctly-rounded-divide-sqrt" if exact and not is_cpu else ""


def _rounded(launch: Launch) -> int:
    return -(-launch.items // launch.group) * launch.group


class _Prepared:
    """A plan with its launches ready and the shapes of what it makes."""

    __slots__ = ("dtypes", "empty", "launches", "plan", "shapes")

    def __init__(self, engine: QueueContext, plan: Plan, shapes: Sequence[Shape], outputs: Sequence[Expr]) -> None:
        self.plan = plan
        self.shapes = tuple(shapes)
        self.dtypes = tuple(output.dtype for output in outputs)
        self.empty = any(math.prod(shape) == 0 for shape in shapes)
        self.launches = [] if self.empty else [_Ready(engine, launch, plan.sizes) for launch in plan.launches]


def _prepare(
    engine: QueueContext,
    outputs: tuple[Expr, ...],
    inputs: Sequence[TensorData],
    shapes: Sequence[Shape] | None,
    in_place: bool,
) -> _Prepared:
    space = broadcast_shapes([*(tensor.shape for tensor in inputs), *(shapes or ())], "run")
    wanted = [space] * len(outputs) if shapes is None else [tuple(shape) for shape in shapes]
    if any(math.prod(shape) == 0 for shape in wanted):
        return _Prepared(
            engine, Plan(), wanted, outputs
        )  # nothing to compute: all outputs share the space that is empty
    # What is written over what has just been read is in the caches: to go past them takes twice as long there.
    target = replace(engine.target, streams=False) if in_place else engine.target
    return _Prepared(engine, make_plan(outputs, wanted, [t.shape for t in inputs], space, target), wanted, outputs)


def run(
    engine: QueueContext,
    outputs: Sequence[Expr],
    inputs: Sequence[TensorData],
    scalars: Scalars | None = None,
    *,
    shapes: Sequence[Shape] | None = None,
    out: Sequence[TensorData | None] | None = None,
) -> tuple[Any, ...]:
    """Evaluates ``outputs`` over what inputs and ``shapes`` broadcast to; see DeviceBackend.run."""
    outputs = tuple(outputs)
    wanted = None if shapes is None else tuple(map(tuple, shapes))
    in_place = out is not None and _overwrites(inputs, out)
    key: Any = (outputs, tuple([tensor.shape for tensor in inputs]), wanted)
    if in_place:
        key += (True,)
    prepared = engine.plans.get(key)
    if prepared is None:
        if len(engine.plans) >= PLANS_MAX:
            engine.plans.clear()
        prepared = engine.plans[key] = _prepare(engine, outputs, inputs, shapes, in_place)
    if out is not None and in_place and len(prepared.launches) > 1:
        return _apart(engine, outputs, inputs, scalars, shapes, out)
    results = []
    for k, (shape, dtype) in enumerate(zip(prepared.shapes, prepared.dtypes)):
        target = out[k] if out is not None else None
        if target is None:
            target = engine.empty(shape, dtype)
        results.append(target)
    if not prepared.empty:
        storages = [*inputs, *results, *(engine.empty(shape, dtype) for shape, dtype in prepared.plan.temporaries)]
        for launch in prepared.launches:
            launch(storages, scalars or {})
    for target in out or ():
        if target is not None:
            target._storage.written()
    return tuple(results)


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
    """Runs several kernels that would overwrite their own inputs: into temporary tensors, which are then copied."""
    fresh = run(engine, outputs, inputs, scalars, shapes=shapes)
    for result, target in zip(fresh, out):
        if target is not None:
            run(engine, (Load(0, result.dtype),), (result,), out=(target,))
    return tuple(target if target is not None else result for result, target in zip(fresh, out))


def target_of(is_cpu: bool, vector: int, units: int, group: int = 256) -> Target:
    """The schedule's view of a device; ``vector`` lanes of float on a CPU, four on others, where a group shares each
    row: of up to 256 work-items, or of the largest power of two that a ``group`` may have.
    """
    largest = 1 << (max(1, min(256, group)).bit_length() - 1)
    return Target(width=vector if is_cpu else 4, group=1 if is_cpu else largest, units=max(1, units), is_cpu=is_cpu)
