"""The recorder: the hook that turns calls of the op table into steps of the gradient graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netcl.autograd import views
from netcl.autograd.grad_node import FLOATING, GradNode, belongs, edges_of, to_save
from netcl.autograd.levels import LEVELS
from netcl.autograd.mode import state
from netcl.autograd.recompute import recipe_of
from netcl.autograd.rules import record_call
from netcl.core import Tensor
from netcl.core.dispatch import OpRow
from netcl.core.tensor.gradients import mark_recorded

if TYPE_CHECKING or "programs" in LEVELS:
    from netcl.autograd.derive.execute import run_plan
    from netcl.autograd.derive.fused_plan import fused_plan, is_fused
    from netcl.core.dispatch import Bound, bound
if TYPE_CHECKING or "tracing" in LEVELS:
    from netcl.core.lazy.tracer import NOT_TRACED

Next = Callable[..., Any]


def recorder(next: Next, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a call and marks its results as recorded; they have a GradNode if grad is enabled and an input requires
    it.
    """
    trace = state.trace
    if trace is not None:
        result = trace.call(row, args, kwargs, True, state.enabled)
        if result is not NOT_TRACED:
            return result
        state.trace = None  # what the op calls inside is a part of it
        try:
            return trace.run_untraced(row, (*args, *kwargs.values()), lambda: recorder(next, row, args, kwargs))
        finally:
            state.trace = trace
    if state.enabled and "out" not in kwargs and _wanted(args, kwargs):
        return _record(next, row, args, kwargs)
    result = next(row, args, kwargs)
    if isinstance(result, Tensor):
        mark_recorded(result)
        if row.name in views.ROWS:
            views.track(row, args, kwargs, result)
    elif isinstance(result, tuple):
        for each in result:
            if isinstance(each, Tensor):
                mark_recorded(each)
    return result


def _wanted(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            if value.requires_grad:
                return True
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Tensor) and each.requires_grad:
                    return True
    return False


def _record(next: Next, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if row.expression is None or row.vjp is not None or "programs" not in LEVELS:
        outer = state.enabled, state.tape
        state.enabled, state.tape = False, None  # whatever the op calls inside is a part of it
        try:
            result = next(row, args, kwargs)
        finally:
            state.enabled, state.tape = outer
        results = result if isinstance(result, tuple) else (result,)
        step = record_call(row, args, kwargs, results)
        outputs = _outputs(step, results, isinstance(result, tuple), held=True)
        if row.name in views.ROWS:
            views.track(row, args, kwargs, outputs)
            if step is not None and "programs" in LEVELS:
                step.recipe = views.recipe_of(args[0] if args else kwargs["x"], outputs)
        return type(result)(*outputs) if hasattr(result, "_fields") else outputs
    ready = bound(row, args, kwargs)
    single = ready.program.single
    result = next(row, args, kwargs)
    results = (result,) if single else result
    return _outputs(step_of(ready, results), results, not single)


def step_of(ready: Bound, results: Sequence[Tensor]) -> GradNode | None:
    """Returns the node of the program that computed ``results``, None if none of them is floating."""
    inputs, program = ready.inputs, ready.program
    needs = tuple([t.requires_grad and t.dtype in FLOATING for t in inputs])
    shapes = [t.shape for t in inputs]
    plan = fused_plan(program, shapes, needs)
    if plan is None:
        return None
    saved = [to_save(inputs[slot]) for slot in plan.inputs]
    for position in plan.outputs:
        output = results[position].detach()
        output.shape = program.shapes[position]  # with the axes of length 1 that the result has lost
        saved.append(output)
    static = (plan, program, shapes, needs, ready.scalars)
    node = GradNode(program.name, run_plan, edges_of(inputs), tuple(saved), len(results), static)
    if not is_fused(program):
        node.recipe = recipe_of(ready, needs, plan, results[0])
    return node


def _outputs(step: GradNode | None, results: Sequence[Any], several: bool, held: bool = False) -> Any:
    """Returns the results as outputs of ``step``; ``held``: the caller of the op may hold these objects too."""
    nodes = list(results)
    tape = state.tape
    for index, result in enumerate(results):
        if not isinstance(result, Tensor):
            continue
        if held and (result.requires_grad or result.grad_fn is not None or result.grad is not None):
            result = nodes[index] = result.detach()
        if step is not None and result.dtype in FLOATING:
            belongs(result, step, index)
            if tape is not None:
                tape.nodes.append(result)
        else:
            mark_recorded(result)
    return tuple(nodes) if several else nodes[0]
