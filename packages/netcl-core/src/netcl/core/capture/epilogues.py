"""Expressions on the result of a contraction, folded into it as its epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.backend.epilogue import MAX_OPERANDS, Epilogue, check
from netcl.core.capture.call_log import Call, Ref
from netcl.core.errors import ExpressionError
from netcl.core.expr import Const, Expr, Load, Scalar
from netcl.core.expr.rewrite import rebuild
from netcl.core.layout import aligned
from netcl.core.lazy.region import Region, Value

_KINDS = ("forward", "grad_input")


def is_contraction(call: Call) -> bool:
    """Whether a call takes an epilogue, and makes one new tensor of single or double precision."""
    takes = call.method == "matmul" or (call.method == "conv" and call.args[0] in _KINDS)
    return takes and isinstance(call.results, Ref) and call.kwargs.get("out") is None and not call.kept


def folded(
    call: Call, region: Region, inputs: Sequence[Ref], value: Value, ref: Ref, scalars: Mapping[str, Any]
) -> Call | None:
    """The contraction ``call`` with the region's ``value``, which is ``ref``, as its epilogue; None where it cannot be.

    ``inputs`` are the region's.
    """
    result: Ref = call.results
    own = [at for at, one in enumerate(inputs) if (one.number, one.version) == (result.number, result.version)]
    if len(own) != 1 or inputs[own[0]].shape != result.shape or ref.shape != result.shape or ref.dtype != result.dtype:
        return None
    before: Epilogue = call.kwargs.get("epilogue") or Epilogue(Load(0, result.dtype))
    operands: list[Any] = [*before.operands, *(one for at, one in enumerate(inputs) if at not in own)]
    expression = epilogue_expression(before, region, own[0], value, scalars)
    if expression is None:
        return None
    epilogue = Epilogue(expression, tuple(operands))
    try:
        check(epilogue, result.dtype)
    except ExpressionError:
        return None
    reads = call.reads | {(one.number, one.version) for one in operands}
    named = {**call.kwargs, "epilogue": epilogue}
    return Call(call.method, call.args, named, ref, reads, frozenset((ref.number,)), False)


def epilogue_expression(
    before: Epilogue, region: Region, own: int, value: Value, scalars: Mapping[str, Any]
) -> Expr | None:
    """What the region's ``value`` makes of its input ``own``, the result of a contraction that ends with ``before``, as
    one epilogue: its operands are those of ``before``, then the other inputs in their order. None where it cannot be.

    Launch scalars become constants.
    """
    home = region.values[region.inputs[own]]
    others = [at for at in range(len(region.inputs)) if at != own]
    count = len(before.operands)
    if home.dtype not in ("float32", "float64") or region.reduced is not None or count + len(others) > MAX_OPERANDS:
        return None
    if not all(_broadcasts(region.values[region.inputs[at]], home) for at in others):
        return None
    places = {at: 1 + count + place for place, at in enumerate(others)}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return before.expression if node.slot == own else Load(places[node.slot], node.dtype)
        if isinstance(node, Scalar) and node.name in scalars:
            return Const(scalars[node.name], node.dtype)
        return None

    (expression,) = rebuild([value.expr], change)
    return expression


def _broadcasts(operand: Value, result: Value) -> bool:
    """Whether an operand lies along a contraction's result as its shape says."""
    rank = len(result.shape)
    if len(operand.shape) > rank:
        return False
    there = dict(zip((at for at, size in enumerate(result.shape) if size != 1), result.axes))
    wide = [at for at, size in enumerate(aligned(operand.shape, rank)) if size != 1]
    return [there.get(at) for at in wide] == list(operand.axes)


__all__ = ["epilogue_expression", "folded", "is_contraction"]
