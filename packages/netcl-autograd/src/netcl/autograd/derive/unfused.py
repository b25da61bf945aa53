"""The gradient of a fused region op by op, where a driver does not build the kernel that computes it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netcl.autograd.derive.plan import plan_of, run_plan
from netcl.autograd.grad_node import FLOATING, Step
from netcl.core import Tensor
from netcl.core.dispatch import Bound
from netcl.core.fusion import Fused, Stage

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk
    from netcl.autograd.derive.plan import Plan


def gradients_apart(walk: Walk, step: Step, saved: Sequence[Tensor], grads: Sequence[Tensor | None]) -> list[Any]:
    """The gradient of each input of ``step``, whose program is a fused region, from what the region has ``saved``.

    Values that were not saved are computed again. What the gradient does not depend on is taken as zeros.
    """
    plan: Plan
    program: Fused
    plan, program, shapes, _, scalars = step.static
    region = program.region
    beside = next(grad for grad in grads if grad is not None)
    held = {region.inputs[slot]: tensor for slot, tensor in zip(plan.inputs, saved)}
    held.update((program.results[out], tensor) for out, tensor in zip(plan.outputs, saved[len(plan.inputs) :]))
    held = {number: _shaped(walk, tensor, region.values[number].shape) for number, tensor in held.items()}
    for number in region.inputs:
        if number not in held:
            value = region.values[number]
            held[number] = Tensor.zeros(value.shape, value.dtype, queue=beside.queue)
    for stage in region.stages:
        _compute(walk, stage, held, region.values, scalars)
    adjoint: dict[int, Tensor] = {}
    for number, grad in zip(program.results, grads):
        if grad is not None:
            adjoint[number] = _shaped(walk, grad, region.values[number].shape)
    for stage in reversed(region.stages):
        if stage.recorded and any(result in adjoint for result in stage.results):
            for number, part in _parts(walk, stage, held, region.values, adjoint, scalars):
                before = adjoint.get(number)
                adjoint[number] = part if before is None else walk.call("add", before, part)
    found = [adjoint.get(number) for number in region.inputs]
    return [None if grad is None else _shaped(walk, grad, shape) for grad, shape in zip(found, shapes)]


def _shaped(walk: Walk, tensor: Tensor, shape: tuple[int, ...]) -> Any:
    return tensor if tensor.shape == shape else walk.call("reshape", tensor, shape)


def _own(stage: Stage, scalars: dict[str, Any]) -> dict[str, Any]:
    return {old: scalars[new] for old, new in stage.names.items()}


def _compute(walk: Walk, stage: Stage, held: dict[int, Any], values: Sequence[Any], scalars: dict[str, Any]) -> None:
    if all(number in held for number in stage.results):
        return
    if stage.program is None:
        (number,) = stage.results
        held[number] = _shaped(walk, held[stage.operands[0]], values[number].shape)
        return
    operands = tuple([held[number] for number in stage.operands])
    for number, result in zip(stage.results, Bound(stage.program, operands, _own(stage, scalars)).run()):
        held.setdefault(number, result)


def _parts(
    walk: Walk,
    stage: Stage,
    held: dict[int, Any],
    values: Sequence[Any],
    adjoint: dict[int, Tensor],
    scalars: dict[str, Any],
) -> list[tuple[int, Any]]:
    """What one op adds to the gradients of its operands."""
    wanted = [values[number].requires_grad and values[number].dtype in FLOATING for number in stage.operands]
    if stage.program is None:
        (number,) = stage.operands
        return [(number, _shaped(walk, adjoint[stage.results[0]], values[number].shape))] if wanted[0] else []
    plan = plan_of(stage.program, stage.shapes, tuple(wanted))
    if plan is None:
        return []
    shapes = stage.program.shapes
    saved = [held[stage.operands[slot]] for slot in plan.inputs]
    saved += [_shaped(walk, held[stage.results[out]], shapes[out]) for out in plan.outputs]
    static = (plan, stage.program, list(stage.shapes), tuple(wanted), _own(stage, scalars))
    own = Step(stage.name, run_plan, (None,) * len(wanted), tuple(saved), len(stage.results), static)
    found = run_plan(walk, own, [adjoint.get(number) for number in stage.results], wanted)
    return [(number, grad) for number, grad in zip(stage.operands, found) if grad is not None]
