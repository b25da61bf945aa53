"""Gradients of sparse tensors: to elements and to dense operands, as of the same dense computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core.tensor.sparse import SparseTensor
from netcl.core.testing import masked

INDICES = np.array([[3, 0, 1, 1, 0, 3], [0, 2, 1, 0, 2, 3]])  # the position (0, 2) twice, row 2 without elements


def _operands(handle: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    values = nc.tensor(rng.uniform(-1, 1, 6).astype(np.float32), device=handle, requires_grad=True)
    dense = nc.tensor(rng.uniform(-1, 1, (4, 5)).astype(np.float32), device=handle, requires_grad=True)
    return values, dense


def _dense_of(values: Any) -> Any:
    """Returns the matrix of the elements by ops on dense tensors."""
    zeros = nc.zeros(16, device=values.device)
    return nc.index_add(zeros, 0, nc.tensor(INDICES[0] * 4 + INDICES[1], device=values.device), values).reshape(4, 4)


FRONT = pytest.mark.level("front")


@pytest.mark.parametrize(
    "use",
    [
        lambda x, b: x @ b,
        lambda x, b: x @ b[:, 0],
        *(
            pytest.param(use, marks=FRONT)
            for use in (
                lambda x, b: b.T @ x,
                lambda x, b: x.T @ b,
                lambda x, b: b[:, :4] + x,
                lambda x, b: (x * b[:, :4]).to_dense() if isinstance(x, SparseTensor) else x * b[:, :4],
                lambda x, b: (x @ x.T).to_dense() if isinstance(x, SparseTensor) else x @ x.T,
                lambda x, b: (x.to_sparse_csr() @ b) if isinstance(x, SparseTensor) else x @ b,
                lambda x, b: (x.sum(1)).to_dense() if isinstance(x, SparseTensor) else x.sum(1),
            )
        ),
    ],
)
def test_gradients_are_those_of_the_dense_computation(handle: Any, use: Any) -> None:
    found = []
    for form in (lambda v: nc.sparse_coo_tensor(INDICES, v, (4, 4)), _dense_of):
        values, dense = _operands(handle)
        result = use(form(values), dense)
        (result * result + result).sum().backward()
        found.append([values.grad.numpy(), np.zeros(1) if dense.grad is None else dense.grad.numpy()])
    for sparse, wanted in zip(*found):
        assert np.abs(sparse - wanted).max() < 2e-5


def test_second_derivatives_of_a_product(numpy_device: Any) -> None:
    found = []
    for form in (lambda v: nc.sparse_coo_tensor(INDICES, v, (4, 4)), _dense_of):
        values, dense = _operands("cpu")
        result = form(values) @ dense
        (first,) = nc.autograd.grad((result**3).sum(), [values], create_graph=True)
        (first**2).sum().backward()
        found.append((values.grad.numpy(), dense.grad.numpy()))
    for sparse, wanted in zip(*found):
        assert np.abs(sparse - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.level("front")
def test_softmax_has_the_gradient_of_its_rows(numpy_device: Any) -> None:
    values = nc.tensor([0.5, -1.0, 2.0], requires_grad=True)
    weights = nc.tensor([1.0, 3.0, -2.0])
    x = nc.sparse.softmax(nc.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], values, (2, 3)), 1)
    (x.values() * weights).sum().backward()
    pair = nc.tensor([-1.0, 2.0], requires_grad=True)
    (nc.softmax(pair, 0) * weights[1:]).sum().backward()
    assert np.abs(values.grad.numpy() - np.concatenate([[0], pair.grad.numpy()])).max() < 1e-6


@pytest.mark.level("front")
def test_a_leaf_has_a_sparse_gradient(numpy_device: Any) -> None:
    x = nc.sparse_coo_tensor(INDICES, np.ones(6, np.float32), (4, 4), requires_grad=True)
    _, dense = _operands("cpu")
    (x @ dense).sum().backward()
    assert x.is_leaf
    assert isinstance(x.grad, SparseTensor)
    assert np.abs(x.grad._values().numpy() - dense.detach().numpy().sum(1)[INDICES[1]]).max() < 1e-5
    x.grad = None
    assert x.grad is None
    assert not x.detach().requires_grad


@pytest.mark.level("front")
def test_to_sparse_passes_the_gradient_to_elements_that_are_not_zero(numpy_device: Any) -> None:
    dense = nc.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    (dense.to_sparse() @ nc.tensor([[1.0], [10.0]])).sum().backward()
    assert dense.grad.tolist() == [[0.0, 10.0], [1.0, 0.0]]


def test_products_have_the_same_bits_on_every_run(handle: Any) -> None:
    runs = set()
    for _ in range(2):
        values, dense = _operands(handle)
        result = nc.sparse_coo_tensor(INDICES, values, (4, 4)) @ dense
        result.sum().backward()
        runs.add((result.detach().numpy().tobytes(), values.grad.numpy().tobytes(), dense.grad.numpy().tobytes()))
    assert len(runs) == 1


def test_a_compiled_step_takes_a_sparse_operand(handle: Any) -> None:
    weight = nc.tensor(np.linspace(-1, 1, 20).reshape(4, 5).astype(np.float32), device=handle)
    x = nc.sparse_coo_tensor(INDICES, np.arange(6, dtype=np.float32), (4, 4), device=handle)

    def step(w: Any) -> Any:
        return nc.relu(x @ w) * 2

    compiled = nc.compile(step)
    for _ in range(3):
        assert np.array_equal(compiled(weight).numpy(), step(weight).numpy())


@pytest.mark.deep
@pytest.mark.parametrize("group", [1, 12, 64])
@pytest.mark.parametrize("width", [1, 3, 41])
def test_work_items_of_a_gpu_share_rows_and_pairs(handle: Any, group: int, width: int) -> None:
    rng = np.random.default_rng(5)
    a = np.where(rng.random((70, 23)) < 0.2, rng.uniform(-1, 1, (70, 23)), 0).astype(np.float32)
    b = rng.uniform(-1, 1, (23, width)).astype(np.float32)
    with masked(handle, is_cpu=False, max_work_group_size=group):
        left, right = (nc.tensor(x, device=handle, requires_grad=True) for x in (a, b))
        result = left.to_sparse() @ right
        result.sum().backward()
        assert np.abs(result.detach().numpy() - a @ b).max() < 1e-5
        assert np.abs(left.grad.numpy() - np.where(a != 0, b.sum(1), 0)).max() < 1e-5
        assert np.abs(right.grad.numpy() - a.sum(0)[:, None]).max() < 1e-5
