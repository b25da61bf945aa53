"""One node of an imported graph, with access to its attributes and inputs.

A value at run time is a Tensor, or a NumPy array if it is a size, an index or another constant of the graph: those are
known on the host, and operators on arrays only run by ONNX's reference implementation (model.py). An operator here is a
function of netcl.autograd of the node and its inputs, with at least one Tensor among them, and returns its output, or a
tuple of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

Given = Any  # a Tensor, an array, or None for an omitted optional input


@dataclass(frozen=True)
class Node:
    """One node: its operator, names, attributes as plain values, and its opset version."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    name: str = ""
    training: list[bool] = field(default_factory=lambda: [False])

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute."""
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        """Returns the error about an unsupported form of this operator."""
        return UnsupportedError(f"ONNX {self.op} ({self.name or self.outputs[0]}): {what} is not supported", op=self.op)


Operator = Callable[..., Any]

# Operators that are one elementwise op, by the name of the op, for both directions.
OF_OPS: Mapping[str, str] = {
    **{
        name.lower(): name
        for name in (
            *("Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Div", "Erf"),
            *("Exp", "Floor", "IsInf", "IsNaN", "Log", "Mul", "Neg", "Pow", "Round", "Sigmoid", "Sign", "Sin"),
            *("Sinh", "Sqrt", "Sub", "Tan", "Tanh", "Where"),
        )
    },
    "eq": "Equal",
    "ge": "GreaterOrEqual",
    "gt": "Greater",
    "le": "LessOrEqual",
    "lt": "Less",
    **{f"logical_{name.lower()}": name for name in ("And", "Not", "Or", "Xor")},
    "maximum": "Max",
    "minimum": "Min",
}


def host(value: Given) -> Any:
    """Returns the values as an array."""
    return value.to_host() if isinstance(value, Tensor) else value


def numbers(value: Given) -> list[int]:
    """Returns integers on the host: sizes, axes, indices."""
    return [int(n) for n in np.ravel(host(value))]


def axes_of(node: Node, values: Given, at: str = "axes") -> list[int] | None:
    """Returns the axes, an attribute in older opsets and an input in newer ones; None if neither is given."""
    if node.get(at) is not None:
        return [int(axis) for axis in node.get(at)]
    return None if values is None else numbers(values)
