"""Runs gradient plans: the backward function of nodes with a plan, with the programs of the plan or, if a driver cannot
build the gradient kernel of a fused region, op by op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.autograd.derive.fused_plan import is_fused, narrowed
from netcl.autograd.derive.op_plan import narrowed_op_plan, op_plan
from netcl.autograd.derive.plan import GradientPlan
from netcl.autograd.grad_node import FLOATING, GradContext, GradNode, Grads, output_again
from netcl.core import Tensor
from netcl.core.errors import KernelBuildError, UnsupportedError
from netcl.core.ops_table.dispatch import Bound, call_row

if TYPE_CHECKING:
    from netcl.core.graph.region import Fused, Stage


def run_plan(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    """Returns the gradients by the plan of ``node``; if a fused gradient kernel cannot be built, op by op."""
    if node.static is None:
        node.unpack()  # raises, as the graph is freed
    assert node.static is not None
    plan: GradientPlan
    plan, program, shapes, needs, scalars = node.static
    loaded: set[int] | None = None
    if None in [None if grad is None else 0 for grad in grads]:  # a tensor compares its elements
        present = tuple([grad is not None for grad in grads])
        plan = program.gradients.get((needs, present)) or narrowed(program, shapes, needs, present)
        loaded = {source for part in plan.programs for source in part.sources}
    saved = node.unpack(loaded)
    if context.create_graph and plan.outputs:
        saved = (*saved[: len(plan.inputs)], *_in_graph(context, node, saved[len(plan.inputs) :]))
    try:
        return _run_programs(context, plan, saved, scalars, grads, wanted)
    except KernelBuildError:
        if not is_fused(program) or program.relaxed or context.create_graph:
            raise
        return _unfused_gradients(context, node, node.unpack(), grads)


def _in_graph(context: GradContext, node: GradNode, saved: Sequence[Tensor]) -> list[Any]:
    """Returns the saved outputs of ``node``, for gradients of gradients.

    They were saved in their shapes in the iteration space. As outputs of ``node`` they have the shapes of its results,
    because all gradients of an output are added.
    """
    plan: GradientPlan
    plan, program, *_ = node.static
    outputs = []
    for index, tensor in zip(plan.outputs, saved):
        result = output_again(tensor, node, index, program.finals[index])
        outputs.append(_shaped(context, result, program.shapes[index]))
    return outputs


def _run_programs(
    context: GradContext,
    plan: GradientPlan,
    saved: Sequence[Tensor],
    scalars: Mapping[str, Any],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Returns the gradients of the inputs in ``wanted`` from the tensors that the plan ``saved`` and from ``grads``.
    Raises UnsupportedError if the plan refuses.
    """
    if plan.refusal is not None:
        raise UnsupportedError(str(plan.refusal), op=plan.refusal.op)
    results: list[Tensor | None] = [None] * len(wanted)
    for slot, output in plan.passed:
        results[slot] = grads[output]
    if not plan.programs:
        return results
    if len(grads) == 1 and (first := grads[0]) is not None and first.shape == plan.shapes[0]:  # nearly every call
        values: list[Any] = [*saved, first]
    else:
        values = [*saved, *[_arranged(context, plan, position, grads) for position in range(len(grads))]]
    for program in plan.programs:
        if program.shared or any(map(wanted.__getitem__, program.inputs)):
            inputs = tuple([values[source] for source in program.sources])
            outs = call_row(program.row, inputs, {"scalars": scalars}, context.create_graph)
            outs = outs if isinstance(outs, tuple) else (outs,)
            values.extend(outs[len(program.inputs) :])
            for slot, out in zip(program.inputs, outs):
                if slot not in plan.absent:
                    results[slot] = out
    return results


def _arranged(context: GradContext, plan: GradientPlan, position: int, grads: Sequence[Tensor | None]) -> Any:
    """Returns the gradient of an output in its shape in the iteration space; zeros if it has none but is used."""
    grad, shape = grads[position], plan.shapes[position]
    if grad is None:
        if position not in plan.used:
            return None
        other = next(other for other in grads if other is not None)
        return Tensor.zeros(shape, other.dtype, queue=other.queue)
    return _shaped(context, grad, shape)


