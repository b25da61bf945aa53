"""A recurrent network over all steps of a sequence, and its gradients: RNN, LSTM and GRU in one direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.table import as_dtype, computed, engine_of, floating

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _sample(rng: np.random.Generator, kind: str, n: int, hidden: int, steps: int = 3) -> tuple[Any, ...]:
    rows = GATES[kind] * hidden
    shapes = [(steps, n, rows), (rows, hidden), (n, hidden), (rows,), *([(n, hidden)] if kind == "lstm" else [])]
    return tuple(rng.uniform(-0.5, 0.5, shape) for shape in shapes)


def _cases(rng: np.random.Generator) -> Cases:
    for kind, n, hidden in (("lstm", 7, 20), ("gru", 4, 9), ("relu", 2, 1)):
        yield _sample(rng, kind, n, hidden), {"kind": kind, "reverse": n % 2 == 0}
    yield _sample(rng, "tanh", 7, 40)[:3], {"kind": "tanh"}


def _reference(
    x: Any, weight: Any, state: Any, bias: Any = 0.0, cell: Any = None, kind: str = "tanh", reverse: bool = False
) -> Any:
    out, cells, kept = np.zeros((*x.shape[:2], state.shape[1])), [], []
    for now in list(range(len(x)))[:: -1 if reverse else 1]:
        product = state @ weight.T + bias
        if kind == "gru":
            (a, b, c), (d, e, own) = np.split(x[now], 3, -1), np.split(product, 3, -1)
            reset, stay = _sigmoid(a + d), _sigmoid(b + e)
            fresh = np.tanh(c + reset * own)
            state = fresh + stay * (state - fresh)
            kept.append(np.concatenate([reset, stay, fresh, own], -1))
        elif kind == "lstm":
            i, f, g, o = np.split(x[now] + product, 4, -1)
            cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
            state = _sigmoid(o) * np.tanh(cell)
            cells.append(cell)
            kept.append(np.concatenate([_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)], -1))
        else:
            state = np.tanh(x[now] + product) if kind == "tanh" else np.maximum(x[now] + product, 0)
        out[now] = state
    turned = slice(None, None, -1 if reverse else 1)
    return out, np.array(cells[turned]), np.array(kept[turned])


def _checked(op: str, kind: str, x: Tensor, weight: Tensor, *states: Tensor | None) -> tuple[int, int, int]:
    if kind not in GATES:
        raise ArgumentError(f"{op}: expected one of {', '.join(GATES)} as kind, got {kind!r}")
    rows, hidden = weight.shape if weight.ndim == 2 else (0, 0)
    if x.ndim != 3 or rows != GATES[kind] * hidden or x.shape[2] != rows or hidden == 0:
        raise ShapeError(
            f"{op}: x {x.shape} and weight {weight.shape}; a net of kind {kind!r} takes (T, N, {GATES[kind]} H) and "
            f"({GATES[kind]} H, H)"
        )
    for state in states:
        if state is not None and state.shape != (x.shape[1], hidden):
            raise ShapeError(f"{op}: a state of {state.shape}, expected {(x.shape[1], hidden)}")
    return x.shape[0], x.shape[1], hidden


@computed(dtypes="floating", amp="float32", domain=compared(_cases, _reference, gradient=False))
def recurrence(
    x: Tensor,
    weight: Tensor,
    state: Tensor,
    bias: Tensor | None = None,
    cell: Tensor | None = None,
    kind: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns all steps of a recurrent network: the states (T, N, H), for an LSTM its cells (T, N, H), and values for
    the gradient.

    ``x`` (T, N, gates H): the products of the inputs with their weights; ``weight`` (gates H, H) and ``bias`` (gates
    H,) are for the state, ``state`` and ``cell`` (N, H) the initial values. ``kind``: ``lstm`` (gates i, f, g, o;
    Hochreiter and Schmidhuber 1997), ``gru`` (r, z, n; Cho et al. 2014, the reset gate after the product), ``tanh`` or
    ``relu`` (Elman 1990). ``reverse`` runs from the last step to the first. Results that a kind does not have are
    empty. Half types are computed in float32. The first two results have gradients.
    """
    engine = engine_of("recurrence", x, weight, state, bias, cell)
    if (cell is not None) != (kind == "lstm"):
        raise ArgumentError("recurrence: an LSTM has a cell to begin with, and nothing else has")
    _, _, hidden = _checked("recurrence", kind, x, weight, state, cell)
    if bias is not None and bias.shape != (GATES[kind] * hidden,):
        raise ShapeError(f"recurrence: a bias of {bias.shape}, expected {(GATES[kind] * hidden,)}")
    x, weight, state, bias, cell = floating("recurrence", x, weight, state, bias, cell)
    wide: list[Any] = [None if t is None else as_dtype(t, _wide(x)) for t in (x, weight, state, bias, cell)]
    results = engine.recurrence(kind, *wide, reverse=reverse)
    return tuple(as_dtype(result, x.dtype) for result in results)  # type: ignore[return-value]


def _wide(x: Tensor) -> str:
    return "float64" if x.dtype == "float64" else "float32"


def _back_cases(rng: np.random.Generator) -> Cases:
    for kind, n, hidden, reverse in (("lstm", 7, 20, True), ("gru", 4, 9, False), ("tanh", 7, 40, True)):
        x, weight, state, bias, *cell = _sample(rng, kind, n, hidden)
        attributes: dict[str, Any] = {"kind": kind, "reverse": reverse}
        out, cells, kept = _reference(x, weight, state, bias, cell[0] if cell else None, **attributes)
        grads = [rng.uniform(-1, 1, out.shape), rng.uniform(-1, 1, cells.shape) if cell else None]
        yield (weight, state, out, cells, kept, *grads, *cell), attributes


# Without a separate reference: the gradients of ``recurrence`` are checked by differences.
@computed(dtypes="floating", amp="float32", domain=Domain(cases=_back_cases, gradient=False))
def recurrence_back(
    weight: Tensor,
    state: Tensor,
    out: Tensor,
    cells: Tensor,
    kept: Tensor,
    by_out: Tensor | None = None,
    by_cells: Tensor | None = None,
    cell: Tensor | None = None,
    kind: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of ``recurrence`` by x, by the sums that contain its weight and bias, both (T, N, gates H),
    by the initial state and, for an LSTM, the initial cell, (N, H); from its three results and the gradients of the
    first two.
    """
    engine = engine_of("recurrence_back", weight, state, out, cells, kept, by_out, by_cells, cell)
    dtype = weight.dtype
    operands = (weight, state, cell, out, cells, kept, by_out, by_cells)
    wide: list[Any] = [None if t is None else as_dtype(t, _wide(weight)) for t in operands]
    results = engine.recurrence_back(kind, *wide, reverse=reverse)
    return tuple(as_dtype(result, dtype) for result in results)  # type: ignore[return-value]
