"""Running sums, products, extrema and recurrences beyond the op table: accuracy, whole numbers, NaN, ties, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.testing import masked
from netcl.runtime.capture import capture

NAN, INF = math.nan, math.inf


def test_long_sums_are_within_a_unit_in_the_last_place(handle: Any) -> None:
    x = np.random.default_rng(0).uniform(0, 1, 2**20).astype(np.float32)
    wanted = np.cumsum(x, dtype=np.float64)
    found = ops.cumsum(Tensor.from_host(x), 0).numpy()
    assert (np.abs(found - wanted) <= np.spacing(wanted.astype(np.float32))).all()


def test_cancelling_sums_keep_what_roundings_lose(handle: Any) -> None:
    x = np.tile(np.array([1e8, 1.0, -1e8], np.float32), 1000)
    found = ops.cumsum(Tensor.from_host(x), 0).numpy()
    np.testing.assert_array_equal(found[2::3], np.arange(1, 1001))


def test_long_products_are_within_a_unit_in_the_last_place(handle: Any) -> None:
    x = np.exp(np.random.default_rng(1).uniform(-0.1, 0.1, 10_000)).astype(np.float32)
    wanted = np.cumprod(x, dtype=np.float64)
    found = ops.cumprod(Tensor.from_host(x), 0).numpy()
    assert (np.abs(found - wanted) <= np.spacing(wanted.astype(np.float32))).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_whole_numbers_add_up_in_int64(handle: Any, dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 2 if dtype == "bool" else 200, (3, 300)).astype(dtype)
    found = ops.cumsum(Tensor.from_host(x, dtype), 1)
    assert found.dtype == "int64"
    np.testing.assert_array_equal(found.numpy(), np.cumsum(x, 1, dtype=np.int64))
    np.testing.assert_array_equal(
        ops.cumprod(Tensor.from_host(x[:, :5], dtype), 1).numpy(), np.cumprod(x[:, :5], 1, dtype=np.int64)
    )


def test_a_dtype_is_computed_in_and_returned(handle: Any) -> None:
    x = Tensor.from_host(np.full(3000, 1, np.int32))
    found = ops.cumsum(x, 0, dtype="float32")
    assert found.dtype == "float32"
    assert found[-1].item() == 3000
    half = ops.cumsum(Tensor.from_host(np.full(5000, 0.25), "bfloat16"), 0, dtype="float32")
    assert half[-1].item() == 1250


def test_infinities_stay_and_become_nan_where_they_cancel(handle: Any) -> None:
    x = np.array([1, INF, 2, -INF, 3], np.float32)
    np.testing.assert_array_equal(ops.cumsum(Tensor.from_host(x), 0).numpy(), [1, INF, INF, NAN, NAN])
    np.testing.assert_array_equal(ops.cumprod(Tensor.from_host(x[:3]), 0).numpy(), [1, INF, INF])
    y = np.array([-INF, -INF, 0, 1000, NAN, 1], np.float32)
    np.testing.assert_array_equal(ops.logcumsumexp(Tensor.from_host(y), 0).numpy(), [-INF, -INF, 0, 1000, NAN, NAN])


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_of_equal_extrema_the_last_counts(handle: Any, dtype: str) -> None:
    x = Tensor.from_host(np.array([[0, 1, 1, 0, 1], [1, 0, 0, 1, 0]]), dtype)
    values, places = ops.cummax(x, 1)
    assert values.dtype == dtype
    assert places.dtype == "int64"
    assert places.tolist() == [[0, 1, 2, 2, 4], [0, 0, 0, 3, 3]]
    assert ops.cummin(x, 1)[1].tolist() == [[0, 0, 0, 3, 3], [0, 1, 2, 2, 4]]


def test_a_nan_is_the_extremum_from_its_place_on(handle: Any) -> None:
    x = np.array([1, NAN, 5, NAN, 7], np.float32)
    for op, first in ((ops.cummax, 1.0), (ops.cummin, 1.0)):
        values, places = op(Tensor.from_host(x), 0)
        np.testing.assert_array_equal(values.numpy(), [first, NAN, NAN, NAN, NAN])
        assert places.tolist() == [0, 1, 1, 3, 3]


def test_a_recurrence_uses_no_decay_at_its_start_and_overflows_alone(handle: Any) -> None:
    x, decay = np.zeros(5000, np.float32), np.full(5000, 2.0, np.float32)
    x[-2:], decay[0] = 1.0, NAN
    found = ops.linear_recurrence(Tensor.from_host(x), Tensor.from_host(decay)).numpy()
    np.testing.assert_array_equal(found, [*[0] * 4998, 1, 3])


SCANS = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(SCANS)),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    axis=st.integers(0, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_axis_is_as_in_numpy(name: str, lengths: list[int], axis: int, seed: int) -> None:
    axis %= len(lengths)
    x = np.random.default_rng(seed).uniform(0.5, 1.5, lengths).astype(np.float32)
    found = getattr(ops, name)(Tensor.from_host(x), axis)
    found = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(found.numpy(), SCANS[name](x.astype(np.float64), axis), rtol=2e-5, atol=2e-5)


# Chunks of one, of all, and of parts; totals of parts are scanned in turn.
@pytest.mark.deep
@pytest.mark.parametrize(
    "shape, axis", [((70_000,), 0), ((3, 5001), 1), ((3, 5000, 2), 1), ((4096, 33), 0), ((2, 64), 1)]
)
def test_many_work_items_share_an_axis(handle: Any, shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
    with masked(handle, is_cpu=False):
        given = Tensor.from_host(x)
        for reverse in (False, True):
            wanted = np.flip(np.cumsum(np.flip(x, axis), axis, dtype=np.float64), axis) if reverse else None
            found = ops.cumsum(given, axis, reverse=reverse).numpy()
            np.testing.assert_allclose(
                found, np.cumsum(x, axis, dtype=np.float64) if wanted is None else wanted, rtol=1e-6, atol=1e-5
            )
        values, places = ops.cummax(given, axis)
        np.testing.assert_array_equal(values.numpy(), np.maximum.accumulate(x, axis))
        np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), axis), values.numpy())


def test_a_replay_scans_new_values(handle: Any) -> None:
    def step(x: Tensor) -> Any:
        return ops.cumsum(x, 0), ops.cummax(x, 0)

    rng = np.random.default_rng(4)
    captured = capture(step, Tensor.from_host(rng.standard_normal((300, 2)).astype(np.float32)))
    for _ in range(3):
        x = rng.standard_normal((300, 2)).astype(np.float32)
        total, (best, place) = captured.replay(Tensor.from_host(x))
        np.testing.assert_allclose(total.numpy(), np.cumsum(x, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(best.numpy(), np.maximum.accumulate(x, 0))
        np.testing.assert_array_equal(np.take_along_axis(x, place.numpy(), 0), best.numpy())


def test_what_cannot_be_scanned_is_refused_by_name() -> None:
    x = Tensor.from_host(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match="cumsum: axis 2 is out of range for 2 dimensions"):
        ops.cumsum(x, 2)
    with pytest.raises(DTypeError, match="cumprod: expected numbers, got bool"):
        ops.cumprod(x, 0, dtype="bool")
    with pytest.raises(DTypeError, match="logcumsumexp: expected floating dtypes, got int64"):
        ops.logcumsumexp(Tensor.from_host(np.arange(3)), 0)
    with pytest.raises(ShapeError, match=r"linear_recurrence: x \(2, 3\) and decay \(3,\)"):
        ops.linear_recurrence(x, Tensor.from_host(np.ones(3, np.float32)))
    with pytest.raises(TypeError, match="cummax: expected a tensor as x, got ndarray"):
        ops.cummax(np.ones(3), 0)
