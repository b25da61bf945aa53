"""Epilogues: elementwise expressions on the sums of a GEMM or convolution before they are stored, such as bias,
activation, residual and scale."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.errors import ExpressionError
from netcl.core.expr.nodes import Apply, Const, Expr, Load
from netcl.core.expr.rewrite import walk

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData


MAX_OPERANDS = 4  # of an epilogue inside a kernel


class Epilogue(NamedTuple):
    """Each result becomes ``expression`` of it, ``Load(0)``, and of ``Load(1)``, ...: the operands there.

    The operands have the result's dtype and broadcast to its shape. The expression gives the result's dtype and is made
    of loads, constants and scalar operations; no reductions, indices or launch scalars.
    """

    expression: Expr
    operands: tuple[TensorData, ...] = ()


def added(operand: TensorData) -> Epilogue:
    """Returns result + operand."""
    return Epilogue(sum_expression(operand.dtype), (operand,))


@lru_cache(maxsize=16)
def sum_expression(dtype: str) -> Expr:
    """Returns the expression of ``added``."""
    return Load(0, dtype) + Load(1, dtype)


def check(epilogue: Epilogue, dtype: str) -> None:
    """Raises ExpressionError if an epilogue of results of ``dtype`` contains something that is not allowed."""
    operands = epilogue.operands
    if not _fits(epilogue.expression, dtype, len(operands)) or any(x.dtype != dtype for x in operands):
        raise ExpressionError(
            f"an epilogue of {dtype} results is an expression of loads 0 to {len(operands)} of that dtype, "
            "constants and scalar operations"
        )


@lru_cache(maxsize=256)
def _fits(expression: Expr, dtype: str, operands: int) -> bool:
    nodes = walk((expression,))
    loads = [node for node in nodes if isinstance(node, Load)]
    plain = all(isinstance(node, (Load, Const)) or (isinstance(node, Apply) and _plain(node)) for node in nodes)
    known = all(node.slot <= operands and node.dtype == dtype for node in loads)
    return plain and known and expression.dtype == dtype


def _plain(node: Apply) -> bool:
    return node.prim.name != "require"


def run_alone(engine: Any, epilogue: Epilogue, result: TensorData) -> None:
    """Runs the epilogue as a pass of its own over ``result``: not a write in place that its version counts."""
    version = result._storage.version
    engine.run((epilogue.expression,), (result, *epilogue.operands), out=(result,))
    result._storage.version = version
