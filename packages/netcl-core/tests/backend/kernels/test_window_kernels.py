"""Pooling and unfolding of the engines against loops over windows, and their gradients against the adjoint."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from netcl.core.dtypes import from_bfloat16, numpy_dtype, to_bfloat16

TOLERANCE = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}


class Case(NamedTuple):
    x: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...] | None = None  # given where ceil_mode adds a window


CASES = {
    "plain": Case((2, 3, 8, 8), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "overlapping": Case((2, 3, 9, 7), (3, 2), (2, 1), ((1, 1), (1, 0)), (1, 1)),
    "dilated": Case((2, 3, 9, 7), (3, 2), (2, 3), ((1, 1), (1, 0)), (2, 1)),
    "1d, ceiled": Case((1, 2, 11), (3,), (2,), ((1, 1),), (1,), (6,)),
    "2d, ceiled": Case((2, 2, 10, 10), (3, 3), (3, 3), ((0, 0), (0, 0)), (1, 1), (4, 4)),
    "ceiled, padded": Case((1, 1, 6, 5), (3, 2), (2, 2), ((1, 1), (1, 1)), (1, 1), (4, 3)),
    "3d": Case((1, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), ((0, 1), (1, 1), (1, 0)), (1, 1, 2)),
    "stride above kernel": Case((1, 2, 9, 9), (2, 2), (4, 3), ((0, 0), (0, 0)), (1, 1)),
    "inside, overlapping": Case((3, 5, 10, 7), (2, 3), (2, 1), ((0, 0), (0, 0)), (1, 2)),
    "inside, 3d": Case((2, 2, 5, 6, 9), (2, 2, 2), (1, 2, 3), ((0, 0), (0, 0), (0, 0)), (2, 1, 1)),
    "apart, padded": Case((2, 3, 9, 7), (2, 2), (3, 2), ((1, 0), (0, 1)), (1, 1)),
    "apart, 3d": Case((2, 3, 4, 9, 7), (2, 2, 1), (2, 3, 2), ((1, 1), (1, 0), (0, 0)), (1, 1, 1)),
    "whole plane": Case((3, 2, 4, 5), (4, 5), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "nothing": Case((0, 2, 4, 4), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "long row": Case((1, 1, 1, 70000), (1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1)),
}


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def read(engine: Any, tensor: Any) -> Any:
    values = engine.read(tensor)
    return from_bfloat16(values).astype(np.float64) if tensor.dtype == "bfloat16" else values.astype(np.float64)


def windows(case: Case) -> tuple[tuple[int, ...], Any]:
    """Returns the number of windows, and (window, places of its taps in the plane or -1) for each."""
    rank, extent = len(case.kernel), case.x[2:]
    sizes = zip(extent, case.kernel, case.stride, case.padding, case.dilation)
    out = case.out or tuple((n + low + high - d * (k - 1) - 1) // s + 1 for n, k, s, (low, high), d in sizes)
    assert rank == len(out)

    def places() -> Any:
        for window in product(*map(range, out)):
            taps = []
            for tap in product(*map(range, case.kernel)):
                at = [
                    w * s - p[0] + t * d for w, s, p, t, d in zip(window, case.stride, case.padding, tap, case.dilation)
                ]
                inside = all(0 <= a < n for a, n in zip(at, extent))
                taps.append(int(np.ravel_multi_index(at, extent)) if inside else -1)
            yield window, taps

    return out, places


def options(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in ("kernel", "stride", "padding", "dilation")}


def sized(case: Case) -> tuple[int, ...] | None:
    return None if case.out is None else (*case.x[:2], *case.out)


def integers(case: Case, dtype: str) -> Any:
    # Small integers: ties, and exact in every dtype.
    return stored(np.random.default_rng(3).integers(-4, 5, case.x).astype(np.float32), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", [name for name in CASES if name != "long row"])
def test_max_pooling(engine: Any, name: str, dtype: str) -> None:
    case = CASES[name]
    out, places = windows(case)
    x = integers(case, dtype)
    values, indices = engine.window("max", engine.tensor(x, dtype), shape=sized(case), **options(case))
    assert values.shape == indices.shape == (*case.x[:2], *out)
    assert values.dtype == dtype
    assert indices.dtype == "int32"
    flat = (from_bfloat16(x) if dtype == "bfloat16" else x).reshape(*case.x[:2], int(np.prod(case.x[2:])))
    got, at = read(engine, values), engine.read(indices)
    for window, taps in places():
        inside = [tap for tap in taps if tap >= 0]
        candidates = flat[:, :, inside]
        assert (got[(Ellipsis, *window)] == candidates.max(axis=-1)).all()
        assert (at[(Ellipsis, *window)] == np.array(inside)[candidates.argmax(axis=-1)]).all()  # the first of equals

    grad = stored(np.random.default_rng(4).standard_normal(values.shape), dtype)
    result = engine.window("max_grad", engine.tensor(grad, dtype), indices=indices, shape=case.x, **options(case))
    expected = np.zeros((case.x[0], case.x[1], flat.shape[-1]))
    wide = (from_bfloat16(grad) if dtype == "bfloat16" else grad).astype(np.float64)
    for n, c in product(*map(range, case.x[:2])):
        np.add.at(expected[n, c], at[n, c].reshape(-1), wide[n, c].reshape(-1))
    np.testing.assert_allclose(
        read(engine, result), expected.reshape(case.x), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_average_pooling(engine: Any, dtype: str, include: bool) -> None:
    for name, case in CASES.items():
        if name == "long row":
            continue
        out, places = windows(case)
        x = integers(case, dtype)
        call = {**options(case), "count_include_pad": include}
        values = engine.window("avg", engine.tensor(x, dtype), shape=sized(case), **call)
        flat = (
            (from_bfloat16(x) if dtype == "bfloat16" else x)
            .astype(np.float64)
            .reshape(*case.x[:2], int(np.prod(case.x[2:])))
        )
        weights = np.zeros((int(np.prod(out)), flat.shape[-1]))
        for number, (window, taps) in enumerate(places()):
            inside = [tap for tap in taps if tap >= 0]
            count = len(inside)
            if include:
                # Padding counts, what ceil_mode reaches beyond it does not.
                count = 1
                for w, s, (low, high), k, d, n in zip(
                    window, case.stride, case.padding, case.kernel, case.dilation, case.x[2:]
                ):
                    count *= sum(w * s - low + t * d < n + high for t in range(k))
            weights[number, inside] = 1 / max(count, 1)
        expected = (flat @ weights.T).reshape(*case.x[:2], *out)
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(read(engine, values), expected, rtol=tolerance, atol=tolerance, err_msg=name)
        grad = integers(case._replace(x=values.shape), dtype)
        result = engine.window("avg_grad", engine.tensor(grad, dtype), shape=case.x, **call)
        wide = (from_bfloat16(grad) if dtype == "bfloat16" else grad).astype(np.float64)
        expected = (wide.reshape(*case.x[:2], int(np.prod(out))) @ weights).reshape(case.x)
        np.testing.assert_allclose(read(engine, result), expected, rtol=tolerance, atol=4 * tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_unfolding_and_its_adjoint(engine: Any, dtype: str) -> None:
    for name, case in CASES.items():
        if case.out is not None or name == "long row":
            continue
        out, places = windows(case)
        x = integers(case, dtype)
        columns = engine.window("im2col", engine.tensor(x, dtype), **options(case))
        taps_per_window = int(np.prod(case.kernel))
        assert columns.shape == (case.x[0] * int(np.prod(out)), case.x[1] * taps_per_window)
        wide = (
            (from_bfloat16(x) if dtype == "bfloat16" else x)
            .astype(np.float64)
            .reshape(*case.x[:2], int(np.prod(case.x[2:])))
        )
        padded = np.concatenate([wide, np.zeros((*case.x[:2], 1))], axis=-1)  # place -1 is the zero behind
        table = np.array([taps for _, taps in places()])
        expected = padded[:, :, table].transpose(0, 2, 1, 3).reshape(columns.shape)
        assert (read(engine, columns) == expected).all(), name

        grad = stored(np.random.default_rng(5).integers(-2, 3, columns.shape).astype(np.float32), dtype)
        result = engine.window("col2im", engine.tensor(grad, dtype), shape=case.x, **options(case))
        summed = np.zeros_like(padded)
        wide = (from_bfloat16(grad) if dtype == "bfloat16" else grad).astype(np.float64)
        parts = wide.reshape(case.x[0], table.shape[0], case.x[1], taps_per_window).transpose(0, 2, 1, 3)
        for n, c in product(*map(range, case.x[:2])):
            np.add.at(summed[n, c], table, parts[n, c])
        assert (read(engine, result) == summed[:, :, :-1].reshape(case.x)).all(), name


def test_pooling_and_unfolding_with_all_options(engine: Any) -> None:
    case = Case((1, 2, 7, 6), (3, 2), (2, 1), ((1, 1), (1, 0)), (1, 2))
    grad = integers(case, "float32")
    x = engine.tensor(grad, "float32")
    for forward, backward in (("avg", "avg_grad"), ("im2col", "col2im")):
        # <A x, A x> = <x, A^T A x>
        out = engine.window(forward, x, **options(case))
        back = engine.window(backward, out, shape=case.x, **options(case))
        assert np.isclose(np.vdot(read(engine, out), read(engine, out)), np.vdot(grad, read(engine, back)))
    values, indices = engine.window("max", x, **options(case))
    back = engine.window("max_grad", values, indices=indices, shape=case.x, **options(case))
    assert np.isclose(read(engine, back).sum(), read(engine, values).sum())


def test_a_nan_is_the_maximum_and_the_first_stays(engine: Any) -> None:
    x = np.array([[[1, np.nan, 3, 4, -np.inf, -np.inf, np.nan, np.nan]]], np.float32)
    call: dict[str, Any] = {"kernel": (2,), "stride": (2,), "padding": ((0, 0),), "dilation": (1,)}
    values, indices = engine.window("max", engine.tensor(x, "float32"), **call)
    np.testing.assert_array_equal(engine.read(values), [[[np.nan, 4, -np.inf, np.nan]]])
    assert engine.read(indices).tolist() == [[[1, 3, 4, 6]]]


def test_padding_is_never_the_maximum(engine: Any) -> None:
    x = -np.ones((1, 1, 3, 3), np.float32)
    call: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    values, indices = engine.window("max", engine.tensor(x, "float32"), **call)
    assert (engine.read(values) == -1).all()
    assert (engine.read(indices) >= 0).all()


def test_rows_beyond_sixteen_bits(engine: Any) -> None:
    case = CASES["long row"]
    x = np.random.default_rng(6).standard_normal(case.x).astype(np.float32)
    values, indices = engine.window("max", engine.tensor(x, "float32"), **options(case))
    pairs = x.reshape(-1, 2)
    assert (engine.read(values).reshape(-1) == pairs.max(axis=1)).all()
    assert (engine.read(indices).reshape(-1) == pairs.argmax(axis=1) + 2 * np.arange(35000)).all()


@pytest.mark.deep
def test_a_device_that_is_no_cpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    test_max_pooling(engine, "overlapping", "float32")
    test_max_pooling(engine, "3d", "float16")
    test_average_pooling(engine, "float32", True)
