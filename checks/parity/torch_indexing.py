"""Indexing and its gradients against PyTorch on the CPU; run by `nox -s parity`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl.autograd as ag
from netcl.core import Tensor

RNG = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def below(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, n, shape)


def apart(n: int, *shape: int) -> np.ndarray:
    """Indices of which none is equal to another of its row: PyTorch leaves open which of equal ones it writes."""
    return np.stack([RNG.permutation(n)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))]).reshape(shape)


MASK = RNG.random((4, 5)) > 0.5
# name: (netcl, PyTorch, floating inputs, which are differentiated, and indices behind them)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray], list[np.ndarray]]] = {
    "index_select": (
        lambda x, i: ag.index_select(x, 1, i),
        lambda x, i: x.index_select(1, i),
        [normal(3, 7, 2)],
        [below(7, 9)],
    ),
    "take": (ag.take, torch.take, [normal(3, 7)], [below(21, 2, 5)]),
    "gather": (
        lambda x, i: ag.gather(x, dim=1, index=i),
        lambda x, i: x.gather(1, i),
        [normal(3, 7, 4)],
        [below(7, 2, 9, 3)],
    ),
    "take_along_axis": (
        lambda x, i: ag.take_along_axis(x, i, 1),
        lambda x, i: torch.take_along_dim(x, i, 1),
        [normal(3, 7, 1)],
        [below(7, 1, 2, 4)],
    ),
    "scatter": (
        lambda x, s, i: ag.scatter(x, 1, i, s),
        lambda x, s, i: x.scatter(1, i, s),
        [normal(4, 7), normal(3, 5)],
        [apart(7, 3, 5)],
    ),
    "scatter a number": (
        lambda x, i: ag.scatter(x, -1, i, 1.5),
        lambda x, i: x.scatter(-1, i, 1.5),
        [normal(4, 7)],
        [below(7, 3, 5)],
    ),
    "scatter_add": (
        lambda x, s, i: ag.scatter_add(x, 0, i, s),
        lambda x, s, i: x.scatter_add(0, i, s),
        [normal(4, 3, 2), normal(8, 2, 2)],
        [below(4, 8, 2, 2)],
    ),
    "index_add": (
        lambda x, s, i: ag.index_add(x, 1, i, s, alpha=-0.5),
        lambda x, s, i: x.index_add(1, i, s, alpha=-0.5),
        [normal(2, 5, 3), normal(2, 8, 3)],
        [below(5, 8)],
    ),
    "index_copy": (
        lambda x, s, i: ag.index_copy(x, 0, i, s),
        lambda x, s, i: x.index_copy(0, i, s),
        [normal(6, 3), normal(4, 3)],
        [apart(6, 4)],
    ),
    "index_put": (
        lambda x, v, i: ag.index_put(x, (i, i), v),
        lambda x, v, i: x.index_put((i, i), v),
        [normal(6, 6, 2), normal(1, 2)],
        [apart(6, 4)],
    ),
    "index_put accumulates": (
        lambda x, v, i, j: ag.index_put(x, (i, j), v, accumulate=True),
        lambda x, v, i, j: x.index_put((i, j), v, accumulate=True),
        [normal(3, 4, 2), normal(9, 2)],
        [below(3, 9), below(4, 9)],
    ),
    "index_put by a mask": (
        lambda x, v, m: ag.index_put(x, (m,), v),
        lambda x, v, m: x.index_put((m,), v),
        [normal(4, 5, 2), normal(int(MASK.sum()), 2)],
        [MASK],
    ),
    "masked_select": (ag.masked_select, torch.masked_select, [normal(4, 5)], [MASK]),
    "masked_fill": (
        lambda x, m: ag.masked_fill(x, m, -1.0),
        lambda x, m: x.masked_fill(m, -1.0),
        [normal(3, 4, 5)],
        [MASK],
    ),
    "embedding": (lambda w, i: ag.embedding(i, w), lambda w, i: F.embedding(i, w), [normal(9, 4)], [below(9, 3, 5)]),
    "embedding with padding": (
        lambda w, i: ag.embedding(i, w, padding_idx=-2),
        lambda w, i: F.embedding(i, w, padding_idx=-2),
        [normal(4, 3)],
        [below(4, 30)],
    ),
    "brackets": (
        lambda x, i, j, m: x[i, None, :, j][:, :, :, m[0]],
        lambda x, i, j, m: x[i, None, :, j][:, :, :, m[0]],
        [normal(3, 5, 4)],
        [below(3, 6), below(4, 2, 1), MASK],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, inputs, indices = CASES[name]
    nodes = [Tensor.from_host(array, requires_grad=True) for array in inputs]
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    found = ours(*nodes, *map(Tensor.from_host, indices))
    wanted = theirs(*leaves, *map(torch.tensor, indices))
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    seed = normal(*found.shape)
    wanted.backward(torch.tensor(seed))
    for grad, leaf in zip(ag.grad([found], nodes, [Tensor.from_host(seed)]), leaves):
        np.testing.assert_allclose(grad.numpy(), leaf.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_counts_and_places() -> None:
    ids, weights = below(20, 300), normal(300)
    for given in ((), (weights,)):
        found = ag.bincount(Tensor.from_host(ids), *map(Tensor.from_host, given), minlength=30)
        wanted = torch.bincount(torch.tensor(ids), *map(torch.tensor, given), minlength=30)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert ag.nonzero(Tensor.from_host(MASK)).tolist() == torch.nonzero(torch.tensor(MASK)).tolist()
    assert ag.one_hot(Tensor.from_host(ids)).tolist() == F.one_hot(torch.tensor(ids)).tolist()
