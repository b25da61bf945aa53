"""Epilogue fusion: the OpenCL C of epilogues inside the kernels of contractions, and the layout of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.epilogue import MAX_OPERANDS
from netcl.core.backend.opencl.templates import struct
from netcl.core.dtypes import compute_type
from netcl.core.expr import c_types as c
from netcl.core.expr.nodes import Apply, Const, Expr, Load
from netcl.core.expr.rewrite import walk

if TYPE_CHECKING:
    from netcl.core.backend.epilogue import Epilogue
    from netcl.core.tensor.data import TensorData

SAME, COLUMN, RESULT = 0, 1, 2  # stride kinds along a row: one value, a value for each column, as the result


class OperandLayout(NamedTuple):
    """The layout of an operand: row i of matrix z begins at ``offset + i * row + z * batch``; ``stride_kind``
    along it.
    """

    offset: int = 0
    row: int = 0
    batch: tuple[int, int] = (0, 0)
    stride_kind: int = SAME


class FusedEpilogue(NamedTuple):
    """An epilogue in the form of kernel text and arguments."""

    text: str
    operands: tuple[TensorData, ...]
    layouts: tuple[OperandLayout, ...]


def fuse_epilogue(epilogue: Epilogue, layouts: Sequence[OperandLayout | None], lanes: int) -> FusedEpilogue | None:
    """An epilogue for kernels that store ``lanes`` sums at a time; None if it needs a separate kernel, for example if
    an operand has no layout.
    """
    text = function_text(epilogue.expression, len(layouts), lanes)
    if text is None or None in layouts:
        return None
    return FusedEpilogue(text, epilogue.operands, tuple(layout for layout in layouts if layout is not None))


def definitions(text: str, operands: int) -> tuple[tuple[str, int], ...]:
    """The definitions of a template that has an epilogue."""
    return (("OPERANDS", operands), *((("EPILOGUE", 1),) if text else ()))


def members(layouts: tuple[OperandLayout, ...] | None) -> list[int]:
    """Layouts, at least one, as members of a kernel's argument."""
    return [
        x
        for layout in layouts or (OperandLayout(),)
        for x in (layout.offset, layout.row, *layout.batch, layout.stride_kind)
    ]


@lru_cache(maxsize=1024)
def _argument(layouts: tuple[OperandLayout, ...]) -> Any:
    return struct(members(layouts))


def trailing_args(fused: FusedEpilogue | None, placeholder: TensorData) -> tuple[str, int, list[Any]]:
    """The function's text and the number of operands, none without an epilogue, for the text of a GPU's kernel, and the
    arguments after its own; ``placeholder`` is passed if the epilogue has no operand.
    """
    if fused is None:
        return "", 0, []
    operands = fused.operands or (placeholder,)
    return fused.text, len(operands), [_argument(fused.layouts), *operands]


@lru_cache(maxsize=256)
def function_text(expression: Expr, operands: int, lanes: int) -> str | None:
    """``epilogue(v0, ...)`` on values of ``lanes`` lanes, empty for v0 + v1, which the templates contain; None if
    there are too many operands, a value is no float or int (one lane: nor of the result's type), or takes no vectors.
    """
    if operands > MAX_OPERANDS:
        return None
    if expression == Load(0, expression.dtype) + Load(1, expression.dtype):
        return ""
    nodes = walk((expression,))
    kinds = ("float" if lanes > 1 else compute_type(expression.dtype), "int")
    if not all(
        compute_type(node.dtype) in kinds and (lanes == 1 or not isinstance(node, Apply) or node.prim.vector)
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
    value = c.value_type(expression.dtype, lanes)
    parameters = ", ".join(f"const {value} v{k}" for k in range(max(1, operands) + 1))
    body = "\n    ".join(lines)
    return f"{value} epilogue({parameters}) {{\n    {body}\n    return {names[expression]};\n}}\n"


def _value(node: Expr, names: dict[Expr, str], lanes: int) -> str:
    if isinstance(node, Const):
        return c.literal(node) if lanes == 1 else c.broadcast(c.literal(node), node.dtype, lanes)
    assert isinstance(node, Apply)
    return c.applied(node, [names[arg] for arg in node.args], lanes)


__all__ = [
    "COLUMN",
    "RESULT",
    "SAME",
    "FusedEpilogue",
    "OperandLayout",
    "trailing_args",
    "definitions",
    "fuse_epilogue",
    "members",
]
