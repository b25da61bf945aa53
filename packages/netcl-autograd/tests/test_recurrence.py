"""Recurrent nets as one op: gradients by differences, gradients of gradients, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.errors import ShapeError

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def sample(kind: str, steps: int = 3, n: int = 2, hidden: int = 3) -> list[Tensor]:
    """Returns x, weight, state, bias and, for an LSTM, a cell, in float64 on NumPy."""
    rng, rows = np.random.default_rng(0), GATES[kind] * hidden
    shapes = [(steps, n, rows), (rows, hidden), (n, hidden), (rows,), *([(n, hidden)] if kind == "lstm" else [])]
    queue = manager.default("cpu").queue
    return [ag.tensor(Tensor.from_host(queue, rng.uniform(-1, 1, s), "float64"), requires_grad=True) for s in shapes]


def states(kind: str, reverse: bool) -> Any:
    """Returns a function that gives what has a gradient, in one tensor."""

    def run(*inputs: Tensor) -> Tensor:
        out, cells, _ = ag.recurrence(*inputs, kind=kind, reverse=reverse)
        return ag.add(out, cells) if kind == "lstm" else out  # type: ignore[no-any-return]

    return run


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_differences(kind: str, reverse: bool) -> None:
    inputs = sample(kind)
    assert ag.gradcheck(states(kind, reverse), inputs)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_gradients_have_gradients(kind: str) -> None:
    assert ag.gradgradcheck(states(kind, kind == "gru"), sample(kind, 2))


def test_one_result_alone_has_a_gradient_too() -> None:
    inputs = sample("lstm")
    for at in (0, 1):
        assert ag.gradcheck(lambda *tensors: ag.recurrence(*tensors, kind="lstm")[at], inputs)  # noqa: B023


def test_what_does_not_fit() -> None:
    x, weight, state, bias, cell = sample("lstm")
    with pytest.raises(ShapeError, match=r"kind 'gru' takes \(T, N, 3 H\)"):
        ag.recurrence(x, weight, state, kind="gru")
    with pytest.raises(ShapeError, match=r"a state of \(3, 2\), expected \(2, 3\)"):
        ag.recurrence(x, weight, ag.transpose(state, 0, 1), bias, cell, kind="lstm")
    with pytest.raises(ShapeError, match=r"a bias of \(3,\), expected \(12,\)"):
        ag.recurrence(x, weight, state, bias[:3], cell, kind="lstm")
    with pytest.raises(ValueError, match="an LSTM has a cell"):
        ag.recurrence(x, weight, state, kind="lstm")
    with pytest.raises(ValueError, match="got 'sin'"):
        ag.recurrence(x, weight, state, kind="sin")
