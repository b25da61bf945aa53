"""Gradient rules of interpolation: resample and its adjoint are each other's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("resample")
def resample(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the adjoint: each output's gradient is distributed to its taps."""
    return {"x": call.op("resample_grad", grad, call.x.shape, call.taps, call.places)}


@rule("resample_grad")
def resample_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Interpolates the gradient."""
    return {"grad_output": call.op("resample", grad, call.grad_output.shape[2:], call.taps, call.places)}
