"""LSTM and GRU cells: one time step from the pre-activations of the gates, as one expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl.core.expr import Expr, Index, apply, cast, reduce
from netcl.core.ops_table.dispatch import Domain, Space
from netcl.ops.table import expression

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


def _gates(x: Expr, h: Expr, axis: int, count: int) -> list[tuple[Expr, Expr]]:
    """Returns both products' parts of each gate, in float32 at least. A masked sum selects a gate without a copy."""
    wide = "float64" if x.dtype == "float64" else "float32"

    def at(product: Expr, gate: int) -> Expr:
        here = apply("eq", Index(axis), gate)
        return reduce("sum", apply("where", here, cast(product, wide), 0.0), axis)

    return [(at(x, gate), at(h, gate)) for gate in range(count)]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _cases(gates: int) -> Any:
    def cases(rng: np.random.Generator) -> Cases:
        products = (rng.uniform(-2, 2, (3, gates, 5)) for _ in range(2))
        yield (*products, rng.uniform(-1, 1, (3, 1, 5))), {}

    return cases


def _lstm_reference(x: Any, h: Any, cell: Any) -> Any:
    i, f, g, o = np.split(x + h, 4, -2)
    new = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(new), new


@expression(amp="float32", domain=Domain(cases=_cases(4), reference=_lstm_reference))
def lstm_gates(x: Expr, h: Expr, cell: Expr, *, space: Space) -> tuple[Expr, Expr]:
    """Returns the next (h, c) of an LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000), each (N, 1, H).

    ``x`` and ``h`` (N, 4, H) are the products of input and state with their weights, biases included, for the gates
    i, f, g, o; ``cell`` (N, 1, H) is c: c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
    """
    i, f, g, o = (a + b for a, b in _gates(x, h, space.axis(-2), 4))
    new = apply("sigmoid", f) * cast(cell, i.dtype) + apply("sigmoid", i) * apply("tanh", g)
    return cast(apply("sigmoid", o) * apply("tanh", new), x.dtype), cast(new, x.dtype)


def _gru_reference(x: Any, h: Any, state: Any) -> Any:
    x, h = np.split(x, 3, -2), np.split(h, 3, -2)
    r, z = _sigmoid(x[0] + h[0]), _sigmoid(x[1] + h[1])
    return (1 - z) * np.tanh(x[2] + r * h[2]) + z * state


@expression(amp="float32", domain=Domain(cases=_cases(3), reference=_gru_reference))
def gru_gates(x: Expr, h: Expr, state: Expr, *, space: Space) -> Expr:
    """Returns the next state (N, 1, H) of a GRU (Cho et al. 2014; the reset gate is applied after the product, as in
    PyTorch).

    ``x`` and ``h`` (N, 3, H) are the products of input and state with their weights, biases included, for the gates
    r, z, n; ``state`` is (N, 1, H): n' = tanh(x_n + sigmoid(r) h_n), h' = (1 - sigmoid(z)) n' + sigmoid(z) state.
    """
    (xr, hr), (xz, hz), (xn, hn) = _gates(x, h, space.axis(-2), 3)
    keep = apply("sigmoid", xz + hz)
    new = apply("tanh", xn + apply("sigmoid", xr + hr) * hn)
    return cast((1.0 - keep) * new + keep * cast(state, keep.dtype), x.dtype)
