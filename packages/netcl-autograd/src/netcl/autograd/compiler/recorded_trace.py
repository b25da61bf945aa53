"""The trace of a jitted function with its regions as nodes of the gradient graph, and the hook that fills it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from netcl.autograd.compiler.primitive import NOT_FUSIBLE
from netcl.autograd.derive.fused_plan import fused_plan, is_fused
from netcl.autograd.derive.region import overhead, results_kept
from netcl.autograd.grad_node import FLOATING, GradNode, belongs
from netcl.autograd.mode import state
from netcl.autograd.recorder import step_of, wanted_of
from netcl.autograd.rules.rule import rule_step
from netcl.autograd.views import track_alias
from netcl.core import Tensor
from netcl.core.expr.cost import RECOMPUTE_BUDGET
from netcl.core.graph.region import Fused, Region, Value
from netcl.core.graph.trace import NOT_TRACED, Cache, Trace
from netcl.core.ops_table.dispatch import Bound, OpRow, Program, Record
from netcl.core.tensor.deferred import alias_in_graph

__all__ = ["Cache", "RecordedTrace", "Tracer"]


class RecordedTrace(Trace):
    """A trace with its regions as nodes of the gradient graph."""

    def __init__(self, cache: Cache, relaxed: bool) -> None:
        super().__init__(cache, relaxed, NOT_FUSIBLE)
        self.seen: list[tuple[Any, Program, list[tuple[int, ...]]]] | None = None
        self._thread = get_ident()
        self._steps: list[weakref.ref[GradNode]] = []

    def results(self, engine: Any, region: Region, alive: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the results to store; on a CPU also values that are expensive to recompute in the gradient."""
        requires = any(region.values[number].requires_grad for number in alive)
        return results_kept(engine, region, alive) if requires else alive

    def may_fuse(self, engine: Any, before: Region, after: Region, alone: Region) -> bool:
        """Returns False if the forward and backward kernels would recompute much of each other's values."""
        return overhead(engine, after) - overhead(engine, alone) - overhead(engine, before) <= RECOMPUTE_BUDGET

    def keeps_products(self) -> bool:
        """Returns True within a Tape, which keeps each node."""
        return state.tape is not None

    def is_last_use(self, program: Fused, slot: int) -> bool:
        """Returns True if the gradient does not need input ``slot``."""
        values = program.region.values
        if not values[program.results[0]].requires_grad:
            return True
        inputs = [values[number] for number in program.region.inputs]
        needs = tuple([value.requires_grad and value.dtype in FLOATING for value in inputs])
        plan = fused_plan(program, [shape or value.shape for shape, value in zip(program.arranged, inputs)], needs)
        return plan is None or slot not in plan.inputs

    def compute(
        self,
        ready: Bound,
        values: Sequence[Value],
        tensors: Sequence[Any],
        made: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Runs a program unless its results are ``made``; results that require grad are outputs of one GradNode."""
        results = super().compute(ready, values, tensors, made)
        if self.seen is not None:
            self.seen.extend(_programs(ready)[made is not None :])
        if any(value.requires_grad for value in values):
            step = step_of(ready, results)
            if step is not None and is_fused(ready.program):
                self._steps.append(weakref.ref(step))
            for index, (value, tensor) in enumerate(zip(values, tensors)):
                if step is not None and tensor is not None and value.requires_grad:
                    self._belongs(tensor, step, index)
        return results

    def attach(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: Record, tensor: Any) -> None:
        """Makes ``tensor``, if it requires grad, the output of the call's GradNode."""
        if tensor.requires_grad:
            wanted = wanted_of(args, kwargs)
            if wanted not in record.nodes:
                record.nodes[wanted] = rule_step(row, args, kwargs, (tensor,))
            self._belongs(tensor, record.nodes[wanted].node(args, kwargs, (tensor,)), 0)

    def _belongs(self, tensor: Any, node: GradNode, index: int) -> None:
        """Makes ``tensor`` an output of ``node``, and notes it on the tape of the thread that is traced."""
        belongs(tensor, node, index)
        if state.tape is not None and get_ident() == self._thread:
            state.tape.nodes.append(tensor)

    def separate(self, target: Tensor) -> None:
        """Has regions save copies of ``target`` before it is written, from which their gradients compute again."""
        outer, state.trace = state.trace, None
        try:
            for ref in self._steps:
                step = ref()
                if step is not None:
                    step.separate(target)
        finally:
            state.trace = outer

    def arrange(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """Returns an input in another shape; the reshape is recorded so that gradients flow through it."""
        outer = state.trace, state.enabled
        state.trace, state.enabled = None, True
        try:
            return tensor.reshape(shape)
        finally:
            state.trace, state.enabled = outer

    def make_alias(self, value: Value, tensor: Any, source: Tensor) -> None:
        """Reshapes a value that has been materialized: runs the op, recorded as it was called."""
        outer = state.trace, state.enabled
        state.trace, state.enabled = None, value.requires_grad
        try:
            result = source.reshape(value.shape)
        finally:
            state.trace, state.enabled = outer
        alias_in_graph(tensor, result)
        track_alias(tensor, result)


def _programs(ready: Bound) -> list[tuple[Any, Program, list[tuple[int, ...]]]]:
    """Returns a program and the programs of its gradient, each with its engine and the shapes of its inputs."""
    program, inputs = ready.program, ready.inputs
    engine, shapes = inputs[0].engine, [tensor.shape for tensor in inputs]
    programs: list[tuple[Any, Program, list[tuple[int, ...]]]] = [(engine, program, shapes)]
    needs = tuple([tensor.requires_grad and tensor.dtype in FLOATING for tensor in inputs])
    plan = fused_plan(program, shapes, needs) if state.enabled and any(needs) else None
    if plan is not None:
        saved = [shapes[slot] for slot in plan.inputs] + [program.shapes[output] for output in plan.outputs]
        sources = [*saved, *program.shapes]
        for gradient in plan.programs:
            derived: Program = gradient.row.expression()  # type: ignore[operator, misc]
            programs.append((engine, derived, [sources[source] for source in gradient.sources]))
            sources.extend(derived.shapes[len(gradient.inputs) :])
    return programs


class Tracer:
    """The hook for calls that are not recorded; the recorder passes recorded calls to the trace."""

    def __init__(self, trace: RecordedTrace) -> None:
        self._trace, self._thread = trace, get_ident()

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = state.trace
        if trace is None:
            return next(row, args, kwargs)
        result = trace.call(row, args, kwargs, False, False)
        if result is not NOT_TRACED:
            return result
        state.trace = None
        try:
            return next(row, args, kwargs)
        finally:
            state.trace = trace

    def before_write(self, target: Any = None, value: Any = None) -> None:
        """Computes what the trace has deferred; threads that were given a snapshot of the hooks have no part in it."""
        if get_ident() == self._thread:
            self._trace.materialize()
            if target is not None:
                self._trace.separate(target)
