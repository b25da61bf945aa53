"""Gradient rules of scans: cumulative sums or linear recurrences in the opposite direction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("cumsum")
def cumsum(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the cumulative sum in the opposite direction."""
    return {"x": call.op("cumsum", grad, call.axis, reverse=not call.reverse)}


def _shifted(call: RecordedCall, y: Any, steps: int, value: float = 0.0) -> Any:
    """Returns y shifted by ``steps`` along the call's axis and padded with ``value``."""
    if not y.size:
        return y
    if not y.ndim:
        return call.op("where", call.op("ne", y, y), value, call.op("clamp", y, value, value))
    pads = [(steps, -steps) if axis == call.axis % y.ndim else (0, 0) for axis in range(y.ndim)]
    return call.op("pad", y, pads, "constant", value)


@rule("cumprod", x="x out")
def cumprod(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns dL/dx[k] = y[k - 1] r[k] with r[k] = g[k] + x[k + 1] r[k + 1]: without a division, so zeros are exact."""
    x = call.x if call.x.dtype == grad.dtype else call.op("cast", call.x, dtype=grad.dtype)
    carried = call.op("linear_recurrence", grad, _shifted(call, x, -1), call.axis, reverse=True)
    return {"x": call.op("mul", carried, _shifted(call, call.out, 1, 1.0))}


@rule("cummax", x="out1")
def cummax(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Adds at the positions of the extrema (scatter-add)."""
    if not grad.ndim:
        return {"x": grad}
    return {"x": call.op("gather_grad", grad, call.out1, call.axis, call.x.shape)}


rule("cummin", x="out1")(cummax)


@rule("logcumsumexp", x="x out")
def logcumsumexp(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns dL/dx[k] = exp(x[k] - y[k]) r[k] with r[k] = g[k] + exp(y[k] - y[k + 1]) r[k + 1]; y never decreases."""

    def ratio(above: Any, below: Any) -> Any:
        # Both are -inf if nothing has been added up yet.
        return call.op("exp", call.op("where", call.op("eq", above, below), 0.0, call.op("sub", above, below)))

    decay = ratio(call.out, _shifted(call, call.out, -1, math.inf))
    carried = call.op("linear_recurrence", grad, decay, call.axis, reverse=True)
    return {"x": call.op("mul", carried, ratio(call.x, call.out))}


@rule("linear_recurrence", x="decay", decay="decay out")
def linear_recurrence(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns r[i] = g[i] + decay[i + 1] r[i + 1] as gradient of x, and r[i] y[i - 1] as gradient of decay."""
    step = -1 if call.reverse else 1
    reverse = not call.reverse
    carried = call.op("linear_recurrence", grad, _shifted(call, call.decay, -step), call.axis, reverse=reverse)
    if not call.wants("decay"):
        return {"x": carried}
    return {"x": carried, "decay": call.op("mul", carried, _shifted(call, call.out, step))}
