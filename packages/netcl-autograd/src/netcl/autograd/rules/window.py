"""Gradient rules of pooling and im2col: each has its adjoint among the ops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("max_pool", x="out1")
def max_pool(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Adds at the positions of the maxima (scatter-add)."""
    return {
        "x": call.op(
            "max_pool_grad",
            grad,
            call.out1,
            call.x.shape,
            call.kernel_size,
            call.stride,
            call.padding,
            call.dilation,
            call.ceil_mode,
        )
    }


@rule("adaptive_max_pool", x="out1")
def adaptive_max_pool(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Adds at the positions of the maxima (scatter-add)."""
    return {"x": call.op("adaptive_max_pool_grad", grad, call.out1, call.x.shape)}


@rule("adaptive_max_pool_grad", grad_output="indices")
@rule("max_pool_grad", grad_output="indices")
def max_pool_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gathers from the positions of the maxima."""
    lead, place = grad.shape[:2], call.indices
    planes = call.op("reshape", grad, (*lead, math.prod(grad.shape[2:])))
    positions = call.op("reshape", place, (*lead, math.prod(place.shape[2:])))
    return {"grad_output": call.op("reshape", call.op("gather", planes, 2, positions), place.shape)}


@rule("avg_pool")
def avg_pool(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns each average's gradient, divided over its window."""
    return {"x": call.op("avg_pool_grad", grad, call.x.shape, *_average(call))}


@rule("avg_pool_grad")
def avg_pool_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the average of the gradient."""
    return {"grad_output": call.op("avg_pool", grad, *_average(call))}


@rule("adaptive_avg_pool")
def adaptive_avg_pool(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns each average's gradient, divided over its section."""
    return {"x": call.op("adaptive_avg_pool_grad", grad, call.x.shape)}


@rule("adaptive_avg_pool_grad")
def adaptive_avg_pool_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the average of the gradient."""
    return {"grad_output": call.op("adaptive_avg_pool", grad, call.grad_output.shape[2:])}


def _average(call: RecordedCall) -> tuple[Any, ...]:
    return (
        call.kernel_size,
        call.stride,
        call.padding,
        call.ceil_mode,
        call.count_include_pad,
        call.divisor_override,
    )


@rule("im2col")
def im2col(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the columns summed into the image."""
    return {"x": call.op("col2im", grad, call.x.shape, call.kernel_size, call.stride, call.padding, call.dilation)}


@rule("col2im")
def col2im(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the columns of the image."""
    return {"columns": call.op("im2col", grad, call.kernel_size, call.stride, call.padding, call.dilation)}
