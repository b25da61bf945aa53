"""Gradient plans of single ops: the plan for all outputs, and plans for fewer outputs on the same saved tensors."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.autograd.derive.closed_forms import op_gradients
from netcl.autograd.derive.plan import GradientPlan, gradient_plan, refused_plan
from netcl.autograd.derive.problem import Shape, problem_of
from netcl.autograd.grad_node import FLOATING
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Apply
from netcl.core.ops_table.dispatch import Program


def floating_outputs(program: Program) -> tuple[bool, ...]:
    """Says for each output of a program if it has gradients: a floating one that is not itself without a gradient."""
    return tuple(
        output.dtype in FLOATING and not (isinstance(output, Apply) and output.prim.name == "stop_gradient")
        for output in program.outputs
    )


def op_plan(program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...]) -> GradientPlan | None:
    """Returns the plan for the inputs in ``needs``; None if no output is floating. ``shapes`` of the inputs are part of
    the program's key, so plans are cached in the program.
    """
    if needs not in program.gradients:
        with_grads = floating_outputs(program)
        problem = problem_of(program, shapes, needs, with_grads)
        try:
            program.gradients[needs] = gradient_plan(problem, op_gradients(problem)) if any(with_grads) else None
        except UnsupportedError as error:
            program.gradients[needs] = refused_plan(problem, error)
    return program.gradients[needs]  # type: ignore[no-any-return]


def narrowed_op_plan(
    program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...], with_grads: tuple[bool, ...]
) -> GradientPlan:
    """Returns the plan for gradients of the outputs in ``with_grads``; the entire plan if that saved too little."""
    key = (needs, with_grads)
    if key not in program.gradients:
        entire: GradientPlan = program.gradients[needs]
        if entire.refusal is not None:
            return entire
        problem = problem_of(program, shapes, needs, with_grads)
        program.gradients[key] = gradient_plan(problem, op_gradients(problem), entire) or entire
    return program.gradients[key]  # type: ignore[no-any-return]
