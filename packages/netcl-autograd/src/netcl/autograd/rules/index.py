"""Gradients of addressing by indices: taking and adding back are each other's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import Call, rule


@rule("index_select", x="index")
def index_select(call: Call, grad: Any) -> Mapping[str, Any]:
    """Each slice added where it was taken."""
    return {"x": call.op("index_select_grad", grad, call.index, call.axis, call.x.shape)}


@rule("index_select_grad", grad_output="index")
def index_select_grad(call: Call, grad: Any) -> Mapping[str, Any]:
    """Taken from where it was added."""
    return {"grad_output": call.op("index_select", grad, call.axis, call.index)}


@rule("gather", x="index")
def gather(call: Call, grad: Any) -> Mapping[str, Any]:
    """Each element added where it was taken."""
    return {"x": call.op("gather_grad", grad, call.index, call.axis, call.x.shape)}


@rule("gather_grad", grad_output="index")
def gather_grad(call: Call, grad: Any) -> Mapping[str, Any]:
    """Taken from where it was added."""
    return {"grad_output": call.op("gather", grad, call.axis, call.index)}
