"""Reductions where they could go wrong: axes of every form, NaN and infinities, nothing to reduce, whole numbers."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.testing import assert_close

NAN, INF = np.nan, np.inf
NUMBERS = np.random.default_rng(0).permutation(np.linspace(-1.9, 2, 60)).reshape(3, 4, 5).astype(np.float32)
REFERENCES: dict[str, Any] = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
    "var": partial(np.var, ddof=1),
    "std": partial(np.std, ddof=1),
    "any": np.any,
    "all": np.all,
    "logsumexp": lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
    "norm": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
    "count_nonzero": np.count_nonzero,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_form_of_axis(name: str) -> None:
    """NumPy evaluates the same expressions; the axes are split before a device is involved."""
    x = Tensor.from_host(NUMBERS.astype(np.float64), "float64").to("cpu")
    for axis in (None, 0, -1, (0, 1), (-1, 0), (2, 1, 0), [1]):
        for keepdims in (False, True):
            wanted = REFERENCES[name](NUMBERS.astype(np.float64), axis=_tuple(axis), keepdims=keepdims)
            found = getattr(ops, name)(x, axis=axis, keepdims=keepdims)
            assert found.shape == np.shape(wanted), (name, axis)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, err_msg=f"{name} {axis}")
    same = getattr(ops, name)(x, dim=1, keepdim=True)
    assert same.shape == (3, 1, 5)


def _tuple(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def test_axes_that_are_not_there() -> None:
    x = Tensor.from_host(NUMBERS).to("cpu")
    for axis in (3, -4, (0, 3)):
        with pytest.raises(ShapeError, match="sum"):
            ops.sum(x, axis=axis)
    with pytest.raises(ShapeError, match="mean"):
        ops.mean(x, axis=(0, -3))
    with pytest.raises(ShapeError, match="argmax"):
        ops.argmax(x, axis=5)


STRANGE = np.array([[1, NAN, 3, -2], [INF, 1, 2, -1], [-INF, -INF, -INF, -INF], [INF, -INF, 0, 0], [0, -0.0, 0, 0]])


def test_nan_and_infinity_as_numpy_has_them(engine: Any) -> None:
    x = Tensor.from_host(STRANGE.astype(np.float32))
    with np.errstate(all="ignore"):
        for name in ("sum", "mean", "prod", "amax", "amin", "norm", "any"):
            wanted = REFERENCES[name](STRANGE, axis=1, keepdims=False)
            assert_close(getattr(ops, name)(x, axis=1), wanted, "float32" if wanted.dtype.kind == "f" else "bool")
    np.testing.assert_array_equal(ops.argmax(x, axis=1).numpy(), np.argmax(STRANGE, 1))
    np.testing.assert_array_equal(ops.max(x, axis=1).values.numpy(), STRANGE.max(1).astype(np.float32))
    # PyTorch: nothing but -inf has -inf for its sum of exponentials, and no softmax.
    np.testing.assert_allclose(ops.logsumexp(x, axis=1).numpy(), [NAN, INF, -INF, INF, np.log(4)], rtol=1e-6)
    assert np.isnan(ops.softmax(x, axis=1).numpy()[2]).all()


def test_nothing_to_reduce(engine: Any) -> None:
    x = Tensor.zeros((0, 3))
    assert ops.sum(x, axis=0).tolist() == [0, 0, 0]
    assert ops.prod(x, axis=0).tolist() == [1, 1, 1]
    assert ops.any(x, axis=0).tolist() == [False] * 3
    assert ops.all(x, axis=0).tolist() == [True] * 3
    assert np.isnan(ops.mean(x, axis=0).numpy()).all()
    assert ops.sum(x, axis=1).shape == ops.amax(x, axis=1).shape == (0,)
    for name in ("max", "min", "amax", "amin", "argmax", "argmin"):
        with pytest.raises(ShapeError, match=f"{name}.*no elements"):
            getattr(ops, name)(x, axis=0)
    with pytest.raises(ShapeError, match="norm"):
        ops.norm(x, p=INF, axis=0)
    assert ops.logsumexp(x, axis=0).tolist() == [-INF] * 3


@pytest.mark.parametrize("mean", [1e3, 1e6])
@pytest.mark.parametrize(("shape", "axis"), [((512, 16), 0), ((100, 3), 0), ((8, 64), 1), ((4000,), 0)])
def test_variances_far_from_zero(shape: Any, axis: int, mean: float, engine: Any) -> None:
    x = (np.random.default_rng(1).standard_normal(shape) + mean).astype(np.float32)
    wanted = x.astype(np.float64).var(axis, ddof=1)
    np.testing.assert_allclose(ops.var(Tensor.from_host(x), axis).numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(ops.std(Tensor.from_host(x), axis).numpy(), np.sqrt(wanted), rtol=1e-6)


def test_variances_of_equal_numbers_are_never_negative(engine: Any) -> None:
    x = Tensor.from_host(np.full((3, 1000), 0.1, np.float32) * np.float32([[1], [1e6], [1e18]]))
    spread = ops.std(x, 1).numpy()
    assert (spread >= 0).all()
    assert (spread <= 1e-6 * x.numpy()[:, 0]).all()


def test_variances_of_nothing_are_nan_and_a_divisor_below_zero_is_zero(engine: Any) -> None:
    nothing, three = Tensor.zeros((0, 2)), Tensor.from_host(np.array([1, 2, 3], np.float32))
    for correction in (-1, 0, 1, 2):
        assert np.isnan(ops.var(nothing, 0, correction).numpy()).all()
        assert np.isnan(ops.std(nothing, 0, correction).numpy()).all()
    assert np.isnan(ops.var(three[:1], 0).numpy())
    assert [ops.var(three, 0, correction).item() for correction in (3, 4, 9)] == [INF] * 3


def test_single_numbers(engine: Any) -> None:
    x = Tensor.from_host(np.float32(-2.5))
    assert float(ops.sum(x)) == float(ops.max(x)) == float(ops.prod(x)) == -2.5
    assert float(ops.norm(x)) == 2.5
    assert float(ops.std(x, correction=0)) == 0
    assert bool(ops.any(x))
    assert ops.argmax(x).shape == ()
    assert int(ops.argmax(x)) == 0


def test_whole_numbers_add_up_in_int64(engine: Any) -> None:
    x = Tensor.from_host(np.array([[2**31 - 1, 2**31 - 1], [-5, 3]], np.int32))
    assert ops.sum(x).dtype == "int64"
    assert int(ops.sum(x)) == 2 * (2**31 - 1) - 2
    assert ops.prod(x, axis=1).tolist() == [(2**31 - 1) ** 2, -15]
    assert ops.max(x, axis=1).values.dtype == "int32"
    assert ops.amax(x, axis=1).tolist() == [2**31 - 1, 3]
    small = Tensor.from_host(np.array([200, 100]), "uint8")
    assert int(ops.sum(small)) == 300


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "float16", "float64"]
)
def test_a_dtype_is_that_of_the_terms_and_of_the_result(dtype: str, engine: Any) -> None:
    """Sums and products of integers wrap, as in PyTorch and NumPy; floats are truncated before they are added."""
    for values in (np.array([[100, 100, 100], [7, 3, 2]]), np.array([[1.75, 2.5], [1.75, 30.0]], np.float32)):
        x, terms = Tensor.from_host(values), values.astype(dtype)
        for name, function in (("sum", np.sum), ("prod", np.prod)):
            for axis in (None, 0, 1):
                found = getattr(ops, name)(x, axis, dtype=dtype)
                assert found.dtype == dtype
                with np.errstate(over="ignore"):
                    wanted = np.asarray(function(terms.astype(dtype), axis=axis, dtype=dtype))
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3 if dtype == "float16" else 1e-12)
        for name, function in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
            found = getattr(ops, name)(x, 1, dtype=dtype)
            assert found.dtype == dtype
            with np.errstate(over="ignore"):
                wanted = function(terms, axis=1, dtype=dtype)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3 if dtype == "float16" else 1e-12)


def test_a_sum_of_bools_is_one_of_truth(engine: Any) -> None:
    x = Tensor.from_host(np.array([[0, 3], [-3, 3], [0, 0]]))
    assert ops.sum(x, 1, dtype="bool").tolist() == [True, True, False]
    assert ops.prod(x, 1, dtype=np.bool_).tolist() == [False, True, False]


def test_means_and_softmax_take_floating_dtypes(engine: Any) -> None:
    x = Tensor.from_host(np.array([1, 2, 4]))
    assert ops.mean(x, dtype="float64").item() == 7 / 3
    half = Tensor.from_host(np.array([1.0, 2.0, 4.0]), "float16")
    for function in (ops.softmax, ops.log_softmax):
        wanted = function(Tensor.from_host(np.array([1.0, 2.0, 4.0], np.float32))).numpy()
        np.testing.assert_array_equal(function(half, dtype=np.float32).numpy(), wanted)
        with pytest.raises(DTypeError, match="softmax: expected a floating dtype, got int32"):
            function(half, dtype="int32")
    with pytest.raises(DTypeError, match="mean: expected a floating dtype, got int64"):
        ops.mean(x, dtype="int64")


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions_along_an_axis_in_parts(
    axis: int | None, keepdims: bool, handle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["netcl.ops.reduce"], "_FURTHEST", 7)
    x = np.random.default_rng(0).integers(0, 9, (3, 50, 4)).astype(np.float32)
    for _ in range(2):
        for op, reference in ((ops.argmax, np.argmax), (ops.argmin, np.argmin)):
            found, wanted = op(Tensor.from_host(x), axis, keepdims), reference(x, axis, keepdims=keepdims)
            assert found.dtype == "int64"
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found.numpy(), wanted)
        x[1, 30, 2] = x[1, 33, 2] = np.nan


def test_old_spellings_of_axes_and_corrections() -> None:
    x = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert ops.var(x, dim=None, correction=None).item() == 3.5
    assert x.var(dim=None, correction=None).item() == 3.5
    for dim in ((), [], None):
        assert x.sum(dim=dim).item() == 15
        assert x.amax(dim=dim).item() == 5
    assert ops.sum(x, axis=()).shape == (2, 3)
    assert np.isnan(ops.median(Tensor.zeros((0,))).item())
    assert ops.cov(x[:1]).shape == ()


def test_empty_axes_are_every_axis_by_position_and_as_dim() -> None:
    x = nc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    for name in ("sum", "mean", "amax", "amin", "count_nonzero", "nansum", "nanmean", "std", "var"):
        function, method = getattr(nc, name), getattr(x, name)
        for empty in ((), []):
            for result in (function(x, empty), function(x, dim=empty), method(empty), method(dim=empty)):
                assert result.shape == (), name
                assert float(result) == float(function(x)), name
            assert method(empty, keepdim=True).shape == (1, 1) or name == "count_nonzero"
    for name in ("std_mean", "var_mean"):
        for results in (getattr(nc, name)(x, []), getattr(nc, name)(x, dim=())):
            assert [float(part) for part in results] == [float(part) for part in getattr(nc, name)(x)]
    for p in (2, 1, 0, 3.5, float("inf")):
        expected = float(nc.linalg.vector_norm(x, p))
        assert float(nc.linalg.vector_norm(x, p, ())) == float(nc.linalg.vector_norm(x, p, dim=[])) == expected
    assert nc.roll(x, 1, ()).tolist() == x.roll(1, dims=[]).tolist() == [[7, 1, 2], [3, 4, 5]]


def test_empty_axes_are_no_axis_of_any_and_all_and_by_numpys_name() -> None:
    x = nc.tensor([[1.0, 0.0], [2.0, 3.0]])
    for name in ("any", "all"):
        for result in (getattr(nc, name)(x, dim=[]), getattr(nc, name)(x, ()), getattr(x, name)(dim=())):
            assert result.tolist() == [[True, False], [True, True]], name
    for result in (nc.sum(x, axis=()), x.amax(axis=[]), ops.sum(x, ()), ops.amax(x, [])):
        assert result.tolist() == x.tolist()
