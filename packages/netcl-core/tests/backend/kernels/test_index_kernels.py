"""Taking, gathering and their gradients on the engines against NumPy, for every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED, from_bfloat16, is_integer, numpy_dtype, to_bfloat16

SUMMED = [dtype for dtype in SUPPORTED if dtype not in ("bool", "uint8")]


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def wide(values: Any, dtype: str) -> Any:
    return (from_bfloat16(values) if dtype == "bfloat16" else values).astype(np.float64)


def sample(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Any:
    return stored(np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 20, shape), dtype)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("dtype", SUPPORTED)
def test_take_and_gather(engine: Any, dtype: str, index_dtype: str) -> None:
    rng = np.random.default_rng(2)
    for shape in ((4, 7, 5), (13,), (1, 3), (70, 33)):
        x = sample(shape, dtype)
        for axis in range(-1, len(shape)):
            extent = shape[axis]
            for form in ((3, 4), (1,), (), (0, 2)):
                ids = rng.integers(-extent, extent, form)
                out = engine.index("take", engine.tensor(x, dtype), engine.tensor(ids, index_dtype), axis=axis)
                expected = np.take(x, ids, axis=axis)
                assert out.shape == expected.shape
                assert out.dtype == dtype
                assert np.array_equal(engine.read(out), expected)
            chosen = list(shape)
            chosen[axis] = 6
            ids = rng.integers(-extent, extent, chosen)
            out = engine.index("gather", engine.tensor(x, dtype), engine.tensor(ids, index_dtype), axis=axis)
            assert np.array_equal(engine.read(out), np.take_along_axis(x, ids, axis=axis))


@pytest.mark.parametrize("dtype", [d if d == "float32" else pytest.param(d, marks=pytest.mark.deep) for d in SUMMED])
def test_gradients_add_up_what_is_taken_twice(engine: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape in ((4, 7, 5), (13,), (70, 33), (5, 1), (3, 0, 2)):
        for axis in range(-1, len(shape)):
            extent, place = shape[axis], axis % len(shape)
            for form in ((3, 4), (), (0,)):
                if extent == 0 and 0 not in form:
                    continue
                ids = rng.integers(-extent, extent, form) if extent else np.zeros(form, np.int64)
                grad = sample((*shape[:place], *form, *shape[place + 1 :]), dtype)
                index = engine.tensor(ids, "int32")
                out = engine.index("take_grad", engine.tensor(grad, dtype), index, axis=axis, shape=shape)
                expected = np.zeros(shape)
                rows = wide(grad, dtype).reshape(*shape[:place], ids.size, *shape[place + 1 :])
                np.add.at(np.moveaxis(expected, place, 0), ids.reshape(-1), np.moveaxis(rows, place, 0))
                assert out.shape == shape
                assert out.dtype == dtype
                if is_integer(dtype):  # sums wrap
                    expected = wide(stored(expected.astype(np.int64), dtype), dtype)
                assert np.array_equal(wide(engine.read(out), dtype), expected)
            if extent == 0:
                continue
            chosen = list(shape)
            chosen[axis] = 6
            ids = rng.integers(-extent, extent, chosen)
            grad = sample(tuple(chosen), dtype, seed=4)
            out = engine.index(
                "gather_grad", engine.tensor(grad, dtype), engine.tensor(ids, "int64"), axis=axis, shape=shape
            )
            expected = np.zeros(shape)
            places = list(np.ogrid[tuple(slice(n) for n in chosen)])
            places[place] = ids
            np.add.at(expected, tuple(places), wide(grad, dtype))
            assert np.array_equal(wide(engine.read(out), dtype), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_summed_in_float32(engine: Any, dtype: str) -> None:
    # 4096 ones: in half precision the sum would stop at 2048, in bfloat16 at 256.
    grad = engine.tensor(stored(np.ones(4096), dtype), dtype)
    ids = engine.tensor(np.zeros(4096, np.int32), "int32")
    for kind in ("take_grad", "gather_grad"):
        out = engine.read(engine.index(kind, grad, ids, axis=0, shape=(3,)))
        assert wide(out, dtype).tolist() == [4096, 0, 0]


def test_sums_are_the_same_bits_from_run_to_run(engine: Any) -> None:
    rng = np.random.default_rng(5)
    grad = engine.tensor(rng.standard_normal((3000, 17)).astype(np.float32), "float32")
    ids = engine.tensor(rng.integers(0, 40, 3000), "int32")
    first = engine.read(engine.index("take_grad", grad, ids, axis=0, shape=(40, 17)))
    for _ in range(5):
        assert np.array_equal(first, engine.read(engine.index("take_grad", grad, ids, axis=0, shape=(40, 17))))


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])  # one of each size
def test_put_and_scatter_keep_the_last_of_equal_indices(engine: Any, dtype: str) -> None:
    rng = np.random.default_rng(8)
    for shape in ((4, 7, 5), (13,), (70, 3)):
        for axis in range(len(shape)):
            x, extent = sample(shape, dtype), shape[axis]
            for form in ((3, 4), (1,), (), (90,)):
                ids = rng.integers(-extent, extent, form)
                rows = sample((*shape[:axis], *form, *shape[axis + 1 :]), dtype, seed=9)
                out = engine.tensor(x, dtype)
                engine.index("put", engine.tensor(rows, dtype), engine.tensor(ids, "int64"), axis=axis, out=out)
                expected = x.copy()
                table = np.moveaxis(expected, axis, 0)
                flat = rows.reshape(*shape[:axis], ids.size, *shape[axis + 1 :])
                for place, row in zip(ids.reshape(-1), np.moveaxis(flat, axis, 0)):
                    table[place] = row
                assert np.array_equal(engine.read(out), expected)
            chosen = list(shape)
            chosen[axis] = 40
            ids, values = rng.integers(-extent, extent, chosen), sample(tuple(chosen), dtype, seed=10)
            out = engine.tensor(x, dtype)
            engine.index("scatter", engine.tensor(values, dtype), engine.tensor(ids, "int64"), axis=axis, out=out)
            expected = x.copy()
            np.put_along_axis(expected, ids, values, axis)
            assert np.array_equal(engine.read(out), expected)


@pytest.mark.parametrize("kind", ["take_grad", "gather_grad"])
def test_adding_to_what_is_there(engine: Any, kind: str) -> None:
    x, ids = sample((6, 5), "float32"), np.random.default_rng(11).integers(0, 6, (9, 5))
    grad, out = sample((9, 5), "float32", seed=12), engine.tensor(x, "float32")
    index = engine.tensor(ids[:, 0] if kind == "take_grad" else ids, "int32")
    assert engine.index(kind, engine.tensor(grad, "float32"), index, axis=0, out=out) is out
    np.add.at(x, (ids[:, :1] if kind == "take_grad" else ids, np.arange(5)), grad)
    assert np.array_equal(engine.read(out), x)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_indices_into_few_positions(engine: Any, dtype: str) -> None:
    rng, count = np.random.default_rng(14), 2005
    grad, ids = sample((count,), dtype), rng.integers(-3, 3, count)
    x, index = sample((3,), dtype, seed=15), engine.tensor(ids, "int32")
    for base in (None, engine.tensor(x, dtype)):
        out = engine.index("take_grad", engine.tensor(grad, dtype), index, axis=0, shape=(3,), out=base)
        expected = np.zeros(3) if base is None else wide(x, dtype)
        np.add.at(expected, ids, wide(grad, dtype))
        assert np.array_equal(wide(engine.read(out), dtype), expected.astype(numpy_dtype(dtype)))


@pytest.mark.parametrize("size", [0, 1, 63, 1000, 2**16 + 1])
def test_places_of_what_is_true(engine: Any, size: int) -> None:
    for share in (0.0, 0.3, 1.0):
        mask = np.random.default_rng(13).random(size) < share
        found = engine.nonzero(engine.tensor(mask, "bool"))
        assert found.dtype == "int64"
        assert np.array_equal(engine.read(found), np.flatnonzero(mask))


@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1])
@pytest.mark.parametrize("kind", ["take", "gather", "take_grad", "gather_grad"])
def test_an_index_out_of_range_is_clamped_and_reported_at_the_next_read(engine: Any, kind: str, bad: int) -> None:
    x = engine.tensor(np.arange(5, dtype=np.float32), "float32")
    ids = engine.tensor(np.array([1, bad, 0, 2, 3]), "int32")
    shape = {"shape": (5,)} if kind.endswith("_grad") else {}
    out = engine.index(kind, x, ids, axis=0, **shape)
    with pytest.raises(IndexError, match=f"{kind.removesuffix('_grad')}: index .* is out of range"):
        engine.read(out)
    clamped = [1, 0 if bad < 0 else 4, 0, 2, 3]
    expected = np.zeros(5)
    if shape:
        np.add.at(expected, clamped, np.arange(5))
    else:
        expected = np.arange(5)[clamped]
    assert engine.read(out).tolist() == expected.tolist()  # reported once, and the device is usable


def test_tables_beyond_sixteen_bits(engine: Any) -> None:
    rng = np.random.default_rng(6)
    table = rng.standard_normal((70001, 3)).astype(np.float32)
    ids = np.append(rng.integers(0, 70001, 100), [70000, 65536, 65535])
    out = engine.index("take", engine.tensor(table, "float32"), engine.tensor(ids, "int64"), axis=0)
    assert np.array_equal(engine.read(out), table[ids])


def test_more_parts_and_rows_than_a_device_has_groups(engine: Any) -> None:
    count = 2**16 + 5
    ids = np.random.default_rng(17).integers(0, 2, (count, 3))
    x = sample((count, 2), "float32")
    out = engine.index("gather", engine.tensor(x, "float32"), engine.tensor(ids, "int64"), axis=1)
    assert np.array_equal(engine.read(out), np.take_along_axis(x, ids, 1))
    back = engine.index("gather_grad", out, engine.tensor(ids, "int64"), axis=1, shape=x.shape)
    expected = np.zeros_like(x)
    np.add.at(expected, (np.arange(count)[:, None], ids), np.take_along_axis(x, ids, 1))
    assert np.array_equal(engine.read(back), expected)
    rows = np.arange(count)[::-1]
    wide = sample((count, 130), "uint8")
    out = engine.index("take", engine.tensor(wide, "uint8"), engine.tensor(rows, "int64"), axis=0)
    assert np.array_equal(engine.read(out), wide[::-1])


@pytest.mark.deep
def test_a_device_that_is_no_cpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024, 64))
    test_short_floats_are_summed_in_float32(engine, "float16")
    test_put_and_scatter_keep_the_last_of_equal_indices(engine, "float32")
    test_gradients_add_up_what_is_taken_twice(engine, "float32")
    test_places_of_what_is_true(engine, 2**16 + 1)
    test_many_indices_into_few_positions(engine, "float32")
    rng = np.random.default_rng(16)
    grad, ids = sample((3, 700, 5), "float32"), rng.integers(-40, 40, 700)
    expected = np.zeros((3, 40, 5), np.float32)
    np.add.at(expected, (slice(None), ids), grad)
    out = engine.index(
        "take_grad", engine.tensor(grad, "float32"), engine.tensor(ids, "int32"), axis=1, shape=(3, 40, 5)
    )
    assert np.array_equal(engine.read(out), expected)
    x, ids = sample((9, 12, 5), "float32"), np.random.default_rng(7).integers(-12, 12, 8)
    out = engine.index("take", engine.tensor(x, "float32"), engine.tensor(ids, "int32"), axis=1)
    assert np.array_equal(engine.read(out), x[:, ids])
    place = np.random.default_rng(7).integers(-12, 12, (9, 7, 5))
    out = engine.index("gather", engine.tensor(x, "float32"), engine.tensor(place, "int32"), axis=1)
    assert np.array_equal(engine.read(out), np.take_along_axis(x, place, 1))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "int64"])
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((1009,), 0, 777),
        ((37, 50), 1, 13),
        ((5, 11, 3), 1, 29),
        ((91, 8), 0, 200),
        ((7, 5, 16), 1, 4),
        ((300, 1), 0, 70),
    ],
)
def test_take_is_numpys(shape, axis, count, dtype, engine):
    """Rows of single elements, of odd lengths and of whole words, across the bounds of work-items."""
    rng = np.random.default_rng(3)
    data = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    places = rng.integers(-shape[axis], shape[axis], count)
    for integer in ("int32", "int64"):
        found = ops.take(Tensor.from_host(data), Tensor.from_host(places.astype(integer)), axis)
        np.testing.assert_array_equal(found.numpy(), np.take(data, places, axis))
    along = rng.integers(-shape[axis], shape[axis], tuple(3 if a == axis else n for a, n in enumerate(shape)))
    found = ops.take_along_axis(Tensor.from_host(data), Tensor.from_host(along), axis)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(data, along, axis))


@pytest.mark.parametrize("wrong", [-6, 5, 1 << 40])
@pytest.mark.parametrize("width", [1, 4])
def test_take_reports_an_index_out_of_range(wrong, width, engine):
    x = Tensor.from_host(np.arange(5 * width, dtype=np.float32).reshape(5, width))
    index = Tensor.from_host(np.array([0, wrong, 1]))
    with pytest.raises(IndexError, match="take: index .* is out of range"):
        ops.take(x, index, 0).numpy()
