"""The gradient of a program as a problem over expressions, and its solution by reverse-mode differentiation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netcl.core.expr import Expr, Load, Reduce, vjp
from netcl.core.expr.rewrite import axes_of, slots, substitute_all, walk
from netcl.core.ops_table.dispatch import Program

Shape = tuple[int, ...]
Gradients = Mapping[int, Expr | None]  # by input slot; None if the input does not influence the outputs


@dataclass(frozen=True, eq=False)
class GradientProblem:
    """Asks for the gradients of the input slots ``wanted``, given gradients of the outputs in ``given``.

    Expressions load the n inputs from the slots 0..n-1, then the m outputs as saved by the forward pass, then the m
    gradients of the outputs. ``present``: per slot the axes of the iteration space along which it varies.
    """

    program: Program
    shapes: Sequence[Shape]
    wanted: tuple[int, ...]
    with_grads: tuple[bool, ...]
    present: Mapping[int, frozenset[int]]

    @property
    def inputs(self) -> int:
        """n, the number of inputs."""
        return len(self.shapes)

    @property
    def outputs(self) -> tuple[Expr, ...]:
        """The m outputs as expressions over the inputs."""
        return self.program.outputs

    @property
    def end(self) -> int:
        """The first slot after the gradients of the outputs: n + 2 m."""
        return self.inputs + 2 * len(self.outputs)

    def saved(self, position: int = 0) -> Load:
        """Returns the output ``position`` as it was saved."""
        return Load(self.inputs + position, self.outputs[position].dtype)

    @property
    def loadable(self) -> dict[Expr, Expr]:
        """Outputs -> as they were saved, of outputs that a gradient may load in place of computing them. An output that
        is broadcast into its result, as a gradient is, has fewer axes in the expressions.
        """
        saved = [(output, self.saved(position)) for position, output in enumerate(self.outputs) if output.children]
        return {output: load for output, load in saved if axes_of(output, self.present, {}) >= self.present[load.slot]}

    @property
    def grads(self) -> list[Expr | None]:
        """The gradients of the outputs, None for an output without one."""
        first = self.inputs + len(self.outputs)
        return [
            Load(first + position, output.dtype) if known else None
            for position, (output, known) in enumerate(zip(self.outputs, self.with_grads))
        ]

    @property
    def grad(self) -> Expr:
        """The gradient of the only output."""
        (grad,) = self.grads
        assert grad is not None, "a program of one output is differentiated only if that has a gradient"
        return grad


def problem_of(
    program: Program, shapes: Sequence[Shape], needs: Sequence[bool], with_grads: tuple[bool, ...]
) -> GradientProblem:
    """Returns the problem of a program's gradients; ``needs`` says for each input if its gradient is wanted."""
    present = dict(program.present)
    for position, shape in enumerate(program.shapes):
        axes = frozenset(axis for axis, size in enumerate(shape) if size != 1)
        present[len(shapes) + position] = present[len(shapes) + len(program.outputs) + position] = axes
    wanted = tuple(slot for slot, need in enumerate(needs) if need)
    return GradientProblem(program, shapes, wanted, with_grads, present)


def derived(problem: GradientProblem) -> Gradients:
    """Returns the gradients by reverse-mode differentiation of the expressions."""
    gradients = vjp(problem.outputs, problem.grads, problem.wanted, problem.present)
    return through_outputs(problem, dict(zip(problem.wanted, gradients)))


def through_outputs(
    problem: GradientProblem, gradients: Gradients, loadable: Mapping[Expr, Expr] | None = None
) -> Gradients:
    """Returns ``gradients`` with occurrences of the outputs replaced by the saved outputs, if that saves no more
    tensors or avoids a reduction; with ``loadable`` of the outputs in it alone.

    A program of several operands must save fewer tensors, so that its result may be overwritten, as a quotient in
    PyTorch.
    """
    loadable = problem.loadable if loadable is None else loadable
    known = {slot: gradient for slot, gradient in gradients.items() if gradient is not None}
    plain, through = [*known.values()], substitute_all([*known.values()], loadable)
    end_of_saved = problem.inputs + len(problem.outputs)

    def count(expressions: Iterable[Expr]) -> int:
        return sum(slot < end_of_saved for slot in slots(expressions))

    reducing = any(isinstance(node, Reduce) for node in walk(problem.outputs))
    if count(through) + (problem.inputs > 1) > count(plain) and not reducing:
        return gradients
    return {**gradients, **dict(zip(known, through))}
