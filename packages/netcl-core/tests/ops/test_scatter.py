"""Writing and adding at indices: equal indices, dtypes, PyTorch's shapes, and errors for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError


def on(values, dtype=None):
    return Tensor.from_host(np.asarray(values), dtype)


def test_the_last_of_equal_indices_stays(engine):
    rng = np.random.default_rng(0)
    index, rows = rng.integers(-7, 7, 500), rng.standard_normal((500, 3)).astype(np.float32)
    wanted = np.zeros((7, 3), np.float32)
    wanted[index] = rows
    for _ in range(3):
        np.testing.assert_array_equal(ops.index_copy(Tensor.zeros((7, 3)), 0, on(index), on(rows)).numpy(), wanted)
    elements = rng.integers(0, 7, (500, 3))
    wanted = np.zeros((7, 3), np.float32)
    np.put_along_axis(wanted, elements, rows, 0)
    np.testing.assert_array_equal(ops.scatter(Tensor.zeros((7, 3)), 0, on(elements), on(rows)).numpy(), wanted)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_dtypes_are_kept(engine, dtype):
    x = on([[1, 0, 1], [0, 1, 0]], dtype)
    index, src = on([[1, 1], [0, 2]]), on([[0, 1], [1, 1]], dtype)
    y = ops.scatter(x, 1, index, src)
    assert y.dtype == dtype
    assert y.numpy().astype(int).tolist() == [[1, 1, 1], [1, 1, 1]]
    if dtype != "bool":
        y = ops.scatter_add(x, 1, index, src)
        assert y.dtype == dtype
        assert y.tolist() == [[1, 1, 1], [1, 1, 1]]
        assert ops.index_add(x, 1, [2, 2], src).tolist() == [[1, 0, 2], [0, 1, 2]]
    assert x.numpy().astype(int).tolist() == [[1, 0, 1], [0, 1, 0]]  # nothing is written in place


def test_values_in_a_narrower_dtype_are_converted(engine):
    x = Tensor.zeros((2, 2))
    assert ops.index_put(x, ([0, 1], [1, 0]), on([1, 2])).tolist() == [[0, 1], [2, 0]]
    assert ops.scatter_add(x, 0, on([[1, 0]]), on([[1, 2]])).tolist() == [[0, 2], [1, 0]]
    assert ops.index_put(x, ([0, 1], [1, 0]), 3).tolist() == [[0, 3], [3, 0]]
    with pytest.raises(DTypeError, match="index_copy: float32 values do not fit into int64"):
        ops.index_copy(on([1, 2]), 0, [0], on([1.5]))


def test_sums_of_halves_are_rounded_once(engine):
    for dtype in ("float16", "bfloat16"):
        x = Tensor.full((2,), 1, dtype)
        y = ops.index_add(x, 0, np.zeros(4095, np.int64), Tensor.ones((4095,), dtype))
        assert y.tolist() == [4096, 1]


def test_bad_arguments(engine):
    x, flags = Tensor.zeros((3, 4)), on([True, False])
    cases = [
        (lambda: ops.scatter(x, 0, on([[0] * 5]), 1.0), ShapeError, r"index \(1, 5\) for shape \(3, 4\)"),
        (lambda: ops.scatter(x, 0, on([[0, 1]]), on([[1.0]])), ShapeError, r"src \(1, 1\) for index \(1, 2\)"),
        (
            lambda: ops.scatter(x, 0, [[3]], 1.0),
            IndexError,
            "scatter: index 3 at position 0 is out of range for a length of 3",
        ),
        (lambda: ops.scatter(x, 2, [[0]], 1.0), ShapeError, "scatter: axis 2 is out of range"),
        (lambda: ops.index_add(x, 0, [0], x), ShapeError, r"source \(3, 4\).*expected \(1, 4\)"),
        (lambda: ops.index_put(x, ([0, 1],), Tensor.zeros((3, 4))), ShapeError, r"values \(3, 4\) do not broadcast"),
        (lambda: ops.index_put(x, (None,), 1.0), IndexError, "index_put: indices hold one tensor"),
        (lambda: ops.masked_fill(x, on([1, 0, 1, 0]), 0), DTypeError, "expected a bool mask, got int64"),
        (lambda: ops.masked_fill(flags, on([True] * 3), 0), ShapeError, r"shapes \(3,\) and \(2,\) do not broadcast"),
        (lambda: ops.masked_select(x, on([True] * 3)), ShapeError, "masked_select: shapes"),
        (lambda: ops.bincount(on([1.0])), DTypeError, "expected whole numbers, got float32"),
        (lambda: ops.bincount(on([[1]])), ShapeError, r"bincount: x \(1, 1\)"),
        (lambda: ops.bincount(on([2, -1])), ValueError, "x has a negative element"),
        (lambda: ops.take_along_axis(x, on([0]), 0), ShapeError, "they have as many axes"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_device_indices_out_of_range_name_the_op(engine):
    x, bad = Tensor.zeros((2,)), on([0, 5])
    for op, call in {
        "scatter": lambda: ops.scatter(x, 0, bad, 1.0),
        "scatter_add": lambda: ops.scatter_add(x, 0, bad, 1.0),
        "index_add": lambda: ops.index_add(x, 0, bad, Tensor.ones((2,))),
        "index_copy": lambda: ops.index_copy(x, 0, bad, Tensor.ones((2,))),
        "index_put": lambda: ops.index_put(x, (bad,), 1.0),
        "take_along_axis": lambda: ops.take_along_axis(x, bad),
        "gather": lambda: ops.gather(x, 0, bad),
        "index_select": lambda: ops.index_select(x, 0, bad),
        "take": lambda: ops.take(x, bad),
    }.items():
        y = call()
        with pytest.raises(
            IndexError, match=f"^{op}: index -?[0-9]+ at position [0-9]+ is out of range for a length of"
        ):
            y.numpy()
        assert y.numpy().shape == (2,)


def test_counts(engine):
    ids = np.random.default_rng(1).integers(0, 50, 3000)
    assert ops.bincount(on(ids.astype(np.int32))).tolist() == np.bincount(ids).tolist()
    assert ops.bincount(Tensor.zeros((0,), "int64")).tolist() == []
    weights = np.random.default_rng(2).integers(0, 9, 3000).astype(np.float32)
    np.testing.assert_array_equal(ops.bincount(on(ids), on(weights), 60).numpy(), np.bincount(ids, weights, 60))


def _alone(value):
    return Tensor.from_host(np.array(value))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x, i, s: ops.index_select(x, 0, i), 2.0),
        (lambda x, i, s: ops.index_select(x, -1, on([0])), 2.0),
        (lambda x, i, s: ops.index_select(on([1.0, 2.0]), 0, i), [1.0]),
        (lambda x, i, s: ops.gather(x, 0, i), 2.0),
        (lambda x, i, s: ops.gather(x, 0, on([0, 0])), [2.0, 2.0]),
        (lambda x, i, s: ops.gather(on([1.0, 3.0]), 0, i), 1.0),
        (lambda x, i, s: ops.scatter(x, 0, i, s), 3.0),
        (lambda x, i, s: ops.scatter(x, 0, on([0]), on([7.0])), 7.0),
        (lambda x, i, s: ops.scatter(on([1.0, 2.0]), 0, i, 9.0), [9.0, 2.0]),
        (lambda x, i, s: ops.scatter_add(x, 0, i, s), 5.0),
        (lambda x, i, s: ops.scatter_reduce(x, 0, i, s, "amax"), 3.0),
        (lambda x, i, s: ops.index_add(x, 0, i, s), 5.0),
        (lambda x, i, s: ops.index_copy(x, 0, on([0]), on([4.0])), 4.0),
        (lambda x, i, s: ops.index_reduce(x, 0, i, s, "prod"), 6.0),
        (lambda x, i, s: x.index_fill(0, i, 8.0), 8.0),
    ],
)
def test_operands_without_axes_have_one_element(engine, call, wanted):
    assert call(_alone(2.0), _alone(0), _alone(3.0)).tolist() == wanted


def test_a_mask_broadcasts_its_tensor(engine):
    x, mask = on([0.0, 1.0, 2.0]), on([[True, False, True], [False, True, False]])
    assert ops.masked_fill(x, mask, 7.0).tolist() == [[7, 1, 7], [0, 7, 2]]
    assert x.masked_scatter(mask, on([4.0, 5.0, 6.0])).tolist() == [[4, 1, 5], [0, 6, 2]]
    assert _alone(1.0).masked_scatter(_alone(True), on([4.0])).tolist() == 4.0


def test_a_source_without_axes_is_a_number_for_every_position(engine):
    x, index = on([0.0, 1.0, 2.0]), on([0, 2])
    assert ops.scatter(x, 0, index, _alone(5.0)).tolist() == [5, 1, 5]
    assert ops.scatter_add(x, 0, index, _alone(5.0)).tolist() == [5, 1, 7]
    assert ops.scatter_reduce(x, 0, index, _alone(5.0), "amax").tolist() == [5, 1, 5]
