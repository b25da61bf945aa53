"""Joins, windows, comparisons and reductions by index at their edges: values written down, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError

INF, NAN = math.inf, math.nan


def test_closeness_of_tensors(engine: Any) -> None:
    x = Tensor.from_host([1.0, NAN, INF])
    assert ops.isclose(x, x).tolist() == [True, False, True]
    assert ops.isclose(x, x, equal_nan=True).tolist() == [True, True, True]
    assert not ops.allclose(x, x)
    assert ops.allclose(x, x, equal_nan=True)
    assert ops.equal(Tensor.ones((2,)), Tensor.ones((2,)))
    assert not ops.equal(Tensor.ones((2,)), Tensor.ones((2, 1)))


def test_numbers_in_place_of_nan_and_infinities(engine: Any) -> None:
    x = Tensor.from_host([NAN, INF, -INF, 2.0])
    largest = float(np.finfo(np.float32).max)
    assert ops.nan_to_num(x).tolist() == pytest.approx([0, largest, -largest, 2])
    assert ops.nan_to_num(x, nan=5.0, posinf=6.0, neginf=7.0).tolist() == [5, 6, 7, 2]
    whole = Tensor.from_host([3, 4])
    assert ops.nan_to_num(whole).dtype == "int64"


def test_signs_of_zeros(engine: Any) -> None:
    x = ops.copysign(Tensor.from_host([1.0, -2.0, 0.0]), Tensor.from_host([-0.0, 0.0, -3.0]))
    assert np.signbit(x.numpy()).tolist() == [True, False, True]
    steps = ops.heaviside(Tensor.from_host([-1.0, 0.0, 2.0, NAN]), Tensor.from_host([5.0, 6.0, 7.0, 8.0]))
    assert steps.tolist() == [0, 6, 1, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_next_number(dtype: str) -> None:
    x = np.array([0.0, 1.0, -1.0, 2.0, 1000.0, INF, -INF], dtype)
    for towards in (INF, -INF, 0.0):
        wanted = np.nextafter(x, np.full_like(x, towards))
        got = ops.nextafter(Tensor.from_host(x, dtype), Tensor.from_host(np.full_like(x, towards), dtype))
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_products_with_integers() -> None:
    x = Tensor.from_host([1, 2])
    assert ops.addcmul(x, x, x, value=3).tolist() == [4, 14]
    assert ops.addcmul(x, x, x).dtype == "int64"
    with pytest.raises(DTypeError, match=r"addcmul: value 0\.5 for integers"):
        ops.addcmul(x, x, x, value=0.5)
    with pytest.raises(DTypeError, match="addcdiv does not divide integers"):
        ops.addcdiv(x, x, x)


def test_modified_bessel_function_beyond_the_series(engine: Any) -> None:
    x = np.array([0.0, 15.0, -40.0, 88.0, 90.0], np.float32)
    np.testing.assert_allclose(ops.i0(Tensor.from_host(x)).numpy(), np.i0(x.astype(np.float64)), rtol=2e-6)


def test_reductions_by_index_keep_what_is_not_named(engine: Any) -> None:
    x, index = Tensor.from_host([1.0, 2.0, 3.0]), np.array([0, 0, 2])
    source = Tensor.from_host([5.0, NAN, -1.0])
    found = ops.scatter_reduce(x, 0, index, source, "amax").tolist()
    assert math.isnan(found[0])
    assert found[1:] == [2, 3]
    assert ops.scatter_reduce(x, 0, index[2:], source, "amin", include_self=False).tolist() == [1, 2, 5]
    whole = Tensor.from_host([4, 7, 2])
    assert ops.scatter_reduce(whole, 0, np.array([1, 1]), Tensor.from_host([1, 4]), "mean").tolist() == [4, 4, 2]
    assert ops.scatter_reduce(whole, 0, np.array([1, 1]), Tensor.from_host([2, 3]), "prod").tolist() == [4, 42, 2]


def test_refusals_of_reductions_by_index() -> None:
    x = Tensor.ones((3,))
    with pytest.raises(ValueError, match="expected one of sum, prod, mean, amax, amin as reduce, got 'max'"):
        ops.scatter_reduce(x, 0, np.array([0]), x, "max")
    with pytest.raises(ValueError, match="index_reduce: expected one of prod"):
        ops.index_reduce(x, 0, np.array([0]), Tensor.ones((1,)), "sum")
    with pytest.raises(IndexError, match="out of range"):
        ops.scatter_reduce(x, 0, np.array([3]), x, "prod")


def test_joins_of_nothing_and_of_scalars(engine: Any) -> None:
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        with pytest.raises(ShapeError, match=f"{name}: there is no tensor to join"):
            getattr(ops, name)([])
    one = Tensor.from_host(np.float32(1))
    shapes = [getattr(ops, name)([one, one]).shape for name in ("hstack", "vstack", "dstack", "column_stack")]
    assert shapes == [(2,), (2, 1), (1, 1, 2), (1, 2)]


def test_differences_with_neighbors() -> None:
    x = Tensor.from_host([1, 4, 9])
    assert ops.diff(x, prepend=Tensor.from_host([0]), append=Tensor.from_host([10])).tolist() == [1, 3, 5, 1]
    assert ops.diff(Tensor.from_host([True, False, False])).tolist() == [True, False]
    with pytest.raises(ValueError, match="diff: expected n of at least 0, got -1"):
        ops.diff(x, -1)


def test_a_turn_in_one_axis_is_refused() -> None:
    with pytest.raises(ShapeError, match="rot90: dims"):
        ops.rot90(Tensor.ones((2, 2)), 1, (0, -2))


def test_windows_and_triangles_refuse_negative_lengths() -> None:
    for name in ("hann_window", "hamming_window", "blackman_window"):
        assert getattr(ops, name)(0).shape == (0,)
        with pytest.raises(ShapeError, match=f"{name}: window_length -1"):
            getattr(ops, name)(-1)
        with pytest.raises(ValueError, match=f"{name}: expected a floating dtype"):
            getattr(ops, name)(3, dtype="int32")
    with pytest.raises(ShapeError, match="tril_indices: row -1"):
        ops.tril_indices(-1, 2)


def test_combinations_of_few() -> None:
    assert ops.combinations(Tensor.ones((1,)), 2).shape == (0, 2)
    with pytest.raises(ShapeError, match="combinations: expected a vector"):
        ops.combinations(Tensor.ones((2, 2)))
    with pytest.raises(ShapeError, match="cartesian_prod"):
        ops.cartesian_prod(Tensor.ones((2, 2)))


def test_counts_in_bins_of_equal_elements(engine: Any) -> None:
    assert ops.histc(Tensor.full((3,), 2.0), bins=5).tolist() == [0, 0, 3, 0, 0]
    with pytest.raises(ValueError, match="histc: expected bins"):
        ops.histc(Tensor.ones((2,)), bins=0)


def test_a_covariance_without_a_divisor_warns() -> None:
    with pytest.warns(UserWarning, match="cov: 1 observations less correction 1"):
        found = ops.cov(Tensor.ones((2, 1)))
    assert np.isnan(found.numpy()).all()
    with pytest.raises(ShapeError, match="cov: fweights"):
        ops.cov(Tensor.ones((2, 3)), fweights=Tensor.ones((2,), "int64"))


def test_a_product_of_vectors_is_refused_where_matrices_are_meant() -> None:
    with pytest.raises(ShapeError, match="mm: expected shapes"):
        ops.mm(Tensor.ones((2,)), Tensor.ones((2,)))
    with pytest.raises(ShapeError, match="mv: expected shapes"):
        ops.mv(Tensor.ones((2, 2)), Tensor.ones((2, 2)))


def bits(values: Any) -> bytes:
    """Returns the bytes of an array with one NaN for all: a device may change the payload of a NaN that it loads."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(NAN), values)
    return np.ascontiguousarray(values).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(40000,), (7, 5000)])
def test_large_sorts_are_stable(engine: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = (
        np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, shape).astype(np.float32)
        - (dtype[0] == "f") * 4
    )
    if dtype.startswith("float"):
        x[x == 1], x[x == 2], x[x == -1] = NAN, INF, -0.0
    t = Tensor.from_host(x, dtype)
    x = t.numpy()
    for descending in (False, True):
        values, order = ops.sort(t, -1, descending)
        wanted = np.argsort(x, -1, kind="stable")
        if descending:
            wanted = x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
        np.testing.assert_array_equal(order.numpy(), wanted)
        assert bits(values.numpy()) == bits(np.take_along_axis(x, wanted, -1))
