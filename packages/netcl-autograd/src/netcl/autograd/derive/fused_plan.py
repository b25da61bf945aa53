"""Gradient plans of fused regions, and of any program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from netcl.autograd.derive.gradient_cse import load_outputs
from netcl.autograd.derive.op_plan import floating_outputs, narrowed_op_plan, op_plan
from netcl.autograd.derive.plan import GradientPlan, gradient_plan
from netcl.autograd.derive.problem import GradientProblem, Gradients, Shape, problem_of, through_outputs
from netcl.autograd.levels import LEVELS
from netcl.core.ops_table.dispatch import Program

if TYPE_CHECKING or "tracing" in LEVELS:
    from netcl.autograd.derive.region import region_gradients
    from netcl.core.graph.region import Fused


def is_fused(program: Program) -> TypeGuard[Fused]:
    """Returns True for the program of a fused region, which a core without the level tracing does not have."""
    return "tracing" in LEVELS and isinstance(program, Fused)


def fused_plan(program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...]) -> GradientPlan | None:
    """Returns the plan for the inputs in ``needs``; None if no output is floating. ``shapes`` of the inputs are part of
    the program's key, so plans are cached in the program.
    """
    if needs in program.gradients:
        return program.gradients[needs]  # type: ignore[no-any-return]
    if not is_fused(program):
        return op_plan(program, shapes, needs)
    with_grads = floating_outputs(program)
    problem = problem_of(program, shapes, needs, with_grads)
    plan = gradient_plan(problem, _fused_gradients(program, problem), eliminate=True) if any(with_grads) else None
    program.gradients[needs] = plan
    return plan


def narrowed(
    program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...], with_grads: tuple[bool, ...]
) -> GradientPlan:
    """Returns the plan for gradients of the outputs in ``with_grads``; the entire plan if that saved too little."""
    key = (needs, with_grads)
    if key in program.gradients:
        return program.gradients[key]  # type: ignore[no-any-return]
    if not is_fused(program):
        return narrowed_op_plan(program, shapes, needs, with_grads)
    entire: GradientPlan = program.gradients[needs]
    problem = problem_of(program, shapes, needs, with_grads)
    plan = gradient_plan(problem, _fused_gradients(program, problem), entire, eliminate=True)
    if plan is None:  # inputs without influence on the given outputs get no gradient, not zeros
        every = region_gradients(program, problem.grads)
        plan = replace(entire, absent=frozenset(slot for slot, gradient in every.items() if gradient is None))
    program.gradients[key] = plan
    return plan


def _fused_gradients(program: Fused, problem: GradientProblem) -> Gradients:
    """Returns the gradients of a region; outputs are loaded as far as they were saved."""
    every = region_gradients(program, problem.grads)
    gradients = {slot: every[slot] for slot in problem.wanted}
    return through_outputs(problem, load_outputs(gradients, problem.loadable))
