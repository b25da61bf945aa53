"""clamp with limits that are tensors: values, NaN, ties, gradients to x and to the limits, in place, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
from netcl.core import Tensor
from netcl.core.errors import DTypeError

X = np.array([np.nan, 1.0, 2.0, 3.0, 5.0, 4.0, 0.0, 9.0], np.float32)
LOW = np.array([2.0, np.nan, 2.0, 1.0, 4.0, 6.0, 1.0, 3.0], np.float32)
HIGH = np.array([2.0, 3.0, 3.0, 3.0, np.nan, 5.0, 1.0, 3.0], np.float32)


@pytest.fixture
def queue(handle):
    return handle.queue


@pytest.fixture
def tensors(queue):
    return [Tensor.from_host(queue, array, requires_grad=True) for array in (X, LOW, HIGH)]


@pytest.mark.parametrize("call", [nc.clamp, nc.clip, Tensor.clamp, Tensor.clip])
def test_limits_are_tensors(tensors, call):
    result = call(*tensors)
    np.testing.assert_array_equal(result.numpy(), np.minimum(np.maximum(X, LOW), HIGH))


def test_the_gradient_goes_to_x_or_to_the_limit_that_is_the_result(tensors):
    x, low, high = tensors
    x.clamp(low, high).backward(Tensor.from_host(x.queue, np.ones(8, np.float32)))
    assert x.grad.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert low.grad.tolist() == [0, 0, 0, 0, 0, 0, 0, 0]  # low == high, or high < low
    assert high.grad.tolist() == [0, 0, 0, 0, 0, 1, 0, 1]


def test_one_limit_has_the_gradient_of_all_elements_beyond_it(tensors):
    x, low, high = tensors
    nc.clamp(x, min=low).backward(Tensor.from_host(x.queue, np.ones(8, np.float32)))
    assert low.grad.tolist() == [0, 0, 0, 0, 0, 1, 1, 0]
    assert x.grad.tolist() == [0, 0, 1, 1, 1, 0, 0, 1]
    x.grad = None
    nc.clamp(x, max=high).backward(Tensor.from_host(x.queue, np.ones(8, np.float32)))
    assert high.grad.tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert x.grad.tolist() == [0, 1, 1, 1, 0, 1, 1, 0]


def test_limits_broadcast_and_their_gradients_are_summed(queue):
    x = Tensor.from_host(queue, np.arange(6, dtype=np.float32).reshape(2, 3))
    low = Tensor.from_host(queue, np.float32(2.5), requires_grad=True)
    result = x.clamp(low)
    result.sum().backward()
    assert result.tolist() == [[2.5, 2.5, 2.5], [3, 4, 5]]
    assert low.grad.item() == 3


def test_in_place_and_into_out(tensors):
    x, low, high = (tensor.detach() for tensor in tensors)
    expected = np.minimum(np.maximum(X, LOW), HIGH)
    out = nc.empty_like(x)
    assert nc.clamp(x, low, high, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    assert x.clamp_(low, high) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_dtypes_promote(queue):
    whole = Tensor.from_host(queue, np.arange(4, dtype=np.int32))
    limit = Tensor.from_host(queue, np.float32(1.5))
    assert whole.clamp(limit).tolist() == [1.5, 1.5, 2, 3]
    assert whole.clamp(Tensor.from_host(queue, np.int64(2))).dtype == "int32"
    with pytest.raises(DTypeError, match="cannot be stored in a int32 tensor"):
        whole.clamp_(limit)


def test_a_limit_that_is_nan_gives_nan(queue):
    x = Tensor.from_host(queue, X)
    assert np.isnan(x.clamp(float("nan"), 3.0).numpy()).all()
    np.testing.assert_array_equal(x.clamp(2.0, 3.5).numpy(), np.clip(X, 2, 3.5))


@pytest.mark.level("front")
def test_wrong_limits_are_refused(tensors):
    x, low, _ = tensors
    with pytest.raises(RuntimeError, match="at least one of min and max"):
        nc.clamp(x)
    with pytest.raises(TypeError, match="write netcl.full_like"):
        x.clamp(low, 3.0)
    with pytest.raises(TypeError, match="for tensors write netcl.clamp"):
        nc.ops.clamp(x, low)
