"""The signatures of ops as users call them, with the types of parameters and results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from netcl.core.ops_table.table import OpRow
from netcl.core.tensor import Tensor
from netcl.ops.ranked import Ranked

Operand = Tensor | float | np.ndarray[Any, Any] | np.generic
Axis = int | Sequence[int] | None
Ints = int | Sequence[int]

_NAMES = {
    "Any": Any, "Axes": Axis, "Axis": Axis, "Ints": Ints, "Mapping": Mapping, "Operand": Operand, "Ranked": Ranked,
    "Sequence": Sequence, "Tensor": Tensor,
}  # fmt: skip
_EXPRESSION = re.compile(r"\bExpr\b")


def annotations_of(row: OpRow) -> tuple[dict[str, str], str]:
    """Returns the annotations of a row's parameters and of its result: an expression is a tensor to users, and an
    operand among several may be a number or an array.
    """
    several = row.expression is not None and len(row.operands) > 1
    parameters = {}
    for name, parameter in row.signature.parameters.items():
        if parameter.annotation is parameter.empty:
            parameters[name] = type(parameter.default).__name__
        else:
            kind = "Operand" if several and name in row.operands else "Tensor"
            parameters[name] = _EXPRESSION.sub(kind, str(parameter.annotation))
    function: Any = row.composite or row.call or row.expression
    result = (
        "Tensor" if isinstance(function, str) else str(getattr(function, "__annotations__", {}).get("return", "Any"))
    )
    return parameters, _EXPRESSION.sub("Tensor", result)


def signature_of_op(row: OpRow) -> inspect.Signature:
    """Returns the signature of ``row`` for ``inspect.signature`` and ``help``; its annotations are types."""
    annotations, result = annotations_of(row)
    parameters = row.signature.parameters.items()
    return row.signature.replace(
        parameters=[p.replace(annotation=_type(annotations[name])) for name, p in parameters],
        return_annotation=_type(result),
    )


class Signed:
    """``__wrapped__`` of the function of a row: ``inspect.signature`` follows it, and the signature is made only then,
    as signatures of all ops would take a third of their import.
    """

    __slots__ = ("_row",)

    def __init__(self, row: OpRow) -> None:
        self._row = row

    @property
    def __signature__(self) -> inspect.Signature:
        return signature_of_op(self._row)


@cache
def _type(annotation: str) -> Any:
    """Returns the type that an annotation names; the annotation itself for other modules' names, as in users' rows."""
    try:
        return eval(annotation, {"__builtins__": {}, **_BUILTINS, **_NAMES})
    except (NameError, SyntaxError, TypeError):
        return annotation


_BUILTINS = {kind.__name__: kind for kind in (bool, dict, float, int, list, str, tuple)} | {"None": None}
