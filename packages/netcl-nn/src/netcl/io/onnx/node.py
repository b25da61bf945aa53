"""One node of an imported graph, and what reads its attributes and inputs.

A value at run time is a Tensor, or a NumPy array where it is a size, an index or another constant of the graph: those
are known on the host, and operators on them alone are ONNX's own reference (model.py). An operator here is a function
of netcl.autograd of the node and its inputs, with at least one Tensor among them, and gives its output, or a tuple of
its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

Given = Any  # a Tensor, an array, or None where an optional input is left out


@dataclass(frozen=True)
class Node:
    """One node: its operator, names, attributes as plain values, and the version of the operators that it means."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    name: str = ""
    training: list[bool] = field(default_factory=lambda: [False])

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        """The error about something that this operator is not imported with."""
        return UnsupportedError(f"ONNX {self.op} ({self.name or self.outputs[0]}): {what} is not supported", op=self.op)


Operator = Callable[..., Any]


def host(value: Given) -> Any:
    """The values as an array."""
    return value.to_host() if isinstance(value, Tensor) else value


def numbers(value: Given) -> list[int]:
    """Whole numbers on the host: sizes, axes, indices."""
    return [int(n) for n in np.ravel(host(value))]


def axes_of(node: Node, given: Given, at: str = "axes") -> list[int] | None:
    """Axes, which were an attribute once and are an input now; None where neither is there."""
    if node.get(at) is not None:
        return [int(axis) for axis in node.get(at)]
    return None if given is None else numbers(given)
