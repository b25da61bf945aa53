"""Gradients of resizing: the two directions are each other's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("resample")
def resample(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Each output's gradient to the neighbours that it was made of."""
    return {"x": call.op("resample_grad", grad, call.x.shape, call.taps, call.places)}


@rule("resample_grad")
def resample_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Resized again."""
    return {"grad_output": call.op("resample", grad, call.grad_output.shape[2:], call.taps, call.places)}
