"""The methods of tensors: the table and its rows, forms in place, formatting, copies and pickles."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.ops_table.table import TABLE, row_of
from netcl.core.storage.size import Size
from netcl.core.tensor import methods

VALUES = np.random.default_rng(0).uniform(0.2, 0.8, (3, 4)).astype(np.float32)


@pytest.fixture
def x(engine):
    return Tensor.from_host(engine.queue, VALUES)


def test_every_method_has_a_row_or_a_function():
    row_of("add")
    assert not [name for name, row in methods.ROWS.items() if row not in TABLE]
    assert not [name for name in methods.IN_PLACE if not callable(getattr(Tensor, f"{name}_", None))]


def test_sizes_as_numpy_and_as_pytorch_ask_for_them(x):
    assert x.size == 12
    assert x.size() == (3, 4)
    assert isinstance(x.size(), Size)
    assert x.size().numel() == 12
    assert x.size(-1) == 4
    with pytest.raises(IndexError, match=r"axis 2 in shape \(3, 4\)"):
        x.size(2)


def test_a_step_by_hand_changes_the_parameter(x):
    before = x
    x -= 0.5 * x
    x.mul_(2).add_(1, alpha=3)
    assert x is before
    np.testing.assert_allclose(x.numpy(), VALUES + 3, rtol=1e-6)


def test_in_place_keeps_the_dtype_or_refuses(x):
    whole = x.long()
    with pytest.raises(DTypeError, match="cannot be stored in a int64 tensor"):
        whole.add_(0.5)
    assert whole.fill_(3).sum().item() == 36
    with pytest.raises(ShapeError, match="do not broadcast"):
        x.add_(x.expand(2, 3, 4))


def test_formats_and_compares_as_numbers_and_objects_do(x):
    assert f"{x.sum():.3f}" == f"{VALUES.sum(dtype=np.float64):.3f}"
    assert (x == None) is False  # noqa: E711  as `x in [None]` asks
    assert (x != "a") is True
    assert x not in [None, "a"]
    assert VALUES[1, 2] in x
    assert 7.0 not in x
    assert +x is x
    np.testing.assert_allclose((VALUES.T @ x).numpy(), VALUES.T @ VALUES, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_copies_and_pickles_have_the_values(engine, dtype):
    x = Tensor.from_host(engine.queue, VALUES * 3).astype(dtype)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again is not x
        assert again.dtype == dtype
        assert again.engine is x.engine
        np.testing.assert_array_equal(again.numpy(), x.numpy())
        again.fill_(0)
    assert x.numpy().any()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.max((0, 1)), "write amax"),
        (lambda x: x.sum(dim=0, axis=1), "dim or axis"),
        (lambda x: x.repeat(2), "one for each axis"),
        (lambda x: x.view("float64"), r"x.to\(dtype\)"),
        (lambda x: x[None].t(), "more than two axes"),
        (lambda x: x.unflatten(1, (3, -1)), "does not fit"),
        (lambda x: x.unfold(1, 5, 1), "windows of 5"),
        (lambda x: x.to("cpu", what=1), "unexpected keyword"),
        (lambda x: x.index_fill(0, [7], 1.0), "axis of length 3"),
    ],
)
def test_bad_input_is_named(x, call, error):
    with pytest.raises((TypeError, ShapeError, DTypeError, IndexError), match=error):
        call(x)


def test_forms_of_pytorch_that_rows_lack(x, engine):
    whole = Tensor.from_host(engine.queue, np.array([[1, 2], [1, 2], [0, 1]], np.int64))
    rows, inverse, counts = whole.unique(return_inverse=True, return_counts=True, dim=0)
    assert [rows.tolist(), inverse.tolist(), counts.tolist()] == [[[0, 1], [1, 2]], [1, 1, 0], [1, 2]]
    assert x.std(False).item() == pytest.approx(VALUES.std(), rel=1e-5)
    assert x.var(True).item() == pytest.approx(VALUES.var(ddof=1), rel=1e-5)
    assert x.norm("fro").item() == pytest.approx(np.linalg.norm(VALUES), rel=1e-5)
    assert x.norm("nuc").item() == pytest.approx(np.linalg.norm(VALUES, "nuc"), rel=1e-4)
    assert x.norm(1, dim=1, keepdim=True).shape == (3, 1)
    assert x.transpose(dim0=0, dim1=1).shape == (4, 3)
    assert x.repeat_interleave(2, output_size=24).shape == (24,)
    np.testing.assert_array_equal(x.numpy(force=True), VALUES)
    with pytest.raises(ValueError, match="'fro' or 'nuc'"):
        x.norm("two")


def test_scatter_adds_or_multiplies(engine):
    index = Tensor.from_host(engine.queue, np.array([[1], [2]], np.int64))
    ones = Tensor.ones((2, 3), queue=engine.queue)
    assert ones.scatter(1, index, 2.0, reduce="add").tolist() == [[1, 3, 1], [1, 1, 3]]
    assert ones.scatter(1, index, value=4.0, reduce="multiply").tolist() == [[1, 4, 1], [1, 1, 4]]
    with pytest.raises(ValueError, match="'add' or 'multiply'"):
        ones.scatter(1, index, 2.0, reduce="mean")


def test_shapes_are_sizes(x):
    assert isinstance(x.shape, Size)
    assert x.shape.numel() == 12
    assert (x + 1).shape.numel() == (x @ x.mT + 0).shape.numel() + 3
    assert type(x.shape[1:]) is tuple
    assert repr(x.shape) == "(3, 4)"
    assert pickle.loads(pickle.dumps(x.shape)) == (3, 4)
