"""Sparse tensors against PyTorch: values, layouts, gradients, and the adjacency matrix of a graph convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import netcl as nc
from netcl.core.tensor.sparse import SparseTensor

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
RNG = np.random.default_rng(18)
INDICES = np.array([[0, 3, 1, 1, 0, 3], [2, 3, 1, 0, 2, 1]])  # (0, 2) twice, row 2 empty
VALUES = RNG.uniform(0.2, 2, 6).astype(np.float32)
DENSE = RNG.uniform(-2, 2, (4, 4)).astype(np.float32)
MATRIX = RNG.uniform(-2, 2, (4, 3)).astype(np.float32)


def coo(m: Any, values: Any) -> Any:
    return m.sparse_coo_tensor(m.tensor(INDICES), values, (4, 4))


def csr(m: Any, values: Any) -> Any:
    return coo(m, values).coalesce().to_sparse_csr()


# name -> function of the module, the sparse matrix, a dense square and a dense matrix
USES: dict[str, Callable[..., Any]] = {
    "to_dense": lambda m, x, d, b: x.to_dense(),
    "coalesce": lambda m, x, d, b: x.coalesce().values(),
    "matmul": lambda m, x, d, b: x @ b,
    "torch.mm": lambda m, x, d, b: m.mm(x, b),
    "torch.spmm": lambda m, x, d, b: m.spmm(x, b),
    "sparse.mm": lambda m, x, d, b: m.sparse.mm(x, b),
    "sparse.addmm": lambda m, x, d, b: m.sparse.addmm(b, x, b, beta=0.5, alpha=2.0),
    "torch.addmm": lambda m, x, d, b: m.addmm(b, x, b),
    "mv": lambda m, x, d, b: m.mv(x, b[:, 0]),
    "dense @ sparse": lambda m, x, d, b: b.t() @ x,
    "t": lambda m, x, d, b: x.t() @ b,
    "sparse @ sparse": lambda m, x, d, b: (x @ x).to_dense(),
    "number": lambda m, x, d, b: (x * 2 / 3).to_dense(),
    "neg": lambda m, x, d, b: (-x).to_dense(),
    "add": lambda m, x, d, b: (x + x.t()).to_dense(),
    "sub": lambda m, x, d, b: (x - x.t()).to_dense(),
    "dense + sparse": lambda m, x, d, b: d + x,
    "sparse * sparse": lambda m, x, d, b: (x * x.t()).to_dense(),
    "sparse * dense": lambda m, x, d, b: (x * d).to_dense(),
    "sum": lambda m, x, d, b: m.sum(x),
    "sparse.sum": lambda m, x, d, b: m.sparse.sum(x, 1).to_dense(),
    "sparse.softmax": lambda m, x, d, b: m.sparse.softmax(x, 1).to_dense(),
    "sparse.log_softmax": lambda m, x, d, b: m.sparse.log_softmax(x, 0).to_dense(),
    "sqrt": lambda m, x, d, b: m.sqrt(x).to_dense(),
    "relu": lambda m, x, d, b: m.relu(x).to_dense(),
    "to_sparse": lambda m, x, d, b: d.to_sparse() @ b,
    "to_sparse(1)": lambda m, x, d, b: d.to_sparse(1).to_dense(),
    "sparse_mask": lambda m, x, d, b: d.sparse_mask(x.coalesce()).to_dense(),
    "csr matmul": lambda m, x, d, b: x.coalesce().to_sparse_csr() @ b,
}
# PyTorch 2.13 has no gradient of these.
_FORWARD = {"sparse.sum", "sqrt", "sparse @ sparse"}


def run(m: Any, use: Callable[..., Any]) -> tuple[np.ndarray[Any, Any], list[Any]]:
    leaves = [m.tensor(array, requires_grad=True) for array in (VALUES, DENSE, MATRIX)]
    result = use(m, coo(m, leaves[0]), *leaves[1:])
    try:
        (result * result).sum().backward()
    except (RuntimeError, NotImplementedError):
        if m is nc:
            raise
        return result.detach().numpy(), []
    return result.detach().numpy(), [None if leaf.grad is None else leaf.grad for leaf in leaves]


@pytest.mark.parametrize("name", USES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    value, grads = run(nc, USES[name])
    wanted, theirs = run(torch, USES[name])
    assert np.abs(value - wanted).max() < 1e-5
    assert bool(theirs) or name in _FORWARD
    for mine, other in zip(grads, theirs):
        if other is not None:
            assert np.abs(mine.numpy() - other.to_dense().numpy()).max() < 1e-4


def test_layouts_and_positions() -> None:
    for make in (coo, csr):
        mine, theirs = make(nc, nc.tensor(VALUES)), make(torch, torch.tensor(VALUES))
        assert str(mine.layout).removeprefix("netcl.") == str(theirs.layout).removeprefix("torch.")
        for name in ("is_sparse", "is_sparse_csr", "ndim", "requires_grad"):
            assert getattr(mine, name) == getattr(theirs, name), name
        for name in ("_nnz", "sparse_dim", "dense_dim", "dim", "numel"):
            assert getattr(mine, name)() == getattr(theirs, name)(), name
        assert tuple(mine.shape) == tuple(theirs.shape)
    ours, other = coo(nc, nc.tensor(VALUES)).coalesce(), coo(torch, torch.tensor(VALUES)).coalesce()
    assert ours.indices().tolist() == other.indices().tolist()
    assert ours.indices().dtype == "int64"
    assert not coo(nc, nc.tensor(VALUES)).is_coalesced()
    assert (
        csr(nc, nc.tensor(VALUES)).crow_indices().tolist() == csr(torch, torch.tensor(VALUES)).crow_indices().tolist()
    )
    assert csr(nc, nc.tensor(VALUES)).col_indices().tolist() == csr(torch, torch.tensor(VALUES)).col_indices().tolist()
    assert nc.tensor(DENSE).to_sparse().is_coalesced() == torch.tensor(DENSE).to_sparse().is_coalesced()
    assert (nc.ones(2, 3).sparse_dim(), nc.ones(2, 3).dense_dim()) == (0, 2)


def test_a_leaf_has_a_sparse_gradient() -> None:
    found = []
    for m in (nc, torch):
        x = m.sparse_coo_tensor(INDICES, VALUES, (4, 4), requires_grad=True)
        (x @ m.tensor(MATRIX)).sum().backward()
        assert x.is_leaf or m is torch  # PyTorch's leaf is the tensor that was given here as an array
        found.append(x.grad)
    assert isinstance(found[0], SparseTensor)


def _normalized(m: Any) -> tuple[Any, Any]:
    """Features scaled by rows and the matrix D^-1/2 (A + 1) D^-1/2 of a graph, as programs for graphs make them."""
    features = m.tensor(np.abs(MATRIX))
    scale = m.diag(1 / features.sum(dim=1)).to_sparse()
    edges = np.array([[0, 1], [1, 2], [3, 0]], dtype=np.int32)
    adjacency = m.sparse_coo_tensor(edges.T, m.ones(3), (4, 4), dtype=m.int64)
    adjacency = m.eye(4) + adjacency
    degrees = m.diag(m.sqrt(1 / m.sum(adjacency, dim=1))).to_sparse()
    return (scale @ features).to_sparse(), (degrees @ adjacency @ degrees).to_sparse()


def test_a_graph_convolution() -> None:
    found: list[Iterator[Any]] = []
    for m in (nc, torch):
        features, adjacency = _normalized(m)
        weight = m.tensor(MATRIX[:3] / 2, requires_grad=True)
        out = m.spmm(adjacency, m.mm(features, weight))
        m.relu(out).sum().backward()
        found.append(iter((adjacency.to_dense().numpy(), out.detach().numpy(), weight.grad.numpy())))
    for mine, theirs in zip(*found):
        assert np.abs(mine - theirs).max() < 1e-5
