"""Gradient rules of sorting: scatter to the original positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("sort", x="out1")
def sort(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns each element's gradient at its original position, else zero."""
    return {"x": call.op("put_along_axis", grad, call.out1, call.axis, call.x.shape)}


rule("topk", x="out1")(sort)


@rule("sorted_values", x="x")
def sorted_values(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """As of ``sort``, with the positions found now."""
    order = call.op("argsort", call.x, call.axis, call.descending)
    return {"x": call.op("put_along_axis", grad, order, call.axis, call.x.shape)}


@rule("put_along_axis", x="index")
def put_along_axis(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gathers from the written positions."""
    return {"x": call.op("gather", grad, call.axis, call.index) if grad.ndim else grad}
