"""The recorder: the hook that turns calls of the op table into steps of the gradient graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netcl.autograd import views
from netcl.autograd.grad_node import FLOATING, GradNode, belongs, edge_of, to_save
from netcl.autograd.levels import LEVELS
from netcl.autograd.mode import state
from netcl.autograd.recompute import recipe_of, recomputes
from netcl.autograd.rules import rule_step
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import OpRow, execute
from netcl.core.storage.gradients import attach, mark_recorded

if TYPE_CHECKING or "programs" in LEVELS:
    from netcl.autograd.derive.execute import run_plan
    from netcl.autograd.derive.fused_plan import fused_plan, is_fused
    from netcl.autograd.derive.plan import GradientPlan
    from netcl.core.ops_table.dispatch import Bound, bound, compute, known
if TYPE_CHECKING or "tracing" in LEVELS:
    from netcl.core.graph.trace import NOT_TRACED

Next = Callable[..., Any]


def recorder(next: Next, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a call, marks its results as recorded; they have a GradNode if grad is enabled and an input requires it."""
    trace = state.trace
    if trace is not None:
        result = trace.call(row, args, kwargs, True, state.enabled)
        if result is not NOT_TRACED:
            return result
        state.trace = None  # what the op calls inside is a part of it
        try:
            return recorder(next, row, args, kwargs)
        finally:
            state.trace = trace
    if state.enabled and "out" not in kwargs:
        wanted = wanted_of(args, kwargs)
        if True in wanted:
            return _record(next, row, args, kwargs, wanted)
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


def wanted_of(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
    """Returns for each tensor among the arguments, and in lists of them, if it requires grad."""
    wanted = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            wanted.append(value.requires_grad)
        elif isinstance(value, (list, tuple)) and value and type(value[0]) is not int:  # a shape or steps
            wanted += [each.requires_grad for each in value if isinstance(each, Tensor)]
    return tuple(wanted)


def _record(next: Next, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: tuple[bool, ...]) -> Any:
    """Runs a call and makes its node, by what its record has for it; the first calls leave that there."""
    record = known(row, args, kwargs) if "programs" in LEVELS else None
    computes = record is not None and next is execute
    if row.expression is None or row.vjp is not None or "programs" not in LEVELS:
        outer = state.enabled, state.tape
        state.enabled, state.tape = False, None  # whatever the op calls inside is a part of it
        try:
            result = compute(row, args, kwargs, record) if computes else next(row, args, kwargs)
        finally:
            state.enabled, state.tape = outer
        several = isinstance(result, tuple)
        results = result if several else (result,)
        made = _UNKNOWN if record is None else record.nodes.get(wanted, _UNKNOWN)
        viewed = row.name in views.ROWS
        if made is _UNKNOWN or not (made is None or viewed or made.fits(results)):
            made = rule_step(row, args, kwargs, results)
            if record is not None and record.computed:
                record.nodes[wanted] = made
        step = None if made is None else made.node(args, kwargs, results)
        outputs = _outputs(step, results, several, held=not (viewed and args and result is not args[0]))
        if viewed:
            views.track(row, args, kwargs, outputs)
            if step is not None and "programs" in LEVELS:
                step.recipe = views.recipe_of(args[0] if args else kwargs["x"], outputs)
        return type(result)(*outputs) if hasattr(result, "_fields") else outputs
    ready = bound(row, args, kwargs, record)
    single = ready.program.single
    result = compute(row, args, kwargs, record) if computes else next(row, args, kwargs)
    results = (result,) if single else result
    made = _UNKNOWN if record is None else record.nodes.get(wanted, _UNKNOWN)
    if made is _UNKNOWN:
        made = program_step(ready)
        if record is not None and record.computed:
            record.nodes[wanted] = made
    return _outputs(None if made is None else made.node(ready, results), results, not single)


_UNKNOWN: Any = object()


class ProgramStep:
    """Makes the nodes of a program for inputs of the same shapes that require the same gradients."""

    __slots__ = ("_needs", "_plan", "_program", "_recomputes", "_shapes")

    def __init__(
        self, ready: Bound, plan: GradientPlan, shapes: list[tuple[int, ...]], needs: tuple[bool, ...]
    ) -> None:
        self._plan = plan
        self._program = ready.program
        self._shapes = shapes
        self._needs = needs
        self._recomputes = not is_fused(ready.program)

    def node(self, ready: Bound, results: Sequence[Tensor]) -> GradNode:
        """Returns the node of the program that computed ``results``."""
        plan, program, inputs = self._plan, self._program, ready.inputs
        saved = [to_save(inputs[slot]) for slot in plan.inputs]
        for position in plan.outputs:
            output = results[position].detach()
            output.shape = program.shapes[position]  # with the axes of length 1 that the result has lost
            saved.append(output)
        static = (plan, program, self._shapes, self._needs, ready.scalars)
        edges = tuple([edge_of(tensor) if wants else None for tensor, wants in zip(inputs, self._needs)])
        node = GradNode(program.name, run_plan, edges, tuple(saved), len(results), static)
        if self._recomputes:
            node.recipe = recipe_of(ready, self._needs, plan, results[0])
            self._recomputes = recomputes(program, self._needs)
        return node


def program_step(ready: Bound) -> ProgramStep | None:
    """Returns what makes the nodes of a program for such inputs; None if none of its outputs is floating."""
    needs = tuple([t.requires_grad and t.dtype in FLOATING for t in ready.inputs])
    shapes = [t.shape for t in ready.inputs]
    plan = fused_plan(ready.program, shapes, needs)
    return None if plan is None else ProgramStep(ready, plan, shapes, needs)


def step_of(ready: Bound, results: Sequence[Tensor]) -> GradNode | None:
    """Returns the node of the program that computed ``results``, None if none of them is floating."""
    made = program_step(ready)
    return None if made is None else made.node(ready, results)


def _outputs(step: GradNode | None, results: Sequence[Any], several: bool, held: bool = False) -> Any:
    """Returns the results as outputs of ``step``; ``held``: the caller of the op may hold these objects too."""
    tape = state.tape
    if not several and step is not None and tape is None:  # nearly every call
        (result,) = results
        if held and (result.requires_grad or result.grad_fn is not None or result.grad is not None):
            result = result.detach()
        attach(result, step)
        return result
    nodes = list(results)
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
