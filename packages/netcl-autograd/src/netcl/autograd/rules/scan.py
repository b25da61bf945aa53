"""Gradients of running combinations: a running sum or a linear recurrence that walks the other way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("cumsum")
def cumsum(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """The sum over the positions that an element went into."""
    return {"x": call.op("cumsum", grad, call.axis, reverse=not call.reverse)}


def _shifted(call: RecordedCall, y: Any, steps: int, value: float = 0.0) -> Any:
    """y[i - steps] in place of y[i] along the call's axis, ``value`` where there is none."""
    if not y.ndim:
        return call.op("where", call.op("ne", y, y), value, call.op("clamp", y, value, value))
    pads = [(steps, -steps) if axis == call.axis % y.ndim else (0, 0) for axis in range(y.ndim)]
    return call.op("pad", y, pads, "constant", value)


@rule("cumprod", x="x out")
def cumprod(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """dL/dx[k] = y[k - 1] r[k] with r[k] = g[k] + x[k + 1] r[k + 1]: no division, so zeros do not matter."""
    x = call.x if call.x.dtype == grad.dtype else call.op("cast", call.x, dtype=grad.dtype)
    behind = call.op("linear_recurrence", grad, _shifted(call, x, -1), call.axis, reverse=True)
    return {"x": call.op("mul", behind, _shifted(call, call.out, 1, 1.0))}


@rule("cummax", x="out1")
def cummax(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """To the position that each extremum came from."""
    if not grad.ndim:
        return {"x": grad}
    return {"x": call.op("gather_grad", grad, call.out1, call.axis, call.x.shape)}


rule("cummin", x="out1")(cummax)


@rule("logcumsumexp", x="x out")
def logcumsumexp(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """dL/dx[k] = exp(x[k] - y[k]) r[k] with r[k] = g[k] + exp(y[k] - y[k + 1]) r[k + 1]; y never falls."""

    def ratio(above: Any, below: Any) -> Any:
        # Nothing was added up where both are -inf.
        return call.op("exp", call.op("where", call.op("eq", above, below), 0.0, call.op("sub", above, below)))

    decay = ratio(call.out, _shifted(call, call.out, -1))
    behind = call.op("linear_recurrence", grad, decay, call.axis, reverse=True)
    return {"x": call.op("mul", behind, ratio(call.x, call.out))}


@rule("linear_recurrence", x="decay", decay="decay out")
def linear_recurrence(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """r[i] = g[i] + decay[i + 1] r[i + 1] is the gradient of x, r[i] y[i - 1] that of decay."""
    step = -1 if call.reverse else 1
    reverse = not call.reverse
    behind = call.op("linear_recurrence", grad, _shifted(call, call.decay, -step), call.axis, reverse=reverse)
    if not call.wants("decay"):
        return {"x": behind}
    return {"x": behind, "decay": call.op("mul", behind, _shifted(call, call.out, step))}
