"""Epilogues inside the CPU kernel of contractions: their OpenCL C, and where a contraction finds their operands."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from netcl.core.dtypes import compute_type, is_floating
from netcl.core.expr import c_types as c
from netcl.core.expr.nodes import Apply, Const, Expr, Load
from netcl.core.expr.rewrite import walk

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

MOST_OPERANDS = 4  # that the template takes
SAME, COLUMN, RESULT = 0, 1, 2  # how an operand goes along a row: one value, a value for each column, as the result


class Place(NamedTuple):
    """Where an operand's value for row i of matrix z lies: ``offset + i * row + z * batch``, then along the row."""

    offset: int = 0
    row: int = 0
    batch: tuple[int, int] = (0, 0)
    along: int = SAME


class Finish(NamedTuple):
    """An epilogue as the kernel takes it."""

    text: str
    operands: tuple[Tensor, ...]
    places: tuple[Place, ...]


@lru_cache(maxsize=256)
def function_text(expression: Expr, operands: int, lanes: int) -> str | None:
    """``epilogue(v0, ...)`` on vectors of floats, nothing for v0 + v1, which the template has; None where a value has
    other than 32 bits or takes no vectors.
    """
    if expression == Load(0, expression.dtype) + Load(1, expression.dtype):
        return ""
    nodes = walk((expression,))
    if operands > MOST_OPERANDS or not all(
        compute_type(node.dtype) in ("float", "int") and (not isinstance(node, Apply) or node.prim.vector)
        for node in nodes
    ):
        return None
    names: dict[Expr, str] = {}
    lines = ["#pragma OPENCL FP_CONTRACT OFF"]
    for node in nodes:
        if isinstance(node, Load):
            names[node] = f"v{node.slot}"
            continue
        names[node] = f"t{len(lines)}"
        lines.append(f"const {c.value_type(node.dtype, lanes)} {names[node]} = {_value(node, names, lanes)};")
    parameters = ", ".join(f"const float{lanes} v{k}" for k in range(max(1, operands) + 1))
    body = "\n    ".join(lines)
    return f"float{lanes} epilogue({parameters}) {{\n    {body}\n    return {names[expression]};\n}}\n"


def _value(node: Expr, names: dict[Expr, str], lanes: int) -> str:
    if isinstance(node, Const):
        return c.broadcast(c.literal(node), node.dtype, lanes)
    assert isinstance(node, Apply)
    texts = [names[arg] for arg in node.args]
    if node.prim.name == "stop_gradient":
        return texts[0]
    if node.prim.name.startswith("to_"):
        return c.convert(texts[0], node.args[0].dtype, node.dtype, lanes)
    template = node.prim.opencl
    if isinstance(template, dict):
        template = template["float" if is_floating(node.args[0].dtype) else "int"]
    text = template.format(*texts)
    return f"(({text}) & 255)" if node.dtype == "uint8" else text


__all__ = ["COLUMN", "RESULT", "SAME", "Finish", "Place", "function_text"]
