"""The gradient of a fused region: the gradients of its ops, composed in the order of an unfused backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.autograd.derive.gradient_cse import extract_common, load_outputs
from netcl.autograd.derive.op_plan import narrowed_op_plan, op_plan
from netcl.autograd.derive.plan import GradientPlan
from netcl.autograd.grad_node import FLOATING
from netcl.core.expr import Const, Expr, Load, Reduce
from netcl.core.expr.cost import has_transcendental, repeated
from netcl.core.expr.rewrite import walk
from netcl.core.graph.region import LAST, Fused, Region, Stage, Value, fuse, shifted, substitute
from netcl.core.ops_table.dispatch import Program

MAX_KEPT = 8
MAX_SLOTS = 1 << 10  # above all slots of a program


def region_gradients(program: Fused, grads: Sequence[Expr | None]) -> dict[int, Expr | None]:
    """Returns the gradient of each input slot, in terms of the inputs and of ``grads`` of the outputs.

    Ops are visited newest first and contributions added in that order, each by the op's own gradient program, so the
    results are rounded as without fusion.
    """
    region = program.region
    values = region.values
    adjoint: dict[int, Expr] = {}
    for number, grad in zip(program.results, grads):
        if grad is not None and values[number].requires_grad:
            adjoint[number] = grad
    for stage in reversed(region.stages):
        if stage.recorded and any(result in adjoint for result in stage.results):
            for number, part in _parts(stage, values, adjoint):
                before = adjoint.get(number)
                adjoint[number] = part if before is None else before + part
    gradients = [adjoint.get(number) for number in region.inputs]
    there = [slot for slot, gradient in enumerate(gradients) if gradient is not None]
    moved = shifted([gradients[slot] for slot in there], program.shift)  # type: ignore[misc]
    return {**dict.fromkeys(range(len(gradients))), **dict(zip(there, moved))}


def _expensive_values(region: Region, results: tuple[int, ...]) -> list[int]:
    """Returns values besides ``results`` that the gradient uses and only a transcendental function can recompute."""
    loads = [Load(len(region.inputs) + i, region.values[number].dtype) for i, number in enumerate(results)]
    gradients = region_gradients(fuse(region, results), loads)
    used = set(walk([gradient for gradient in gradients.values() if gradient is not None]))
    low = min(region.sizes, default=LAST)
    return [
        number
        for stage in region.stages
        if stage.recorded and stage.program is not None and has_transcendental(stage.program.outputs)
        for number in stage.results
        if number not in results and shifted([region.values[number].expr], low)[0] in used
    ][:MAX_KEPT]


def overhead(engine: Any, region: Region) -> int:
    """Operations per element that the kernels of the region's last results and of their gradients repeat."""
    results = region.stages[-1].results
    if not any(region.values[number].requires_grad for number in results):
        return 0
    kept = results_kept(engine, region, results)
    program = fuse(region, kept)
    n = len(region.inputs)
    loads = [
        Load(n + len(kept) + i, o.dtype) if number in results else None
        for i, (number, o) in enumerate(zip(kept, program.outputs))
    ]
    gradients = {
        slot: gradient
        for slot, gradient in region_gradients(program, loads).items()
        if region.values[region.inputs[slot]].requires_grad
    }
    groups: dict[tuple[int, ...], list[Expr]] = {}
    saved: dict[Expr, Expr] = {o: Load(n + i, o.dtype) for i, o in enumerate(program.outputs)}
    for slot, gradient in load_outputs(gradients, saved).items():
        if gradient is not None:
            groups.setdefault(region.values[region.inputs[slot]].shape, []).append(gradient)
    exprs, shared = extract_common([tuple(group) for group in groups.values()], MAX_SLOTS)
    forward: dict[Any, list[Expr]] = {}
    for number, output in zip(kept, program.outputs):  # grouped as a plan groups them into kernels
        reduced = frozenset(axis for node in walk((output,)) if isinstance(node, Reduce) for axis in node.axes)
        forward.setdefault((reduced, region.values[number].axes), []).append(output)
    return repeated([*forward.values()]) + repeated([(*own, *more.values()) for own, more in zip(exprs, shared)])


def results_kept(engine: Any, region: Region, results: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the results to store: ``results``, and on a CPU also values that the gradient recomputes at high cost."""
    if engine.handle.device_type != "cpu":
        return results
    return (*results, *_expensive_values(region, results))


def _parts(stage: Stage, values: Sequence[Value], adjoint: Mapping[int, Expr]) -> list[tuple[int, Expr]]:
    """Returns the contributions of one op to the gradients of its operands, in their order."""
    if stage.program is None:  # a reshape
        return [(stage.operands[0], adjoint[stage.results[0]])] if values[stage.operands[0]].requires_grad else []
    program = stage.program
    needs = tuple(values[number].requires_grad and values[number].dtype in FLOATING for number in stage.operands)
    plan = op_plan(program, stage.shapes, needs)
    if plan is None:
        return []
    with_grads = tuple(number in adjoint for number in stage.results)
    if not all(with_grads):
        plan = narrowed_op_plan(program, stage.shapes, needs, with_grads)
    sources = _sources(plan, stage, values, adjoint, program)
    parts: dict[int, Expr] = {
        slot: adjoint[stage.results[output]] for slot, output in plan.passed if with_grads[output]
    }
    for gradient in plan.programs:
        derived: Program = gradient.row.expression()  # type: ignore[operator, misc]
        loads = [sources[source] for source in gradient.sources]
        parts.update(zip(gradient.inputs, substitute(derived.outputs, stage.axes, loads, stage.names)))
    return [(number, parts[slot]) for slot, number in enumerate(stage.operands) if slot in parts]


def _sources(
    plan: GradientPlan, stage: Stage, values: Sequence[Value], adjoint: Mapping[int, Expr], program: Program
) -> list[Expr]:
    """Returns the values that gradient programs of an op load: operands, results, and gradients of the results."""
    return [
        *(values[stage.operands[slot]].expr for slot in plan.inputs),
        *(values[stage.results[output]].expr for output in plan.outputs),
        *(adjoint.get(r, Const(0.0, output.dtype)) for r, output in zip(stage.results, program.outputs)),
    ]
