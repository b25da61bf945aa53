"""Sorting and what is read off sorted rows beyond the op table: order of equals, NaN and zeros, dtypes, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import CaptureError, ShapeError
from netcl.core.testing import masked
from netcl.runtime.capture import capture

NAN, INF = math.nan, math.inf
TINY = float(np.float32(1e-40))  # no normal number
DTYPES = {"float32": np.float32, "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "bool": np.bool_}


def ordered(x: Any, descending: bool = False) -> Any:
    """Returns NumPy's stable order of the last axis."""
    if descending:
        return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.argsort(x, axis=-1, kind="stable")


def check(x: Any, dtype: str, descending: bool = False) -> None:
    values, places = ops.sort(Tensor.from_host(x, dtype), descending=descending)
    assert (values.dtype, places.dtype) == (dtype, "int64")
    np.testing.assert_array_equal(places.numpy(), ordered(x, descending))
    wanted = np.take_along_axis(x, ordered(x, descending), -1)
    found = values.numpy()
    np.testing.assert_array_equal(found, wanted)
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_sorted_stably_both_ways(handle: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    limits = {"bool": (0, 2), "uint8": (0, 256)}.get(dtype, (-300, 300))
    x = rng.integers(*limits, (3, 500)).astype(DTYPES[dtype])
    for descending in (False, True):
        check(x, dtype, descending)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_floats_of_other_widths_are_sorted(handle: Any, dtype: str) -> None:
    x = np.random.default_rng(1).integers(-100, 100, (3, 500)) / 4
    x[:, ::50] = NAN
    values, places = ops.sort(Tensor.from_host(x, dtype))
    np.testing.assert_array_equal(places.numpy(), ordered(x))
    np.testing.assert_array_equal(values.numpy(), np.sort(x))


def test_extremes_of_whole_numbers(handle: Any) -> None:
    for dtype in ("int32", "int64"):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        check(np.array([[5, most, -1, least, 0, most, least + 1]], dtype), dtype)


def test_nan_is_last_infinities_are_in_order_and_zeros_are_equal(handle: Any) -> None:
    tiny = float(np.float32(1e-45))
    x = np.array([[0.0, NAN, -0.0, INF, tiny, -INF, -tiny, -NAN, 1.5, -0.0, 3e38]], np.float32)
    check(x, "float32")
    check(x, "float32", descending=True)


# Around the lengths that are sorted in one pass, and lengths that are merged an odd and an even number of times.
@pytest.mark.parametrize("length", [1, 8, 9, 17, 4095, 4097, 8193, 70_001])
def test_any_length(handle: Any, length: int) -> None:
    check(np.random.default_rng(length).integers(-50, 50, (2, length)).astype(np.float32), "float32")


def test_many_short_rows(handle: Any) -> None:
    check(np.random.default_rng(2).standard_normal((3001, 5)).astype(np.float32), "float32")


@pytest.mark.deep
@pytest.mark.parametrize("group", [8, 128])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_groups_sort_through_local_memory(handle: Any, group: int, dtype: str) -> None:
    with masked(handle, is_cpu=False, max_work_group_size=group):
        for shape in ((1, 1), (300, 10), (3, 257), (2, 1025), (2, 5000)):
            x = np.random.default_rng(3).integers(-99, 99, shape).astype(dtype)
            for descending in (False, True):
                check(x, dtype, descending)


def check_first(x: Any) -> None:
    """Checks ``topk`` and ``kthvalue`` of long rows, which are not sorted for them."""
    given = Tensor.from_host(x)
    for count in (1, 7, x.shape[-1] // 4):
        for largest in (False, True):
            values, places = ops.topk(given, count, largest=largest)
            wanted = ordered(x, largest)[..., :count]
            np.testing.assert_array_equal(places.numpy(), wanted)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, -1))
    for count in (1, x.shape[-1] // 2, x.shape[-1]):
        np.testing.assert_array_equal(ops.kthvalue(given, count)[1].numpy(), ordered(x)[..., count - 1])


def with_ties(shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(7).integers(-40, 40, shape).astype(np.float32)
    x[..., ::97], x[..., ::89], x[..., ::83] = NAN, -0.0, TINY
    return x


@pytest.mark.parametrize("shape", [(3, 2053), (20_011,)])
def test_the_first_of_long_rows(handle: Any, shape: tuple[int, ...]) -> None:
    check_first(with_ties(shape))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_the_first_few_and_one_of_many_rows(handle: Any, dtype: str) -> None:
    x = np.random.default_rng(5).integers(0, 2 if dtype == "bool" else 20, (130, 67)).astype(DTYPES[dtype])
    if dtype == "float32":
        x[:, ::9], x[:, 1::9], x[::2, 2] = -0.0, 0.0, NAN
    for descending in (False, True):
        for k in (1, 5, 16):
            values, places = ops.topk(Tensor.from_host(x, dtype), k, largest=descending)
            wanted = ordered(x, descending)[:, :k]
            np.testing.assert_array_equal(places.numpy(), wanted)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, -1))
    np.testing.assert_array_equal(
        ops.topk(Tensor.from_host(x, dtype), 3, axis=0)[1].numpy(), ordered(x.T, True)[:, :3].T
    )


