"""Gradient rules of indexing: gather and scatter-add are each other's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("take_at", x="index")
def take_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Scatter-add: each slice or element is added at its index."""
    name = "index_select_grad" if call.rows else "gather_grad"
    return {"x": call.op(name, grad, call.index, call.axis, call.x.shape)}


@rule("index_select_grad", grad_output="index")
def index_select_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gather from the positions that were added to."""
    return {"grad_output": call.op("index_select", grad, call.axis, call.index)}


@rule("gather_grad", grad_output="index")
def gather_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gather from the positions that were added to."""
    return {"grad_output": call.op("gather", grad, call.axis, call.index)}


@rule("embedding_rows", weight="index")
def embedding_rows(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Scatter-add of rows; rows of the padding index get none."""
    row = call.op("mod", call.index, call.weight.shape[0])
    kept = call.op("unsqueeze", call.op("ne", row, call.padding), -1)
    grad = call.op("where", kept, grad, 0.0)
    return {"weight": call.op("index_select_grad", grad, call.index, 0, call.weight.shape)}


@rule("add_at", source="index")
def add_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """To x unchanged, to the source gathered from the positions that were added to."""
    found = {"x": grad}
    if call.wants("source"):
        found["source"] = _taken(call, grad)
    return found


@rule("put_at", x="index", source="index")
def put_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """To x except at overwritten positions; to the source elements that were written last at their position."""
    found = {}
    if call.wants("x"):
        shape = call.index.shape
        if call.rows:
            shape = (*grad.shape[: call.axis], *shape, *grad.shape[call.axis + 1 :])
        found["x"] = call.op("put_at", grad, call.index, grad.engine.zeros(shape, grad.dtype), call.axis, call.rows)
    if call.wants("source"):
        last = call.op("last_at", call.index, call.axis, call.x.shape, call.rows)
        if call.rows:
            behind = grad.ndim - call.axis - 1
            last = call.op("reshape", last, (*last.shape, *(1,) * behind))
        found["source"] = call.op("where", last, _taken(call, grad), 0.0)
    return found


def _taken(call: RecordedCall, grad: Any) -> Any:
    return call.op("index_select" if call.rows else "gather", grad, call.axis, call.index)
