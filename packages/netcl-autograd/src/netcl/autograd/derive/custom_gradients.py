"""Gradients that a user wrote as texts in the expression language."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.autograd.derive.problem import GradientProblem, Gradients
from netcl.core.errors import ExpressionError
from netcl.core.expr import Expr, Load, Scalar, cast, parse, reduce
from netcl.core.expr.rewrite import walk


class TextGradient:
    """The closed form of an elementwise op: per input one text over the inputs v0, v1, ..., ``out`` and ``grad``."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts: tuple[str, ...] = tuple(texts)

    def check(self, forward: str, arity: int) -> None:
        """Raises ExpressionError if a text cannot be parsed, or if ``forward`` does not use all inputs."""
        used = {node.slot for node in walk((parse(forward, arity),)) if isinstance(node, Load)}
        if len(used) < arity:
            raise ExpressionError(f"the forward text does not use all of its {arity} inputs: {forward}")
        loads = [Load(slot, "float32") for slot in range(arity + 2)]
        for text in self.texts:
            parse(text, loads[:arity], {"out": loads[arity], "grad": loads[arity + 1]})

    def __call__(self, problem: GradientProblem) -> Gradients:
        """Returns the gradients of the wanted slots, summed over the axes along which an input was broadcast."""
        (output,), grad = problem.outputs, problem.grad
        nodes = walk((output,))
        loads = {node.slot: node for node in nodes if isinstance(node, Load)}
        numbers = {node.name: node for node in nodes if isinstance(node, Scalar)}  # operands that are plain numbers
        names = [f"v{position}" for position in range(len(self.texts))]
        tensors = [position for position, name in enumerate(names) if name not in numbers]  # by slot
        operands: list[Expr] = [numbers[n] if n in numbers else loads[tensors.index(p)] for p, n in enumerate(names)]
        along = problem.present[grad.slot]  # type: ignore[attr-defined]
        gradients: dict[int, Expr | None] = {}
        for slot in problem.wanted:
            value = parse(self.texts[tensors[slot]], operands, {"out": problem.saved(), "grad": grad})
            gradients[slot] = reduce("sum", cast(value, loads[slot].dtype), sorted(along - problem.present[slot]))
        return gradients