@pytest.mark.deep
@pytest.mark.parametrize("group", [64, 128])
def test_groups_count_digits_together(handle: Any, group: int) -> None:
    with masked(handle, is_cpu=False, max_work_group_size=group):
        check_first(with_ties((2, 9001)))
        check_first(np.random.default_rng(8).integers(-9, 9, (2, 4099)) << 40)


@settings(max_examples=60, deadline=None)
@given(
    x=arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 70)),
        elements=st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, TINY]) | st.floats(width=32),
    ),
    descending=st.booleans(),
)
def test_sort_is_as_in_numpy(x: Any, descending: bool) -> None:
    check(x, "float32", descending)


@settings(max_examples=40, deadline=None)
@given(
    rows=arrays(np.float32, (2, 13), elements=st.sampled_from([NAN, -1.5, 0.0, -0.0, 1.0, 2.0, INF])),
    values=arrays(np.float32, (2, 9), elements=st.sampled_from([NAN, -2.0, -1.5, 0.0, -0.0, 1.5, INF, -INF])),
    right=st.booleans(),
)
def test_searchsorted_is_as_in_numpy(rows: Any, values: Any, right: bool) -> None:
    rows = np.sort(rows)
    found = ops.searchsorted(Tensor.from_host(rows), Tensor.from_host(values), right=right)
    side = "right" if right else "left"
    wanted = np.stack([np.searchsorted(row, each, side) for row, each in zip(rows, values)])
    np.testing.assert_array_equal(found.numpy(), wanted)


@settings(max_examples=40, deadline=None)
@given(x=arrays(np.int32, st.integers(0, 80), elements=st.integers(-9, 9)))
def test_unique_is_as_in_numpy(x: Any) -> None:
    found = ops.unique(Tensor.from_host(x), return_inverse=True, return_counts=True)
    for got, wanted in zip(found, np.unique(x, return_inverse=True, return_counts=True)):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_every_nan_is_distinct(handle: Any) -> None:
    x = Tensor.from_host(np.array([NAN, 1, NAN, 1], np.float32))
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), [1, NAN, NAN])
    assert inverse.tolist() == [1, 0, 2, 0]
    assert counts.tolist() == [2, 1, 1]


def test_unique_is_refused_in_a_capture(handle: Any) -> None:
    with pytest.raises(CaptureError):
        capture(ops.unique, Tensor.from_host(np.arange(5)))


def test_medians_are_the_lower_ones_and_nan_where_there_is_one(handle: Any) -> None:
    x = np.array([[3, 1, 2, 4], [1, NAN, 0, NAN]], np.float32)
    values, places = ops.median(Tensor.from_host(x), 1)
    np.testing.assert_array_equal(values.numpy(), [2, NAN])
    assert places[0].item() == 2
    assert places[1].item() in (1, 3)
    assert math.isnan(ops.median(Tensor.from_host(x)).item())
    assert ops.median(Tensor.from_host(np.array([5, 3, 9, 7])), 0)[0].item() == 5


