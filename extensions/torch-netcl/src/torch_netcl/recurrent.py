"""Recurrent layers: all steps of a direction as one call of netcl, with its gradient; they take PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from netcl.core.ops_table import dispatch
from torch_netcl import overload
from torch_netcl.memory import DTYPES, give, take


def _taken(*tensors: Any) -> list[Any]:
    return [None if x is None else take(x) for x in tensors]


class _Steps(torch.autograd.Function):
    """The states and cells of all steps, of the gates of the inputs."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, state: Any, bias: Any, cell: Any, kind: str, reverse: bool) -> Any:
        made = dispatch.call("recurrence", *_taken(x, weight, state, bias, cell), kind=kind, reverse=reverse)
        out, cells, kept = (give(value) for value in made)
        ctx.save_for_backward(weight, state, cell, out, cells, kept)
        ctx.how = {"kind": kind, "reverse": reverse}
        ctx.set_materialize_grads(False)
        return out, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_out: Any, by_cells: Any) -> Any:
        weight, state, cell, out, cells, kept = ctx.saved_tensors
        operands = _taken(
            weight, state, out, cells, kept, by_out, by_cells if ctx.how["kind"] == "lstm" else None, cell
        )
        by_x, by_sums, by_state, *by_cell = (give(g) for g in dispatch.call("recurrence_back", *operands, **ctx.how))
        parts = (out[1:], state[None]) if ctx.how["reverse"] else (state[None], out[:-1])
        by_weight = by_sums.flatten(0, 1).t() @ torch.cat(parts).flatten(0, 1)
        by_bias = by_sums.sum((0, 1)) if ctx.needs_input_grad[3] else None
        return by_x, by_weight, by_state, by_bias, by_cell[0] if cell is not None else None, None, None


def _layers(kind: str) -> Callable[..., Any]:
    op = overload({"tanh": "rnn_tanh", "relu": "rnn_relu"}.get(kind, kind) + ".input")

    def layers(
        x: Any, states: Any, params: Any, biases: bool, count: int, dropout: float, train: bool, both: bool,
        batch_first: bool,
    ) -> Any:  # fmt: skip
        given = states if kind == "lstm" else (states,)
        every, directions = (x, *given, *params), 1 + both
        if (
            any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.device.type != "ocl" for t in every)
            or x.dtype not in DTYPES or x.dim() != 3 or not x.numel() or torch._C._are_functorch_transforms_active()
            or len({t.dtype for t in every}) > 1 or len(params) != count * directions * (4 if biases else 2)
            or any(s.shape != (count * directions, x.shape[not batch_first], params[1].shape[1]) for s in given)
            or x.shape[2] != params[0].shape[1]
        ):  # fmt: skip
            return op.decompose(x, states, params, biases, count, dropout, train, both, batch_first)
        x, last = x.transpose(0, 1) if batch_first else x, []
        for layer in range(count):
            sides = []
            for side in range(directions):
                at = layer * directions + side
                wide, weight, *more = params[at * (4 if biases else 2) :][: 4 if biases else 2]
                gates = torch.nn.functional.linear(x, wide, more[0] if more else None)
                begun = [part[at].to(gates.dtype) for part in given]
                rest = more[1].to(gates.dtype) if more else None, begun[1] if kind == "lstm" else None
                out, cells = _Steps.apply(gates, weight.to(gates.dtype), begun[0], *rest, kind, bool(side))
                sides.append(out)
                last.append((out[-1 + side], cells[-1 + side]) if kind == "lstm" else (out[-1 + side],))
            x = torch.cat(sides, -1) if both else sides[0]
            x = torch.dropout(x, dropout, train) if dropout and layer < count - 1 else x
        return (x.transpose(0, 1) if batch_first else x, *[torch.stack(part) for part in zip(*last)])

    return layers


def _lstm_cell(by_input: Any, by_hidden: Any, cell: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the state and the cell, and nothing for PyTorch's own gradient, of which the formula has no need."""
    gates = by_input + by_hidden if input_bias is None else (by_input + input_bias) + (by_hidden + hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell, cell.new_empty(0)


def _gru_cell(by_input: Any, by_hidden: Any, state: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the state, and the same."""
    biased = ((by_input, input_bias), (by_hidden, hidden_bias))
    (ir, iz, new), (hr, hz, hn) = ((x if bias is None else x + bias).chunk(3, 1) for x, bias in biased)
    new = (new + (ir + hr).sigmoid() * hn).tanh()
    return new + (iz + hz).sigmoid() * (state - new), state.new_empty(0)


TABLE: dict[str, Callable[..., Any]] = {
    f"{name}.input": _layers(name.removeprefix("rnn_")) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}
TABLE |= {"_thnn_fused_lstm_cell": _lstm_cell, "_thnn_fused_gru_cell": _gru_cell}  # of cells, and of packed sequences
