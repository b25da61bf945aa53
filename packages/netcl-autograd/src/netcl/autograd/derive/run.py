"""The backward function of nodes whose gradient is described by a plan."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.autograd.derive.execute import run_programs
from netcl.autograd.derive.fused_plan import narrowed
from netcl.autograd.derive.plan import GradientPlan
from netcl.autograd.derive.unfused import unfused_gradients
from netcl.autograd.grad_node import GradContext, GradNode, Grads, belongs
from netcl.core import Tensor
from netcl.core.errors import KernelBuildError
from netcl.core.lazy.region import Fused


def run_plan(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    """The gradients by the plan of ``node``; if a fused gradient kernel cannot be built, op by op."""
    saved = node.unpack()
    plan: GradientPlan
    plan, program, shapes, needs, scalars = node.static
    if None in [None if grad is None else 0 for grad in grads]:  # a tensor compares its elements
        plan = narrowed(program, shapes, needs, tuple([grad is not None for grad in grads]))
    if context.create_graph and plan.outputs:
        # Saved outputs become outputs of the node again, so that gradients of gradients flow through them.
        outputs = zip(plan.outputs, saved[len(plan.inputs) :])
        saved = (*saved[: len(plan.inputs)], *(belongs(tensor.detach(), node, index) for index, tensor in outputs))
    try:
        return run_programs(context, plan, saved, scalars, grads, wanted)
    except KernelBuildError:
        if not isinstance(program, Fused) or program.relaxed or context.create_graph:
            raise
        return unfused_gradients(context, node, saved, grads)
