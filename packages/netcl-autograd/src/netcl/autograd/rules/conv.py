"""Gradient rules of convolutions: conv, conv_grad_input and conv_grad_weight are closed under differentiation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


def _geometry(call: RecordedCall) -> dict[str, Any]:
    return {"stride": call.stride, "padding": call.padding, "dilation": call.dilation, "groups": call.groups}


def _rules(n: int) -> None:
    name = f"conv{n}d"

    @rule(name, x="weight", weight="x")
    def forward(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
        grads = {}
        shape = call.x.shape
        single = len(shape) == n + 1  # without a batch
        if single:
            grad = call.op("reshape", grad, (1, *grad.shape))
        if call.wants("x"):
            wide = (1, *shape) if single else shape
            grads["x"] = call.op(f"{name}_grad_input", grad, call.weight, wide, **_geometry(call))
            if single:
                grads["x"] = call.op("reshape", grads["x"], shape)
        if call.wants("weight"):
            x = call.op("reshape", call.x, (1, *shape)) if single else call.x
            grads["weight"] = call.op(f"{name}_grad_weight", x, grad, call.weight.shape, **_geometry(call))
        if call.wants("bias"):
            grads["bias"] = call.op("sum", grad, axis=(0, *range(2, grad.ndim)))
        return grads

    @rule(f"{name}_grad_input", grad_output="weight", weight="grad_output")
    def grad_input(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
        grads = {}
        if call.wants("grad_output"):
            grads["grad_output"] = call.op(name, grad, call.weight, **_geometry(call))
        if call.wants("weight"):
            grads["weight"] = call.op(
                f"{name}_grad_weight", grad, call.grad_output, call.weight.shape, **_geometry(call)
            )
        return grads

    @rule(f"{name}_grad_weight", x="grad_output", grad_output="x")
    def grad_weight(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
        grads = {}
        if call.wants("x"):
            grads["x"] = call.op(f"{name}_grad_input", call.grad_output, grad, call.x.shape, **_geometry(call))
        if call.wants("grad_output"):
            grads["grad_output"] = call.op(name, call.x, grad, **_geometry(call))
        return grads


for _n in (1, 2, 3):
    _rules(_n)
