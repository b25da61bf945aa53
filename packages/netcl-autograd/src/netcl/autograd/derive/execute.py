"""Runs the programs of a gradient plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.autograd.derive.plan import GradientPlan
from netcl.autograd.grad_node import GradContext
from netcl.core import Tensor
from netcl.core.dispatch import call_row


def run_programs(
    context: GradContext,
    plan: GradientPlan,
    saved: Sequence[Tensor],
    scalars: Mapping[str, Any],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the inputs in ``wanted`` from the tensors that the plan ``saved`` and from ``grads``."""
    results: list[Tensor | None] = [None] * len(wanted)
    for slot, output in plan.passed:
        results[slot] = grads[output]
    if not plan.programs:
        return results
    values = [*saved, *[_arranged(context, plan, position, grads) for position in range(len(grads))]]
    for program in plan.programs:
        if program.shared or any(wanted[slot] for slot in program.inputs):
            inputs = tuple([values[source] for source in program.sources])
            outs = call_row(program.row, inputs, {"scalars": scalars}, context.create_graph)
            outs = outs if isinstance(outs, tuple) else (outs,)
            values.extend(outs[len(program.inputs) :])
            for slot, out in zip(program.inputs, outs):
                if slot not in plan.absent:
                    results[slot] = out
    return results


def _arranged(context: GradContext, plan: GradientPlan, position: int, grads: Sequence[Tensor | None]) -> Any:
    """The gradient of an output in the output's shape in the iteration space; zeros if it has none but is used."""
    grad, shape = grads[position], plan.shapes[position]
    if grad is None:
        if position not in plan.used:
            return None
        other = next(other for other in grads if other is not None)
        return Tensor.zeros(shape, other.dtype, queue=other.queue)
    return grad if grad.shape == shape else context.call("reshape", grad, shape)