def test_largest_include_nan_and_the_earlier_of_equals(handle: Any) -> None:
    x = Tensor.from_host(np.array([2, NAN, 7, 7, INF], np.float32))
    values, places = ops.topk(x, 4)
    np.testing.assert_array_equal(values.numpy(), [NAN, INF, 7, 7])
    assert places.tolist() == [1, 4, 2, 3]
    assert ops.topk(x, 2, largest=False)[1].tolist() == [0, 2]


def test_quantiles_are_nan_where_a_row_has_one(handle: Any) -> None:
    x = np.array([[0, 1, 2, 5], [1, NAN, 0, 3]], np.float32)
    np.testing.assert_array_equal(ops.quantile(Tensor.from_host(x), (0.5, 1), axis=1).numpy(), [[1.5, NAN], [5, NAN]])


def test_histograms_leave_out_nan_and_what_is_outside(handle: Any) -> None:
    x = Tensor.from_host(np.array([-1, 0, 0.5, 1, 2, NAN, 2.1, INF], np.float32))
    counts, edges = ops.histogram(x, bins=2, range=(0, 2))
    assert (counts.dtype, edges.dtype) == ("int64", "float32")
    assert counts.tolist() == [2, 2]
    assert edges.tolist() == [0, 1, 2]


def test_large_histograms_count_everything(handle: Any) -> None:
    x = np.random.default_rng(5).standard_normal(200_001).astype(np.float32)
    edges = np.linspace(-3, 3, 101).astype(np.float32)
    counts, _ = ops.histogram(Tensor.from_host(x), bins=Tensor.from_host(edges))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(x, edges)[0])


def test_a_replay_sorts_new_values(handle: Any) -> None:
    def step(x: Tensor) -> Any:
        return ops.sort(x), ops.histogram(x, bins=4, range=(-2, 2))[0]

    rng = np.random.default_rng(6)
    captured = capture(step, Tensor.from_host(rng.standard_normal((2, 300)).astype(np.float32)))
    for _ in range(3):
        x = rng.standard_normal((2, 300)).astype(np.float32)
        (values, places), counts = captured.replay(Tensor.from_host(x))
        np.testing.assert_array_equal(values.numpy(), np.sort(x))
        np.testing.assert_array_equal(places.numpy(), ordered(x))
        np.testing.assert_array_equal(counts.numpy(), np.histogram(x, 4, (-2, 2))[0])


def test_what_cannot_be_ordered_is_refused_by_name() -> None:
    x = Tensor.from_host(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match="sort: axis 2 is out of range"):
        ops.sort(x, 2)
    with pytest.raises(ShapeError, match=r"topk: k 4 of 3 elements along axis -1 of shape \(2, 3\)"):
        ops.topk(x, 4)
    with pytest.raises(ShapeError, match=r"kthvalue: k 0 along axis -1 of shape \(2, 3\)"):
        ops.kthvalue(x, 0)
    with pytest.raises(ShapeError, match="median: no elements"):
        ops.median(Tensor.from_host(np.zeros((2, 0), np.float32)), 1)
    with pytest.raises(ValueError, match=r"quantile: expected q in \[0, 1\]"):
        ops.quantile(x, 1.5)
    with pytest.raises(ShapeError, match=r"searchsorted: a sequence \(2, 3\) for values \(3,\)"):
        ops.searchsorted(x, Tensor.from_host(np.ones(3, np.float32)))
    with pytest.raises(ValueError, match="searchsorted: expected side left or right"):
        ops.searchsorted(x, x, side="above")
    with pytest.raises(ValueError, match="histogram: expected a number from 1"):
        ops.histogram(x, bins=0)
    with pytest.raises(ValueError, match="histogram: range"):
        ops.histogram(x, range=(1, 0))
    with pytest.raises(ShapeError, match="put_along_axis: x"):
        from netcl.ops.sort import put_along_axis

        put_along_axis(x, Tensor.from_host(np.zeros((2, 2), np.int64)), 1, (2, 3))
