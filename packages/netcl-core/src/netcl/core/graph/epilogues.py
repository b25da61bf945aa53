"""Epilogue fusion: a region on the result of a contraction becomes its epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
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
    call: LoggedCall,
    region: Region,
    inputs: Sequence[Ref],
    value: Value,
    ref: Ref,
    scalars: Mapping[str, Any],
    exact: bool = True,
) -> LoggedCall | None:
    """Returns the contraction ``call`` with the region's ``value``, which is ``ref``, as its epilogue; None if it
    cannot, or if it must be ``exact`` and has a function with bits that depend on the driver.

    ``inputs`` are the region's. Launch scalars become constants.
    """
    result: Ref = call.results
    places = [at for at, each in enumerate(inputs) if (each.number, each.version) == (result.number, result.version)]
    if len(places) != 1 or region.reduced is not None or (exact and not is_exact(value.expr)):
        return None
    home, (own,) = region.values[region.inputs[places[0]]], places
    others = {at: region.values[number] for at, number in enumerate(region.inputs) if at != own}
    before: Epilogue = call.kwargs.get("epilogue") or Epilogue(Load(0, result.dtype))
    count = len(before.operands)
    if (value.shape, value.axes, value.dtype) != (home.shape, home.axes, result.dtype):
        return None
    if not is_floating(home.dtype) or count + len(others) > MAX_OPERANDS:
        return None
    if not all(_broadcasts(other, home) and _fits(other, home, result) for other in others.values()):
        return None
    operands: list[Any] = [*before.operands, *(_along(inputs[at], result.shape) for at in others)]
    sums = rounded_to_dtype(before.expression)  # the region reads what the contraction would have stored
    slots = {at: 1 + count + place for place, at in enumerate(others)}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return sums if node.slot == own else Load(slots[node.slot], node.dtype)
        if isinstance(node, Scalar) and node.name in scalars:
            return Const(scalars[node.name], node.dtype)
        return None

    (expression,) = rebuild([value.expr], change)
    epilogue = Epilogue(expression, tuple(operands))
    try:
        check(epilogue, value.dtype)
    except ExpressionError:
        return None
    reads = call.reads | {(operand.number, operand.version) for operand in operands}
    named = {**call.kwargs, "epilogue": epilogue}
    return LoggedCall(call.method, call.args, named, ref, reads, frozenset((ref.number,)), False)


def _fits(operand: Value, home: Value, result: Ref) -> bool:
    """True if an operand of ``home`` is one of ``result`` too. That may be the rows of ``home`` without their leading
    axes; an operand then has one element for each, or the same ones for all rows.
    """
    few = len(operand.shape) <= 1 and prod(operand.shape) in (1, result.shape[-1])
    return home.shape in (result.shape, operand.shape) or few


def _along(operand: Ref, shape: tuple[int, ...]) -> Ref:
    """Returns an operand with as many elements as ``shape`` in that shape, another one itself."""
    return operand._replace(shape=shape) if prod(operand.shape) == prod(shape) else operand


def _broadcasts(operand: Value, result: Value) -> bool:
    """True if an operand's axes in the region are the axes of its shape along the contraction's result."""
    rank = len(result.shape)
    if len(operand.shape) > rank:
        return False
    there = dict(zip((at for at, size in enumerate(result.shape) if size != 1), result.axes))
    wide = [at for at, size in enumerate(aligned(operand.shape, rank)) if size != 1]
    return [there.get(at) for at in wide] == list(operand.axes)
