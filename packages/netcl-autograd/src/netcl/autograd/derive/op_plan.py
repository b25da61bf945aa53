"""Gradient plans of single ops: the plan for all outputs, and plans for fewer outputs on the same saved tensors."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.autograd.derive.closed_forms import op_gradients
from netcl.autograd.derive.plan import GradientPlan, gradient_plan, refused_plan
from netcl.autograd.derive.problem import Shape, problem_of
from netcl.autograd.grad_node import FLOATING
from netcl.core.dispatch import Program
from netcl.core.errors import UnsupportedError


def floating_outputs(program: Program) -> tuple[bool, ...]:
    """Says for each output of a program if it has gradients."""
    return tuple(output.dtype in FLOATING for output in program.outputs)


def op_plan(program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...]) -> GradientPlan | None:
    """The plan for the inputs in ``needs``; None if no output is floating. ``shapes`` of the inputs are part of the
    program's key, so plans are cached in the program.
    """
    if needs not in program.gradients:
        given = floating_outputs(program)
        problem = problem_of(program, shapes, needs, given)
        try:
            program.gradients[needs] = gradient_plan(problem, op_gradients(problem)) if any(given) else None
        except UnsupportedError as error:
            program.gradients[needs] = refused_plan(problem, error)
    return program.gradients[needs]  # type: ignore[no-any-return]


def narrowed_op_plan(
    program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...], given: tuple[bool, ...]
) -> GradientPlan:
    """The plan if only outputs in ``given`` have a gradient; the entire plan if that has not saved enough for it."""
    key = (needs, given)
    if key not in program.gradients:
        entire: GradientPlan = program.gradients[needs]
        if entire.refusal is not None:
            return entire
        problem = problem_of(program, shapes, needs, given)
        program.gradients[key] = gradient_plan(problem, op_gradients(problem), entire) or entire
    return program.gradients[key]  # type: ignore[no-any-return]
