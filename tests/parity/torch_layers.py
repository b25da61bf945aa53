"""Recurrent nets, attention, transformers and whole models against PyTorch with copied weights: outputs, gradients,
state after three steps; run by `nox -s parity`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor

Array = np.ndarray[Any, Any]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def close(ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    ours, theirs = ours.to_host(), theirs.detach().numpy()
    assert ours.shape == theirs.shape
    scale = max(1.0, float(np.abs(theirs).max(initial=0)))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=0.2 * tolerance * scale)


def flat(result: Any) -> list[Any]:
    """The tensors of nested tuples, without what is None."""
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in flat(part)]
    return [] if result is None else [result]


def copy_weights(ours: nn.Module, theirs: Any) -> None:
    state = {name: value.numpy().copy() for name, value in theirs.state_dict().items()}
    assert {name: tuple(t.shape) for name, t in ours.state_dict().items()} == {n: v.shape for n, v in state.items()}
    ours.load_state_dict(state)


def compare(
    ours: nn.Module,
    theirs: Any,
    inputs: Callable[[], Sequence[Array]],
    options: dict[str, Any] | None = None,
    rng: Any = None,
    steps: int = 3,
    tolerance: float = 1e-4,
) -> None:
    """Three steps of gradient descent on copied weights: outputs, gradients of floating inputs and of all parameters,
    the state afterwards, and the outputs in evaluation mode.
    """
    copy_weights(ours, theirs)
    mine, other = {}, {}
    for name, value in (options or {}).items():
        array = isinstance(value, np.ndarray)
        mine[name], other[name] = (Tensor.from_host(value), torch.tensor(value)) if array else (value, value)
    for _ in range(steps):
        data = [np.asarray(array) for array in inputs()]
        real = [array.dtype == np.float32 for array in data]
        xs: list[Any] = [ag.Parameter(Tensor.from_host(a)) if r else Tensor.from_host(a) for a, r in zip(data, real)]
        ys = [torch.tensor(array, requires_grad=r) for array, r in zip(data, real)]
        out, expected = flat(ours(*xs, **mine)), flat(theirs(*ys, **other))
        assert len(out) == len(expected)
        weights = [rng.standard_normal(y.shape).astype(np.float32) / 8 for y in expected]
        for x, y in zip(out, expected):
            close(x, y, tolerance)
        total = ag.sum(ag.mul(out[0], Tensor.from_host(weights[0])))
        for x, weight in zip(out[1:], weights[1:]):
            total = ag.add(total, ag.sum(ag.mul(x, Tensor.from_host(weight))))
        total.backward()
        sum((y * torch.tensor(weight)).sum() for y, weight in zip(expected, weights)).backward()
        for x, y, r in zip(xs, ys, real):
            if r:
                close(x.grad, y.grad, tolerance)
        for (name, one), (_, two) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            assert one.grad is not None, name
            close(one.grad, two.grad, tolerance)
            one.write(one.to_host() - 0.1 * one.grad.to_host())
            with torch.no_grad():
                two -= 0.1 * two.grad
            one.grad = two.grad = None
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name], value, tolerance)
    data = [np.asarray(array) for array in inputs()]
    out = flat(ours.eval()(*map(Tensor.from_host, data), **mine))
    with torch.no_grad():
        expected = flat(theirs.eval()(*map(torch.tensor, data), **other))
    for x, y in zip(out, expected, strict=True):
        close(x, y, tolerance)


def normal(rng: np.random.Generator, *shapes: tuple[int, ...]) -> Callable[[], list[Array]]:
    return lambda: [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


# -- recurrent ---------------------------------------------------------------------------------------------------------

RECURRENT: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("RNN", {}, (5, 3, 4)),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2, "bias": False}, (5, 3, 4)),
    ("LSTM", {}, (5, 4)),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, (5, 3, 4)),
    ("LSTM", {"batch_first": True, "bias": False}, (3, 1, 4)),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}, (3, 5, 4)),
    ("GRU", {"bias": False}, (4, 1, 4)),
]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("at", range(len(RECURRENT)), ids=lambda at: f"{RECURRENT[at][0]}-{at}")
def test_recurrent(at: int, given: bool, rng: np.random.Generator) -> None:
    name, options, shape = RECURRENT[at]
    ours, theirs = getattr(nn, name)(4, 6, **options), getattr(torch.nn, name)(4, 6, **options)
    assert repr(ours) == repr(theirs)
    batch = () if len(shape) == 2 else (shape[0 if options.get("batch_first") else 1],)
    states = (options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), *batch, 6)
    if not given:
        compare(ours, theirs, normal(rng, shape), rng=rng)
    elif name == "LSTM":
        hx = tuple(rng.standard_normal((2, *states)).astype(np.float32))
        data = rng.standard_normal(shape).astype(np.float32)
        copy_weights(ours, theirs)
        out = flat(ours(Tensor.from_host(data), tuple(map(Tensor.from_host, hx))))
        for x, y in zip(out, flat(theirs(torch.tensor(data), tuple(map(torch.tensor, hx)))), strict=True):
            close(x, y)
    else:
        compare(ours, theirs, normal(rng, shape, states), rng=rng)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "rank"), [("RNNCell", 2), ("LSTMCell", 2), ("GRUCell", 2), ("GRUCell", 1)])
def test_cells(name: str, rank: int, bias: bool, rng: np.random.Generator) -> None:
    ours, theirs = getattr(nn, name)(4, 6, bias=bias), getattr(torch.nn, name)(4, 6, bias=bias)
    assert repr(ours) == repr(theirs)
    shape: tuple[int, ...] = (3, 4)[2 - rank :]
    compare(ours, theirs, normal(rng, shape), rng=rng)


def test_dropout_between_layers(rng: np.random.Generator) -> None:
    net, x = nn.GRU(4, 6, num_layers=2, dropout=0.5), Tensor.from_host(normal(rng, (5, 3, 4))()[0])
    assert (net(x)[0].to_host() != net(x)[0].to_host()).any()
    net.eval()
    assert (net(x)[0].to_host() == net(x)[0].to_host()).all()
