"""Runs calls of kernels by their execution plans, which are noted in the first run.

A recording is made without plans: there a call may take what an earlier one has left (``matrix_units.planes_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from netcl.core.backend.opencl.queue.plans.execution_plan import ExecutionPlan, Made, keep, steps_of
from netcl.core.backend.opencl.templates import traits
from netcl.core.engine.recording import open_here
from netcl.core.storage.data import TensorData


def run_planned(
    engine: Any,
    key: Any,
    compute: Callable[..., None],
    tensors: Sequence[TensorData],
    planned: bool = True,
    first: int = 1,
) -> None:
    """Runs ``compute(engine, *tensors)``; its launches must depend on ``key`` alone. Later calls with the key repeat
    the plan that is noted in the call number ``first`` (1 or 2), unless ``planned`` is False, a recording is open, or
    interceptors are active. Tensors that are only read come before the results.

    ``compute`` may ask its engine for ``empty``, ``signals``, ``launch``, ``copy``, ``run`` with out, and ``queue``.
    """
    if not planned or engine.intercepting or open_here(engine) is not None:
        compute(engine, *tensors)
        return
    plan = engine.plans.get(key, _UNKNOWN)
    if plan is _UNKNOWN and first > 1:
        keep(engine, key, _ONCE)
        compute(engine, *tensors)
    elif plan is _UNKNOWN or plan is _ONCE:
        noted = _Noted(engine, tensors)
        compute(noted, *noted.given)
        keep(engine, key, noted.plan())
    elif plan is None:
        compute(engine, *tensors)
    else:
        plan.run(engine, tensors)


_UNKNOWN, _ONCE = object(), object()


class _Noted:
    """An engine that notes what a call launches. It keeps no tensor alive that is made for the call."""

    intercepting = True  # a copy inside of the call is a part of its plan

    def __init__(self, engine: Any, tensors: Sequence[TensorData]) -> None:
        self._engine = engine
        self._traits = traits(engine)
        self.queue = engine.queue
        self.recording = None
        # A tensor that is passed twice has two numbers, as the next call may pass two tensors.
        seen: set[int] = set()
        self.given: list[Any] = []
        for tensor in tensors:
            again: Any = tensor
            self.given.append(again._alias(tensor.shape) if id(tensor) in seen else tensor)
            seen.add(id(tensor))
        self._refs: list[Any] = [ref(tensor) for tensor in self.given]
        self._number = {id(tensor): number for number, tensor in enumerate(self.given)}
        self._made: list[Made] = []
        self._kept: dict[int, TensorData] = {}
        self._launches: list[tuple[Callable[..., None], tuple[int, ...]]] = []
        self._known = True  # False once a launch has read a buffer that is not a tensor of the call

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        tensor = self._engine.empty(shape, dtype)
        self._made.append(Made(self._numbered(tensor), tuple(shape), dtype))
        return tensor

    def signals(self, count: int) -> Any:
        tensor = self._engine.signals(count)
        if id(tensor) not in self._number:
            self._kept[self._numbered(tensor)] = tensor
        return tensor

    def launch(
        self,
        source: str,
        kernel_name: str,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[Any],
    ) -> None:
        self._engine.launch(source, kernel_name, global_size, local_size, args)
        if 0 not in global_size:
            fixed = [arg if isinstance(arg, np.generic) else None for arg in args]
            buffers = [arg for arg, value in zip(args, fixed) if value is None]
            prepared = self._engine.launcher.prepare(source, kernel_name, global_size, local_size, fixed)
            self._note(prepared, buffers)

    def copy(self, source: TensorData, out: TensorData, **block: Any) -> None:
        self._engine.kernel("copy")(self, source, out, **block)

    def run(self, outputs: Any, inputs: Sequence[TensorData], *, out: Sequence[TensorData]) -> None:
        count = len(inputs)

        def again(*tensors: Any) -> None:
            tensors[0].engine.run(outputs, tensors[:count], out=tensors[count:])

        again(*inputs, *out)
        self._note(again, [*inputs, *out])

    def _numbered(self, tensor: Any) -> int:
        number = self._number[id(tensor)] = len(self._refs)
        self._refs.append(ref(tensor))
        return number

    def _note(self, run: Callable[..., None], buffers: Sequence[Any]) -> None:
        numbers = []
        for value in buffers:
            number = self._number.get(id(value), -1)
            self._known = self._known and number >= 0 and self._refs[number]() is value
            numbers.append(number)
        self._launches.append((run, tuple(numbers)))

    def plan(self) -> ExecutionPlan | None:
        """Returns the plan of the launches; None if it cannot be repeated."""
        if not self._known:
            return None
        others = tuple(self._kept.get(number) for number in range(len(self.given), len(self._refs)))
        return ExecutionPlan(steps_of(self._launches, self._made), others)