def _shaped(context: GradContext, tensor: Tensor, shape: tuple[int, ...]) -> Any:
    return tensor if tensor.shape == shape else context.call("reshape", tensor, shape)


def _unfused_gradients(
    context: GradContext, node: GradNode, saved: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> list[Any]:
    """Returns the gradient of each input of ``node``, a fused region, from the tensors that it ``saved``. Values that
    were not saved are computed again. Inputs that the gradient does not depend on are taken as zeros.
    """
    plan: GradientPlan
    program: Fused
    plan, program, shapes, _, scalars = node.static
    region = program.region
    other = next(grad for grad in grads if grad is not None)
    held = {region.inputs[slot]: tensor for slot, tensor in zip(plan.inputs, saved)}
    held.update((program.results[out], tensor) for out, tensor in zip(plan.outputs, saved[len(plan.inputs) :]))
    held = {number: _shaped(context, tensor, region.values[number].shape) for number, tensor in held.items()}
    for number in region.inputs:
        if number not in held:
            value = region.values[number]
            held[number] = Tensor.zeros(value.shape, value.dtype, queue=other.queue)
    for stage in region.stages:
        _compute(context, stage, held, region.values, scalars)
    adjoint: dict[int, Tensor] = {}
    for number, grad in zip(program.results, grads):
        if grad is not None:
            adjoint[number] = _shaped(context, grad, region.values[number].shape)
    for stage in reversed(region.stages):
        if stage.recorded and any(result in adjoint for result in stage.results):
            for number, part in _parts(context, stage, held, region.values, adjoint, scalars):
                before = adjoint.get(number)
                adjoint[number] = part if before is None else context.call("add", before, part)
    by_inputs = [adjoint.get(number) for number in region.inputs]
    return [None if grad is None else _shaped(context, grad, shape) for grad, shape in zip(by_inputs, shapes)]


def _own(stage: Stage, scalars: dict[str, Any]) -> dict[str, Any]:
    return {old: scalars[new] for old, new in stage.names.items()}


def _compute(
    context: GradContext, stage: Stage, held: dict[int, Any], values: Sequence[Any], scalars: dict[str, Any]
) -> None:
    if all(number in held for number in stage.results):
        return
    if stage.program is None:
        (number,) = stage.results
        held[number] = _shaped(context, held[stage.operands[0]], values[number].shape)
        return
    operands = tuple([held[number] for number in stage.operands])
    for number, result in zip(stage.results, Bound(stage.program, operands, _own(stage, scalars)).run()):
        held.setdefault(number, result)


def _parts(
    context: GradContext,
    stage: Stage,
    held: dict[int, Any],
    values: Sequence[Any],
    adjoint: dict[int, Tensor],
    scalars: dict[str, Any],
) -> list[tuple[int, Any]]:
    """Returns the contributions of one op to the gradients of its operands."""
    wanted = [values[number].requires_grad and values[number].dtype in FLOATING for number in stage.operands]
    if stage.program is None:
        (number,) = stage.operands
        return [(number, _shaped(context, adjoint[stage.results[0]], values[number].shape))] if wanted[0] else []
    plan = op_plan(stage.program, stage.shapes, tuple(wanted))
    if plan is None:
        return []
    shapes = stage.program.shapes
    saved = [held[stage.operands[slot]] for slot in plan.inputs]
    saved += [_shaped(context, held[stage.results[out]], shapes[out]) for out in plan.outputs]
    by_results = [adjoint.get(number) for number in stage.results]
    with_grads = tuple([grad is not None for grad in by_results])
    if not all(with_grads):
        plan = narrowed_op_plan(stage.program, stage.shapes, tuple(wanted), with_grads)
    gradients = _run_programs(context, plan, saved, _own(stage, scalars), by_results, wanted)
    return [(number, grad) for number, grad in zip(stage.operands, gradients) if grad is not None]
