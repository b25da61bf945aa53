"""Sparse tensors: positions, layouts, products and refusals, against dense arrays of NumPy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core.errors import ShapeError, UnsupportedError
from netcl.core.tensor.sparse import SparseTensor


def _random(shape: tuple[int, int], share: float, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < share, rng.uniform(-2, 2, shape), 0).astype(np.float32)


def _coo(dense: np.ndarray[Any, Any], handle: Any) -> SparseTensor:
    """Returns the elements of ``dense`` in random order, each split into two at the same position."""
    indices = np.stack(np.nonzero(dense))
    order = np.random.default_rng(1).permutation(2 * indices.shape[1])
    values = dense[tuple(indices)]
    return nc.sparse_coo_tensor(
        np.tile(indices, 2)[:, order], np.concatenate([values * 0.25, values * 0.75])[order], dense.shape,
        device=handle,
    )  # fmt: skip


def test_elements_at_one_position_add_up(handle: Any) -> None:
    x = nc.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), device=handle)
    merged = x.coalesce()
    assert not x.is_coalesced()
    assert merged.is_coalesced()
    assert merged.indices().tolist() == [[0, 1], [0, 2]]
    assert merged.values().tolist() == [4.0, 8.0]
    assert x.to_dense().tolist() == [[4.0, 0.0, 0.0], [0.0, 0.0, 8.0]]
    assert x._nnz() == 3


def test_csr_has_rows_as_starts(handle: Any) -> None:
    dense = _random((5, 7), 0.3)
    csr = nc.tensor(dense, device=handle).to_sparse_csr()
    starts = csr.crow_indices().tolist()
    assert starts == [0, *np.cumsum((dense != 0).sum(1)).tolist()]
    assert csr.col_indices().tolist() == np.nonzero(dense)[1].tolist()
    again = nc.sparse_csr_tensor(starts, csr.col_indices(), csr.values(), dense.shape)
    assert np.array_equal(again.to_dense().numpy(), dense)
    assert (again.layout, again.is_sparse, again.is_sparse_csr) == (nc.sparse_csr, False, True)


@pytest.mark.parametrize(
    ("shape", "width", "share"), [((37, 23), 41, 0.2), ((1, 5), 1, 1.0), ((300, 7), 16, 0.02), ((4, 3), 2, 0.0)]
)
def test_products_with_dense_matrices(handle: Any, shape: tuple[int, int], width: int, share: float) -> None:
    a = _random(shape, share)
    b = _random((shape[1], width), 1.0, 2)
    right = nc.tensor(b, device=handle)
    for x in (_coo(a, handle), nc.tensor(a, device=handle).to_sparse_csr()):
        found = (x @ right).numpy()
        assert np.abs(found - a.astype(np.float64) @ b).max(initial=0) < 1e-5
        assert found.tobytes() == nc.spmm(x, right).numpy().tobytes()
        left = nc.tensor(b.T.copy(), device=handle)
        assert np.abs((left @ x.t()).numpy() - b.T.astype(np.float64) @ a.T).max(initial=0) < 1e-5
        assert np.abs((x @ right[:, 0]).numpy() - a.astype(np.float64) @ b[:, 0]).max(initial=0) < 1e-5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "int32"])
def test_products_in_other_dtypes(handle: Any, dtype: str) -> None:
    a, b = np.round(_random((9, 6), 0.5) * 2), np.round(_random((6, 4), 1.0, 2) * 2)
    x = nc.tensor(a, device=handle).to_sparse()
    try:
        found = x.to(dtype=dtype) @ nc.tensor(b, device=handle).to(dtype)
    except UnsupportedError:
        assert dtype == "float64"
        return
    assert found.dtype == dtype
    assert np.array_equal(found.numpy(), a @ b)


def test_rows_of_whole_numbers_count_in_their_dtype(numpy_device: Any) -> None:
    x = nc.sparse_coo_tensor(np.array([[0, 1], [1, 0]], np.int32), nc.ones(2), (2, 2), dtype=nc.int64)
    assert x.dtype == "int64"
    total = nc.eye(2) + x
    assert total.dtype == "float32"
    assert total.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_product_of_two_sparse_matrices_is_sparse(handle: Any) -> None:
    a, b = _random((8, 6), 0.3), _random((6, 9), 0.3, 3)
    found = _coo(a, handle) @ _coo(b, handle)
    assert isinstance(found, SparseTensor)
    assert np.abs(found.to_dense().numpy() - a @ b).max() < 1e-6
    wanted = (a != 0).astype(int) @ (b != 0)
    assert found._nnz() == int((wanted != 0).sum())


def test_arithmetic_keeps_what_is_sparse(handle: Any) -> None:
    a, b = _random((5, 4), 0.4), _random((5, 4), 0.4, 5)
    x, y = nc.tensor(a, device=handle).to_sparse(), nc.tensor(b, device=handle).to_sparse()
    row = nc.tensor(b[0], device=handle)
    for found, wanted in (
        (x * 2, a * 2), (0.5 * x, a / 2), (x / 4, a / 4), (-x, -a), (x + y, a + b), (x - y, a - b), (x * y, a * b),
        (x * row, a * b[0]), (nc.tensor(b, device=handle) * x, a * b), (nc.relu(x), np.maximum(a, 0)),
        (x.t(), a.T), (abs(x), abs(a)), (x**2, a**2), (nc.mul(x, 3.0), a * 3),
        (x.to_sparse_csr() + y.to_sparse_csr(), a + b),
    ):  # fmt: skip
        assert isinstance(found, SparseTensor)
        assert np.abs(found.to_dense().numpy() - wanted).max() < 1e-6


def test_dense_plus_sparse_is_dense(handle: Any) -> None:
    a, b = _random((5, 4), 0.4), _random((5, 4), 1.0, 5)
    found = nc.tensor(b, device=handle) + _coo(a, handle)
    assert isinstance(found, nc.Tensor)
    assert np.abs(found.numpy() - (a + b)).max() < 1e-6


def test_sums(handle: Any) -> None:
    a = _random((5, 4), 0.4)
    x = _coo(a, handle)
    assert abs(x.sum().item() - a.sum()) < 1e-5
    for axis in (0, 1, -1):
        rows = nc.sum(x, dim=axis)
        assert isinstance(rows, SparseTensor)
        assert np.abs(rows.to_dense().numpy() - a.sum(axis)).max() < 1e-5
        assert x.sum(axis, keepdim=True).shape == a.sum(axis, keepdims=True).shape
    assert abs(nc.sparse.sum(x, (0, 1)).item() - a.sum()) < 1e-5


def test_softmax_of_stored_elements(handle: Any) -> None:
    a = _random((6, 5), 0.6)
    for axis in (0, 1):
        powers = np.where(a != 0, np.exp(a.astype(np.float64)), 0)
        total = powers.sum(axis, keepdims=True)
        wanted = powers / np.where(total == 0, 1, total)
        assert np.abs(nc.sparse.softmax(_coo(a, handle), axis).to_dense().numpy() - wanted).max() < 1e-6
        logarithm = nc.sparse.log_softmax(_coo(a, handle), axis).to_dense().numpy()
        assert np.abs(logarithm[a != 0] - np.log(wanted[a != 0])).max() < 1e-5


def test_elements_may_have_axes(handle: Any) -> None:
    dense = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    dense[[0, 2]] = 0
    x = nc.tensor(dense, device=handle).to_sparse(1)
    assert (x.sparse_dim(), x.dense_dim(), x._nnz()) == (1, 2, 2)
    assert np.array_equal(x.to_dense().numpy(), dense)
    assert np.array_equal((x + x).to_dense().numpy(), 2 * dense)
    with pytest.raises(ShapeError, match="matrix of numbers"):
        x.to_dense().reshape(4, 6).to_sparse(1) @ nc.ones(6, device=handle)


def test_ops_without_a_sparse_form_say_what_to_write(numpy_device: Any) -> None:
    x = nc.ones(2, 2).to_sparse()
    for call in (
        lambda: nc.exp(x), lambda: x + 1, lambda: x > 0, lambda: x == x, lambda: x[0], lambda: nc.cat([x, x]),
        lambda: nc.where(x, 1, 0), lambda: 1 / x, lambda: bool(x), lambda: list(x), lambda: np.asarray(x),
        lambda: x + nc.ones(2, 2), lambda: nc.ops.conv2d(x, x), lambda: x @ np.ones((2, 2)),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="to_dense"):
            call()
    with pytest.raises(AttributeError, match=r"x\.to_dense\(\)\.exp"):
        x.exp  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        x.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="to_sparse"):
        nc.ones(2).coalesce()


def test_wrong_positions_are_named(numpy_device: Any) -> None:
    with pytest.raises(IndexError, match="index 5 at position 1"):
        nc.sparse_coo_tensor([[0, 5], [0, 0]], [1.0, 2.0], (2, 2))
    with pytest.raises(IndexError, match="index -1"):
        nc.sparse_coo_tensor([[0, -1], [0, 0]], [1.0, 2.0])
    with pytest.raises(ShapeError, match="indices"):
        nc.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="whole numbers"):
        nc.sparse_coo_tensor([[0.5, 1]], [1.0, 2.0])
    with pytest.raises(ValueError, match="is_coalesced"):
        nc.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True)
    with pytest.raises(ValueError, match="rise from 0 to 2"):
        nc.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2))
    with pytest.raises(ValueError, match="columns of a row"):
        nc.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    with pytest.raises(ShapeError, match="matmul"):
        nc.ones(2, 3).to_sparse() @ nc.ones(2, 3)
    with pytest.raises(UnsupportedError, match=r"x\.coalesce\(\)\.values"):
        nc.sparse_coo_tensor([[0, 0]], [1.0, 2.0]).values()
    with pytest.raises(UnsupportedError, match="to_sparse_csr"):
        nc.ones(2, 2).to_sparse().crow_indices()


def test_moving_copying_and_pickling_keep_positions(numpy_device: Any) -> None:
    x = nc.sparse_coo_tensor([[1, 0], [0, 1]], [1.0, 2.0], (2, 2))
    wanted = [[0.0, 2.0], [1.0, 0.0]]
    for other in (x.to("cpu"), x.half().float(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert other.to_dense().tolist() == wanted
    assert x.to("cpu") is x
    assert "nnz=2" in repr(x)
    assert nc.is_tensor(x)
    assert not isinstance(x, nc.Tensor)
    assert "netcl.sparse_coo" in repr(x)
