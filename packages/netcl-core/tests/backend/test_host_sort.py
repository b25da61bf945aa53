"""Sorting on the host against NumPy's stable argsort: bits and positions, zeros of both signs, NaNs, equal elements."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.backend.host_sort import sort_values, sorted_rows, unique
from netcl.core.dtypes import SUPPORTED, from_bfloat16, numpy_dtype, to_bfloat16
from netcl.core.ops_table import dispatch

FLOATS = ("float16", "bfloat16", "float32", "float64")


def stored(rng, dtype, shape, kind):
    """Elements of a dtype as they are stored: all distinct or nearly, few that are often equal, or special ones."""
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype in FLOATS:
        values = rng.standard_normal(shape) * (1000 if kind == "many" else 3)
        values = values if kind == "many" else np.round(values)
        if kind == "special":
            pool = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0])
            values = rng.choice(pool, shape)
        found = to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(dtype)
        if kind == "special":  # NaNs of both signs and of several bits
            bits = found.view(f"u{found.itemsize}")
            comparable = from_bfloat16(found) if dtype == "bfloat16" else found
            changed = np.isnan(comparable) & (rng.random(shape) > 0.5)
            bits[changed] |= (1 << (8 * found.itemsize - 1)) | 1
        return found
    limits = np.iinfo(dtype)
    if kind == "special":
        return rng.choice(np.array([limits.min, limits.max, 0, 1], dtype), shape)
    if kind == "few":
        return rng.integers(0, 9, shape).astype(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def stable_order(x, dtype, descending):
    comparable = from_bfloat16(x) if dtype == "bfloat16" else x
    if not descending:
        return np.argsort(comparable, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(comparable[..., ::-1], axis=-1, kind="stable")[..., ::-1]


CASES = [
    pytest.param(dtype, shape, kind, descending, id=f"{dtype}-{'x'.join(map(str, shape))}-{kind}-{descending}")
    for dtype in SUPPORTED
    for shape in ((3000,), (40, 70), (1,), (0,), (3, 0))
    for kind in ("many", "few", "special")
    for descending in (False, True)
]


@pytest.mark.parametrize(("dtype", "shape", "kind", "descending"), CASES)
def test_rows_are_sorted_stably(dtype, shape, kind, descending):
    x = stored(np.random.default_rng(7), dtype, shape, kind)
    assert x.dtype == numpy_dtype(dtype)
    order = stable_order(x, dtype, descending)
    values, places = sorted_rows(x.copy(), dtype, descending)
    np.testing.assert_array_equal(places, order)
    wanted = np.take_along_axis(x, order, -1)
    assert values.tobytes() == wanted.tobytes()
    alone = x.copy()
    sort_values(alone, x.view, dtype, descending)
    assert alone.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("kind", ["many", "few", "special"])
@pytest.mark.parametrize("size", [0, 1, 50, 3000])
@pytest.mark.parametrize("wanted", [(), ("counts",), ("inverse",), ("inverse", "counts"), ("first", "counts")])
def test_distinct_elements_are_numpys(dtype, kind, size, wanted):
    x = stored(np.random.default_rng(8), dtype, (size,), kind)
    comparable = from_bfloat16(x) if dtype == "bfloat16" else x
    unique_of = np.unique
    expected = unique_of(
        comparable,
        return_index="first" in wanted,
        return_inverse="inverse" in wanted,
        return_counts="counts" in wanted,
        equal_nan=False,
    )
    expected = expected if wanted else (expected,)
    values, *others = unique(x.copy(), x.view, dtype, wanted)
    assert values.dtype == x.dtype
    found = from_bfloat16(values) if dtype == "bfloat16" else values
    np.testing.assert_array_equal(found, expected[0])
    for name, places, same in zip(wanted, others, expected[1:]):
        assert places.dtype == np.int64
        number = comparable == comparable if name == "inverse" else ...  # NumPy's order of NaNs is any
        np.testing.assert_array_equal(places[number], same[number])
        if name == "inverse":
            np.testing.assert_array_equal(found[places], comparable)
            missing = np.isnan(comparable.astype(np.float64))
            np.testing.assert_array_equal(places[missing], np.flatnonzero(np.isnan(found.astype(np.float64))))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["few", "special"])
@pytest.mark.parametrize("shape", [(20000,), (5, 300), (3, 7, 2)])
def test_values_alone_are_those_of_sort(shape, kind, descending, engine):
    data = stored(np.random.default_rng(9), "float32", shape, kind)
    x = Tensor.from_host(data)
    for axis in range(len(shape)):
        values, _ = ops.sort(x, axis, descending)
        alone = dispatch.call("sorted_values", x, axis, descending)
        assert alone.numpy().tobytes() == values.numpy().tobytes()
