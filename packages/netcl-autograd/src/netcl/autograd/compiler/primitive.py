"""User-defined elementwise ops, written as text in the expression language, with a derived or given gradient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.errors import ExpressionError
from netcl.core.expr import parse
from netcl.core.ops_table.dispatch import TABLE, OpRow, call_row, register_op
from netcl.ops.table import elementwise

if TYPE_CHECKING or "programs" in LEVELS:
    from netcl.autograd.derive.closed_forms import closed_form
    from netcl.autograd.derive.custom_gradients import TextGradient

# Rows that a traced function does not fuse: some without a gradient, and primitives that say so.
NOT_FUSIBLE: set[str] = {"floor_divide", "heaviside"}
_primitives: dict[str, AutogradPrimitive] = {}


class AutogradPrimitive:
    """An elementwise op: ``AutogradPrimitive("cube", "v0 * v0 * v0", "grad * 3 * v0 * v0")(x)``.

    ``forward`` is an expression in C over the inputs v0, v1, ...; ``backward`` one per input over these, ``out`` and
    ``grad`` (a single text for a single input); without it the gradient is derived. ``arity`` defaults to the
    number of inputs in the text. ``fusible=False`` keeps the op out of fused kernels. Inputs broadcast; gradients of
    gradients follow from the texts. ExpressionError shows the position of a syntax error.
    """

    def __init__(
        self,
        name: str,
        forward: str,
        backward: str | Sequence[str] | None = None,
        arity: int | None = None,
        fusible: bool = True,
    ) -> None:
        self.name = name
        self.forward = forward
        self.arity: int = _arity(forward) if arity is None else arity
        self.backward: tuple[str] | tuple[str, ...] | None = (
            (backward,) if isinstance(backward, str) else None if backward is None else tuple(backward)
        )
        self.fusible = fusible
        if not name.isidentifier():
            raise ValueError(f"AutogradPrimitive: {name!r} is no name for an op")
        parse(forward, self.arity)
        if self.backward is not None:
            if len(self.backward) != self.arity:
                raise ExpressionError(
                    f"{name}: {len(self.backward)} gradients for {self.arity} inputs; give one text for each"
                )
            if "programs" in LEVELS:
                TextGradient(self.backward).check(forward, self.arity)
        self._row: OpRow | None = None

    def __call__(self, *args: Any) -> Tensor:
        """Runs the op on tensors and numbers and records it; the first call registers it."""
        row = self._row or register_primitive(self)._row
        assert row is not None
        return call_row(row, args, {}, True)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"AutogradPrimitive({self.name!r}, {self.forward!r})"


def _arity(text: str) -> int:
    """Returns the number of inputs of a text: one more than the highest index of v0, v1, ..."""
    for arity in range(1, 33):
        try:
            parse(text, arity)
        except ExpressionError as error:
            if "is not one of the" not in str(error):
                raise
        else:
            return arity
    raise ExpressionError(f"an op has at most 32 inputs: {text}")


def register_primitive(primitive: AutogradPrimitive | str, *args: Any, **kwargs: Any) -> AutogradPrimitive:
    """Adds a primitive, or one made of these arguments, to the op table: ``netcl.autograd.<name>`` and
    ``get_primitive(name)`` then return it. ValueError if the name is taken.
    """
    made = primitive if isinstance(primitive, AutogradPrimitive) else AutogradPrimitive(primitive, *args, **kwargs)
    if _primitives.get(made.name) is made:
        return made
    operands = " ".join(f"v{position}" for position in range(made.arity))
    own = made.backward is not None and "programs" not in LEVELS
    name = f"{made.name}_value" if own else made.name
    made._row = elementwise(name, made.forward, f"The primitive {made.forward}.", operands=operands).row
    if own:
        made._row = register_op(_with_gradient(made.name, made._row, made.backward or ()))
    _primitives[made.name] = made
    if made.backward is not None and not own:
        closed_form(made.name)(TextGradient(made.backward))
    if not made.fusible:
        NOT_FUSIBLE.add(made.name)
    return made


def _with_gradient(name: str, value: OpRow, texts: Sequence[str]) -> OpRow:
    """Returns a row that calls ``value`` with rows of ``texts`` as gradients: for a core without programs to derive."""
    arity = len(texts)
    operands = " ".join(f"v{position}" for position in range(arity + 2))
    names = {"out": f"v{arity}", "grad": f"v{arity + 1}"}
    rows = [
        elementwise(
            f"{name}_gradient{position}",
            re.sub(r"\b(out|grad)\b", lambda match: names[match[1]], text),
            f"The gradient {text} of {name}.",
            operands=operands,
        ).row
        for position, text in enumerate(texts)
    ]

    def run(*args: Any) -> Tensor:
        return call_row(value, args, {}, False)  # type: ignore[no-any-return]

    def vjp(call: Any, grad: Tensor) -> dict[str, Tensor]:
        values = [getattr(call, operand) for operand in value.operands]
        gradients = {}
        for operand, own, row in zip(value.operands, values, rows):
            if call.wants(operand):
                gradients[operand] = _summed(call, call.op(row.name, *values, call.out, grad), own.shape)
        return gradients

    return replace(value, name=name, expression=None, call=run, composite=None, vjp=vjp, saves=None)


def _summed(call: Any, gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns a gradient summed over the axes along which an operand of ``shape`` was broadcast."""
    wide = (1,) * (gradient.ndim - len(shape)) + shape
    axes = tuple(axis for axis, (size, own) in enumerate(zip(gradient.shape, wide)) if size != own)
    return call.op("reshape", call.op("sum", gradient, axes, keepdims=True) if axes else gradient, shape)  # type: ignore[no-any-return]


def get_primitive(name: str) -> AutogradPrimitive:
    """Returns the registered primitive ``name``; KeyError lists the registered primitives."""
    if name not in _primitives:
        kind = "an op of the table, not a primitive" if name in TABLE else "not registered"
        raise KeyError(f"{name!r} is {kind}; primitives are {', '.join(sorted(_primitives)) or 'none'}")
    return _primitives[name]
