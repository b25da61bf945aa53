"""Epilogue fusion: writes the OpenCL C of epilogues inside the kernels of contractions, and lays out their operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.templates import struct
from netcl.core.dtypes import compute_type
from netcl.core.engine.epilogue import MAX_OPERANDS
from netcl.core.expr import c_types as c
from netcl.core.expr.nodes import Apply, Const, Expr, Load
from netcl.core.expr.rewrite import walk

if TYPE_CHECKING:
    from netcl.core.engine.epilogue import Epilogue
    from netcl.core.storage.data import TensorData

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
    """Returns an epilogue for kernels that store ``lanes`` sums at a time; None if it needs a separate kernel, for
    example if an operand has no layout.
    """
    text = function_text(epilogue.expression, len(layouts), lanes)
    if text is None or None in layouts:
        return None
    return FusedEpilogue(text, epilogue.operands, tuple(layout for layout in layouts if layout is not None))


def operand_parts(epilogue: str, operands: int, kind: str, value: str) -> dict[str, str]:
    """Returns the parts of contract_operands.cl and of a kernel that passes a sum of type ``kind`` and ``operands``
    values to ``epilogue``, or adds a value if that is empty: the function's declaration, the kernel's parameters, the
    values.

    ``value`` is the text of a value, with ``{k}`` for the number of the operand counted from 1, ``{i}`` counted from 0.
    """
    declared = f"{kind} epilogue({', '.join([f'const {kind}'] * (operands + 1))});"
    added = f"static inline {kind} epilogue(const {kind} sum, const {kind} operand) {{ return sum + operand; }}"
    return {
        "epilogue": declared if epilogue else added,
        "operand_parameters": _listed(", read STORAGE e{k}", operands),
        "operand_values": _listed(f", {value}", operands),
    }


def finished_parts(epilogue: str, operands: int) -> dict[str, str]:
    """Returns the parts of contract_finished.cl and of a kernel for GPUs; without ``operands`` sums are stored as they
    are.
    """
    if not operands:
        return {"operand_parameters": "", "begin_operands": "", "operand_arguments": ""}
    parts = operand_parts(epilogue, operands, "REAL", "LOAD(e{k}, operand_offset(layouts.each[{i}], row, column, to))")
    layout = "layouts.each[{i}]"
    begin = f"e{{k}} += {layout}.offset + outer * {layout}.batch[0] + inner * {layout}.batch[1];\n"
    return parts | {
        "operand_parameters": ", operands layouts" + parts["operand_parameters"],
        "operand_pointers": _listed(", __global const STORAGE* e{k}", operands),
        "begin_operands": _listed(begin, operands).rstrip(),
        "operand_arguments": ", layouts" + _listed(", e{k}", operands),
    }


def _listed(form: str, operands: int) -> str:
    return "".join(form.format(k=i + 1, i=i) for i in range(operands))


def members(layouts: tuple[OperandLayout, ...] | None) -> list[int]:
    """Returns layouts, at least one, as members of a kernel's argument."""
    return [
        x
        for layout in layouts or (OperandLayout(),)
        for x in (layout.offset, layout.row, *layout.batch, layout.stride_kind)
    ]


@lru_cache(maxsize=1024)
def _argument(layouts: tuple[OperandLayout, ...]) -> Any:
    return struct(members(layouts))


def trailing_args(fused: FusedEpilogue | None, placeholder: TensorData) -> tuple[str, int, list[Any]]:
    """Returns the function's text and the number of operands, none without an epilogue, for the text of a GPU's kernel,
    and the arguments after its own; ``placeholder`` is passed if the epilogue has no operand.
    """
    if fused is None:
        return "", 0, []
    operands = fused.operands or (placeholder,)
    return fused.text, len(operands), [_argument(fused.layouts), *operands]


@lru_cache(maxsize=256)
def function_text(expression: Expr, operands: int, lanes: int) -> str | None:
    """Returns ``epilogue(v0, ...)`` on values of ``lanes`` lanes, empty for v0 + v1, which the templates contain. None
    if there are too many operands, or if a value is neither float nor int (with one lane: nor of the result's type) or
    cannot be a vector.
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
