"""Gradients that a user has written down as texts, by the name of their op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netcl.core.errors import ExpressionError
from netcl.core.expr import Expr, Load, Scalar, cast, parse, reduce
from netcl.core.expr.rewrite import walk


class TextGradient:
    """Gradients of an elementwise op as texts over its inputs v0, v1, ..., ``out`` and ``grad``, one for each input."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)

    def check(self, forward: str, arity: int) -> None:
        """ExpressionError where a text cannot be read, or ``forward`` leaves out an input."""
        used = {node.slot for node in walk((parse(forward, arity),)) if isinstance(node, Load)}
        if len(used) < arity:
            raise ExpressionError(f"the forward text does not use all of its {arity} inputs: {forward}")
        loads = [Load(slot, "float32") for slot in range(arity + 2)]
        for text in self.texts:
            parse(text, loads[:arity], {"out": loads[arity], "grad": loads[arity + 1]})

    def gradients(
        self, output: Expr, out: Expr, grad: Expr, wanted: Sequence[int], present: Mapping[int, frozenset[int]]
    ) -> dict[int, Expr | None]:
        """The gradients of the slots ``wanted``, summed over the axes along which an input was broadcast."""
        nodes = walk((output,))
        loads = {node.slot: node for node in nodes if isinstance(node, Load)}
        numbers = {node.name: node for node in nodes if isinstance(node, Scalar)}  # operands that are no tensors
        names = [f"v{position}" for position in range(len(self.texts))]
        places = [position for position, name in enumerate(names) if name not in numbers]
        operands: list[Expr] = [numbers[n] if n in numbers else loads[places.index(p)] for p, n in enumerate(names)]
        along = present[grad.slot]  # type: ignore[attr-defined]
        found: dict[int, Expr | None] = {}
        for slot in wanted:
            value = parse(self.texts[places[slot]], operands, {"out": out, "grad": grad})
            found[slot] = reduce("sum", cast(value, loads[slot].dtype), sorted(along - present[slot]))
        return found


GIVEN: dict[str, TextGradient] = {}
