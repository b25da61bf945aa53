"""Epilogues inside the kernels of contractions: their OpenCL C, and where a contraction finds their operands."""

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

SAME, COLUMN, RESULT = 0, 1, 2  # how an operand goes along a row: one value, a value for each column, as the result


class Place(NamedTuple):
    """Where an operand's value for row i of matrix z lies: ``offset + i * row + z * batch``, then along the row."""

    offset: int = 0
    row: int = 0
    batch: tuple[int, int] = (0, 0)
    along: int = SAME


class Finish(NamedTuple):
    """An epilogue as the kernels take it."""

    text: str
    operands: tuple[TensorData, ...]
    places: tuple[Place, ...]


def finish_of(epilogue: Epilogue, places: Sequence[Place | None], lanes: int) -> Finish | None:
    """An epilogue for kernels that store ``lanes`` sums at a time; None where it needs a pass of its own, as where an
    operand has no place.
    """
    text = function_text(epilogue.expression, len(places), lanes)
    if text is None or None in places:
        return None
    return Finish(text, epilogue.operands, tuple(place for place in places if place is not None))


def definitions(text: str, operands: int) -> tuple[tuple[str, int], ...]:
    """What a template has to know of an epilogue."""
    return (("OPERANDS", operands), *((("EPILOGUE", 1),) if text else ()))


def members(places: tuple[Place, ...] | None) -> list[int]:
    """Places, at least one, as members of a kernel's argument."""
    return [x for place in places or (Place(),) for x in (place.offset, place.row, *place.batch, place.along)]


@lru_cache(maxsize=1024)
def _argument(places: tuple[Place, ...]) -> Any:
    return struct(members(places))


def behind(finish: Finish | None, spare: TensorData) -> tuple[str, int, list[Any]]:
    """The function's text and the number of operands, none without an epilogue, for the text of a GPU's kernel, and the
    arguments behind its own; ``spare`` stands where the epilogue has no operand.
    """
    if finish is None:
        return "", 0, []
    operands = finish.operands or (spare,)
    return finish.text, len(operands), [_argument(finish.places), *operands]


@lru_cache(maxsize=256)
def function_text(expression: Expr, operands: int, lanes: int) -> str | None:
    """``epilogue(v0, ...)`` on values of ``lanes`` lanes, nothing for v0 + v1, which the templates have; None where
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


__all__ = ["COLUMN", "RESULT", "SAME", "Finish", "Place", "behind", "definitions", "finish_of", "members"]
