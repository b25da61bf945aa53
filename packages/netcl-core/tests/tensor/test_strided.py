"""Views by steps, windows, tensors that take another shape in place, and draws in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import netcl as nc
from netcl.core.errors import DTypeError, ShapeError, UnsupportedError

STEPS = [((2, 3), (5, 2), 1), ((4, 3), (2, 1), 0), ((), (), 5), ((2, 2), (0, 3), 0), ((5,), (5,), 3)]
VIEWS = {
    "whole": lambda x: x,
    "transpose": lambda x: x.T,
    "slice": lambda x: x[1:, ::2],
    "row": lambda x: x[2],
    "flat": lambda x: x.reshape(-1),
}


def _base() -> Any:
    return nc.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("size", "stride", "offset"), STEPS)
def test_as_strided_shows_the_storage(numpy_device: Any, view: str, size: Any, stride: Any, offset: int) -> None:
    x, array = _base(), np.arange(24.0, dtype=np.float32)
    shown = VIEWS[view](x).as_strided(size, stride, offset)
    expected = as_strided(array[offset:], size, [4 * step for step in stride])
    np.testing.assert_array_equal(shown.numpy(), expected)
    assert (shown.stride(), shown.storage_offset()) == (tuple(stride), offset)
    x.mul_(2)
    np.testing.assert_array_equal(shown.numpy(), expected * 2)
    shown.fill_(7)
    array *= 2
    as_strided(array[offset:], size, [4 * step for step in stride])[...] = 7
    np.testing.assert_array_equal(x.numpy().reshape(-1), array)


def test_the_offset_is_that_of_the_view(numpy_device: Any) -> None:
    assert _base()[1:, ::2].as_strided((3,), (2,)).tolist() == [6, 8, 10]


@pytest.mark.parametrize(
    ("size", "stride", "offset"), [((3,), (-1,), 5), ((30,), (1,), 0), ((2, 2), (1,), 0), ((2,), (1,), -1)]
)
def test_steps_outside_of_the_storage_are_refused(numpy_device: Any, size: Any, stride: Any, offset: int) -> None:
    with pytest.raises(ShapeError, match="as_strided"):
        _base().as_strided(size, stride, offset)


def test_a_write_into_shared_elements_is_refused(numpy_device: Any) -> None:
    with pytest.raises(UnsupportedError, match="several of its elements are one element in memory"):
        _base().as_strided((3, 2), (1, 1)).copy_(nc.ones(3, 2))


def test_as_strided_in_place_and_scattered(numpy_device: Any) -> None:
    x = nc.arange(8.0)
    assert x.as_strided_((2, 2), (3, 1)) is x
    assert x.tolist() == [[0, 1], [3, 4]]
    columns = _base().T
    scattered = columns.as_strided_scatter(nc.ones(2, 2), (2, 2), (6, 1), 1)
    expected = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    expected[:2, 1:3] = 1
    np.testing.assert_array_equal(scattered.numpy(), expected.T)
    assert scattered.stride() == columns.stride()


@pytest.mark.parametrize(("size", "step"), [(3, 3), (3, 4), (2, 3), (3, 2), (2, 1), (4, 3), (10, 1), (1, 3)])
def test_windows_follow_their_base(engine: Any, size: int, step: int) -> None:
    x = nc.arange(20.0).to(engine.queue).reshape(2, 10)
    windows = x.unfold(1, size, step)
    expected = sliding_window_view(np.arange(20.0).reshape(2, 10), size, 1)[:, ::step]
    np.testing.assert_array_equal(windows.numpy(), expected)
    x.add_(1)
    np.testing.assert_array_equal(windows.numpy(), expected + 1)
    if step >= size:
        windows.copy_(-windows)
        assert x[0, size - 1].item() == -float(size)
    windows.fill_(9)
    assert x[1, 0].item() == 9


def test_resize_keeps_the_storage_or_takes_a_larger_one(numpy_device: Any) -> None:
    x = nc.arange(6.0)
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    grown = x.resize_as_(nc.zeros(3, 4))
    assert grown.shape == (3, 4)
    assert grown.reshape(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    part = grown[1:]
    with pytest.raises(UnsupportedError, match="resize_: 20 elements in a storage of 12 that views share"):
        grown.resize_(20)
    with pytest.raises(UnsupportedError, match="resize_"):
        part.resize_(20)
    with pytest.raises(RuntimeError, match="requires grad keeps its shape"):
        nc.zeros(2, requires_grad=True).resize_(1)


def test_empty_tensors_by_steps(numpy_device: Any) -> None:
    assert nc.empty_strided((2, 3), (1, 2)).fill_(2).stride() == (1, 2)
    x = nc.zeros(1).new_empty_strided((2, 2), (0, 1), dtype="int64")
    assert (x.stride(), x.dtype) == ((0, 1), "int64")
    assert nc.empty_permuted((2, 3, 5), (2, 0, 1)).stride() == (3, 1, 6)
    with pytest.raises(ShapeError, match="each axis"):
        nc.empty_permuted((2, 3), (0, 0))


def test_draws_in_place_take_the_names_and_refuse_integers(numpy_device: Any) -> None:
    x = nc.zeros(100)
    assert 1 <= x.uniform_(**{"from": 1, "to": 2}).amin().item() <= x.amax().item() < 2
    assert set(x.random_(**{"from": 3, "to": 5}).tolist()) == {3, 4}
    assert x.random_(to=1).sum().item() == 0
    assert nc.zeros(2, 3).bernoulli_(nc.tensor([0.0, 1.0, 1.0])).tolist() == [[0, 1, 1], [0, 1, 1]]
    with pytest.raises(TypeError, match="unexpected keyword argument 'form'"):
        x.uniform_(form=1)
    for name in ("cauchy_", "exponential_", "log_normal_"):
        with pytest.raises(DTypeError, match=f"{name}: expected a floating dtype, got int64"):
            getattr(nc.zeros(2, dtype="int64"), name)()
    with pytest.raises(ValueError, match="expected a rate above 0"):
        x.exponential_(-1.0)


def test_forms_with_numbers(numpy_device: Any) -> None:
    rising = nc.tensor([1.0, 2.0, 3.0])
    assert nc.searchsorted(rising, 1.5).item() == 1
    assert nc.bucketize(2, nc.tensor([1, 2, 3]), right=True).item() == 2
    assert nc.quantile(nc.tensor(2.5), 0.5, 0).shape == ()
    assert nc.quantile(nc.tensor(2.5), nc.tensor([0.1, 0.5]), 0, True).tolist() == [2.5, 2.5]
    large = 2**53 + 1
    assert nc.div(nc.tensor([large, -7]), nc.tensor([1, 2]), rounding_mode="trunc").tolist() == [large, -3]
    assert nc.div(nc.tensor([7, -7]), 0, rounding_mode="trunc").tolist() == [0, 0]
    for power in (lambda x: x**-1, lambda x: x.pow(-1), lambda x: nc.pow(x, -1)):
        with pytest.raises(ValueError, match="expected an exponent of 0 or more for int64, got -1"):
            power(nc.tensor([1, 2]))
        assert power(nc.tensor([2.0])).tolist() == [0.5]
    assert nc.pow(nc.tensor([2, -1]), nc.tensor([-1, -1])).tolist() == [0, -1]


def test_norms_with_their_statistics(numpy_device: Any) -> None:
    values = np.random.default_rng(0).normal(size=(2, 6, 4))
    x, eps = nc.tensor(values), 1e-5

    def moments(array: Any, axes: Any, keepdims: bool = False) -> Any:
        return array.mean(axes, keepdims=keepdims), 1 / np.sqrt(array.var(axes, keepdims=keepdims) + eps)

    y, mean, scale = nc.native_layer_norm(x, [4], None, None, eps)
    expected = moments(values, 2, True)
    np.testing.assert_allclose(mean.numpy(), expected[0])
    np.testing.assert_allclose(scale.numpy(), expected[1])
    np.testing.assert_allclose(y.numpy(), (values - expected[0]) * expected[1])
    _, mean, scale = nc.native_group_norm(x, None, None, 2, 6, 4, 3, eps)
    np.testing.assert_allclose((mean.numpy(), scale.numpy()), moments(values.reshape(2, 3, 8), 2))
    running = nc.zeros(6, dtype="float64"), nc.ones(6, dtype="float64")
    _, mean, scale = nc.native_batch_norm(x, None, None, *running, True, 0.1, eps)
    np.testing.assert_allclose((mean.numpy(), scale.numpy()), moments(values, (0, 2)))
    np.testing.assert_allclose(running[0].numpy(), values.mean((0, 2)) * 0.1)
    assert nc.native_batch_norm(x, None, None, *running, False, 0.1, eps)[1].shape == (0,)
