"""Gradient rules of recurrent nets: back-propagation through time in one op, then one product for the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from netcl.autograd.backward import grad as gradients
from netcl.autograd.rules.rule import RecordedCall, rule
from netcl.core import Tensor

_ALL = "x weight state bias cell out out1 out2"


@rule("recurrence", x=_ALL, weight=_ALL, state=_ALL, bias=_ALL, cell=_ALL)
def recurrence(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns, with s the pre-activations of the gates: dW = ds^T (states before each step), db = sum of ds."""
    if call.again:
        return _step_by_step(call)
    out, weight = call.out, call.weight
    back = call.op(
        "recurrence_back", weight, call.state, out, call.out1, call.out2, *call.grads[:2], call.cell, call.kind,
        call.reverse,
    )  # fmt: skip
    by_x, by_sum, by_state, by_cell = back
    grads = {"x": by_x, "state": by_state, "cell": by_cell}
    steps, n, hidden = out.shape
    rows = call.op("reshape", by_sum, (steps * n, weight.shape[0]))
    if call.wants("weight"):
        first = call.op("reshape", call.state, (1, n, hidden))
        rest = call.op("narrow", out, 0, int(call.reverse), steps - 1)
        before = call.op("concatenate", *((rest, first) if call.reverse else (first, rest)), axis=0)
        before = call.op("reshape", before, (steps * n, hidden))
        grads["weight"] = call.op("matmul", rows, before, transpose_a=True)
    if call.wants("bias"):
        grads["bias"] = call.op("sum", rows, axis=0)
    return grads


def _step_by_step(call: RecordedCall) -> Mapping[str, Any]:
    """Returns differentiable gradients, of the same net unrolled into the ops of each step."""
    names = [name for name in ("x", "weight", "state", "bias", "cell") if call.wants(name)]
    operands = (call.x, call.weight, call.state, call.bias, call.cell)
    out, cells = unrolled(call.op, *operands, call.kind, call.reverse)
    pairs = [(value, by) for value, by in zip((out, cells), call.grads) if by is not None and value is not None]
    grads = gradients(
        [value for value, _ in pairs],
        [getattr(call, name) for name in names],
        [by for _, by in pairs],
        create_graph=True,
        allow_unused=True,
    )
    return dict(zip(names, grads))


def unrolled(
    op: Callable[..., Any],
    x: Tensor,
    weight: Tensor,
    state: Tensor,
    bias: Tensor | None,
    cell: Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[Tensor, Tensor | None]:
    """Returns the first two results of ``recurrence`` unrolled into ops, which ``op(name, ...)`` runs; the second is
    None for a kind without cells.
    """
    steps, n, rows = x.shape
    hidden = rows // (gates := {"lstm": 4, "gru": 3}.get(kind, 1))
    h, c = (None if s is None else op("reshape", s, (n, 1, hidden)) for s in (state, cell))
    outs: list[Any] = [None] * steps
    cells: list[Any] = [None] * steps
    for now in range(steps)[:: -1 if reverse else 1]:
        product = op("reshape", op("linear", h, weight, bias), (n, gates, hidden))
        here = op("reshape", op("narrow", x, 0, now, 1), (n, gates, hidden))
        if kind == "lstm":
            h, c = op("lstm_gates", here, product, c)
        elif kind == "gru":
            h = op("gru_gates", here, product, h)
        else:
            h = op(kind, op("add", here, product))
        outs[now], cells[now] = h, c
    joined = (op("concatenate", *parts, axis=1) for parts in (outs, cells) if parts[0] is not None)
    turned = [op("permute", whole, (1, 0, 2)) for whole in joined]
    return turned[0], turned[1] if len(turned) > 1 else None
