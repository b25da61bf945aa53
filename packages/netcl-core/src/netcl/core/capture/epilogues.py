"""Epilogue fusion in a captured step: expressions on the result of a contraction become its epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.backend.epilogue import Epilogue
from netcl.core.capture.call_log import LoggedCall, Ref
from netcl.core.expr import Load
from netcl.core.lazy.region import Region, Value
from netcl.core.lazy.region_epilogue import epilogue_expression

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


__all__ = ["with_epilogue", "is_contraction"]
