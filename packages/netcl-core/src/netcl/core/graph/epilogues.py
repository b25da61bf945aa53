"""Epilogue fusion: a region on the result of a contraction becomes its epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.dtypes import is_floating
from netcl.core.engine.epilogue import MAX_OPERANDS, Epilogue, check
from netcl.core.errors import ExpressionError
from netcl.core.expr import Const, Expr, Load, Scalar
from netcl.core.expr.nodes import rounded_to_dtype
from netcl.core.expr.rewrite import is_exact, rebuild
from netcl.core.graph.call import LoggedCall, Ref
from netcl.core.graph.region import Region, Value
from netcl.core.layout import aligned

_KINDS = ("forward", "grad_input")


def is_contraction(call: LoggedCall) -> bool:
    """True if a call takes an epilogue, and makes one new tensor."""
    takes = call.method == "matmul" or (call.method == "conv" and call.args[0] in _KINDS)
    return (
        takes
        and not call.kwargs.get("wide")
        and isinstance(call.results, Ref)
        and call.kwargs.get("out") is None
        and not call.kept
    )


def with_epilogue(
    call: LoggedCall, region: Region, inputs: Sequence[Ref], value: Value, ref: Ref, scalars: Mapping[str, Any]
) -> LoggedCall | None:
    """Returns the contraction ``call`` with the region's ``value``, which is ``ref``, as its epilogue; None if it
    cannot.

    ``inputs`` are the region's.
    """
    result: Ref = call.results
    own = [
        at for at, operand in enumerate(inputs) if (operand.number, operand.version) == (result.number, result.version)
    ]
    if len(own) != 1 or inputs[own[0]].shape != result.shape or ref.shape != result.shape or ref.dtype != result.dtype:
        return None
    before: Epilogue = call.kwargs.get("epilogue") or Epilogue(Load(0, result.dtype))
    operands: list[Any] = [*before.operands, *(operand for at, operand in enumerate(inputs) if at not in own)]
    expression = epilogue_expression(before, region, own[0], value, operands, scalars)
    if expression is None:
        return None
    reads = call.reads | {(operand.number, operand.version) for operand in operands}
    named = {**call.kwargs, "epilogue": Epilogue(expression, tuple(operands))}
    return LoggedCall(call.method, call.args, named, ref, reads, frozenset((ref.number,)), False)


def epilogue_expression(
    before: Epilogue,
    region: Region,
    own: int,
    value: Value,
    operands: Sequence[Any],
    scalars: Mapping[str, Any],
    exact: bool = True,
) -> Expr | None:
    """Returns the region's ``value`` as an epilogue of its input ``own``, the result of a contraction with the epilogue
    ``before``, with ``operands``: the ones of ``before``, then the other inputs in their order. None if it cannot be an
    epilogue, or if it must be ``exact`` and has a function with bits that depend on the driver.

    Launch scalars become constants.
    """
    if exact and not is_exact(value.expr):
        return None
    home = region.values[region.inputs[own]]
    others = [at for at in range(len(region.inputs)) if at != own]
    count = len(before.operands)
    if not is_floating(home.dtype) or region.reduced is not None or count + len(others) > MAX_OPERANDS:
        return None
    if not all(_broadcasts(region.values[region.inputs[at]], home) for at in others):
        return None
    sums = rounded_to_dtype(before.expression)  # the region reads what the contraction would have stored
    places = {at: 1 + count + place for place, at in enumerate(others)}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return sums if node.slot == own else Load(places[node.slot], node.dtype)
        if isinstance(node, Scalar) and node.name in scalars:
            return Const(scalars[node.name], node.dtype)
        return None

    (expression,) = rebuild([value.expr], change)
    try:
        check(Epilogue(expression, tuple(operands)), value.dtype)
    except ExpressionError:
        return None
    return expression


def _broadcasts(operand: Value, result: Value) -> bool:
    """True if an operand's axes in the region are the axes of its shape along the contraction's result."""
    rank = len(result.shape)
    if len(operand.shape) > rank:
        return False
    there = dict(zip((at for at, size in enumerate(result.shape) if size != 1), result.axes))
    wide = [at for at, size in enumerate(aligned(operand.shape, rank)) if size != 1]
    return [there.get(at) for at in wide] == list(operand.axes)
