"""Brackets, and ops that take indices: values, writing in place, and errors for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import CaptureError, DTypeError, ShapeError, UnsupportedError

KEYS = {
    "row": 1,
    "last": -1,
    "slices": (slice(1, 4), slice(None, None, 2)),
    "backwards": (slice(None, None, -1), slice(-1, 1, -2)),
    "ellipsis": (Ellipsis, 0),
    "new axes": (None, slice(None), None, 2),
    "nothing": slice(3, 3),
    "whole": Ellipsis,
    "beyond": slice(2, 99),
    "list": [4, 0, -1],
    "array in the middle": (slice(1, 3), np.array([[5, 0], [2, 2]])),
    "array between a slice and an int": (np.array([2, 0]), slice(None, None, 2), 1),
    "pairs": (np.array([0, 3, 3]), np.array([1, 0, 4])),
    "mask": np.arange(5) % 2 == 0,
    "full mask": np.arange(90).reshape(5, 6, 3) % 7 < 3,
    "mask and slice": (slice(None), np.arange(6) < 2, slice(1, None)),
    "empty list": [],
}


@pytest.fixture
def values():
    return np.arange(90, dtype=np.float32).reshape(5, 6, 3)


@pytest.mark.parametrize("name", KEYS)
def test_getitem(engine, values, name):
    key = np.array([], np.int64) if name == "empty list" else KEYS[name]
    found = Tensor.from_host(values)[KEYS[name]]
    assert found.shape == values[key].shape
    np.testing.assert_array_equal(found.numpy(), values[key])


@pytest.mark.parametrize("shape", [(5,), (1,), (4, 3), (1, 3), (3, 0), (2, 3, 4)])
def test_every_position_by_an_int_is_a_view(engine, shape):
    expected = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    t = Tensor.from_host(expected)
    for number in range(-len(t), len(t)):
        row = t[number]
        assert row.shape == expected[number].shape
        np.testing.assert_array_equal(row.numpy(), expected[number])
        row += 10
        expected[number] += 10
    np.testing.assert_array_equal(t.numpy(), expected)
    rows = list(t)
    t += 1
    for row, wanted in zip(rows, expected + 1):
        np.testing.assert_array_equal(row.numpy(), wanted)
    for number in (len(t), -len(t) - 1):
        with pytest.raises(IndexError, match=f"getitem: index {number} .*axis 0"):
            t[number]


def test_positions_of_a_view_by_an_int(engine, values):
    t = Tensor.from_host(values)
    flipped = t[:, ::-2]
    for number in range(len(t)):
        np.testing.assert_array_equal(flipped[number].numpy(), values[number, ::-2])
        np.testing.assert_array_equal(flipped[number][1][-1].numpy(), values[number, ::-2][1][-1])


@pytest.mark.parametrize("name", KEYS)
def test_setitem(engine, values, name):
    key = np.array([], np.int64) if name == "empty list" else KEYS[name]
    for value in (-1.5, np.linspace(1, 2, values[key].size, dtype=np.float32).reshape(values[key].shape)):
        expected, t = values.copy(), Tensor.from_host(values)
        expected[key] = value
        t[KEYS[name]] = value
        np.testing.assert_array_equal(t.numpy(), expected)


def test_setitem_broadcasts_converts_and_counts_versions(engine, values):
    t = Tensor.from_host(values)
    version = t.version
    t[1:3, ::2] = Tensor.from_host(np.array([7, 8, 9], np.int32))
    values[1:3, ::2] = [7, 8, 9]
    np.testing.assert_array_equal(t.numpy(), values)
    assert t.version > version
    t[...] = t[::-1]
    np.testing.assert_array_equal(t.numpy(), values[::-1])
    with pytest.raises(ShapeError, match=r"setitem: values of shape \(2,\) do not fit the selection \(3,\)"):
        t[0, 0] = np.ones(2, np.float32)


def test_setitem_of_itself_does_not_read_what_it_writes(engine):
    t = Tensor.from_host(np.arange(4, dtype=np.float32))
    t[:] = t.reshape(4)
    np.testing.assert_array_equal(t.numpy(), [0, 1, 2, 3])


def test_the_last_of_equal_positions_stays(engine):
    t = Tensor.from_host(np.zeros(4, np.float32))
    t[[1, 2, 1]] = np.array([1, 2, 3], np.float32)
    assert t.tolist() == [0, 3, 2, 0]


def test_indices_of_the_device(engine, values):
    t = Tensor.from_host(values)
    places = Tensor.from_host(np.array([3, 0, -1]))
    np.testing.assert_array_equal(t[places].numpy(), values[[3, 0, -1]])
    np.testing.assert_array_equal(t[1:, places].numpy(), values[1:, [3, 0, -1]])
    mask = t[:, 0, 0] > 20
    np.testing.assert_array_equal(t[mask].numpy(), values[values[:, 0, 0] > 20])
    both = t[places, ::2, Tensor.from_host(np.array([[2], [0]], np.int32))]
    np.testing.assert_array_equal(both.numpy(), values[[3, 0, -1], ::2, np.array([[2], [0]])])
    t[places, [0, 1, 2]] = places.reshape(3, 1)
    values[[3, 0, -1], [0, 1, 2]] = [[3], [0], [-1]]
    np.testing.assert_array_equal(t.numpy(), values)


@pytest.mark.parametrize(
    "key, error, message",
    [
        (5, IndexError, "index 5 is out of range for axis 0 of shape"),
        ((0, -7), IndexError, "index -7 is out of range for axis 1"),
        ((0, 0, 0, 0), IndexError, "4 indices for shape"),
        ((Ellipsis, Ellipsis), IndexError, "one ellipsis"),
        ([0, 5], IndexError, "index 5 at position 1 is out of range for a length of 5"),
        ("x", UnsupportedError, "str is no index; there are ints, slices"),
        (np.ones((5, 2), bool), IndexError, r"a mask of shape \(5, 2\) for the lengths \(5, 6\)"),
        (([0, 1], [0, 1, 2]), ShapeError, r"shapes \(2,\) and \(3,\) do not broadcast"),
        (([0, 1], [0, -7]), IndexError, "getitem: index -7 at position 1 is out of range for a length of 6"),
        (np.array([0.5]), DTypeError, "expected whole numbers as indices, got float64"),
    ],
)
def test_bad_keys(engine, values, key, error, message):
    with pytest.raises(error, match=message):
        Tensor.from_host(values)[key]


def test_device_indices_out_of_range_are_reported_at_the_next_read(engine):
    table = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(3, 2))
    rows = ops.embedding(Tensor.from_host(np.array([0, 3])), table)
    with pytest.raises(IndexError, match="embedding: index .* is out of range"):
        rows.numpy()
    assert rows.numpy().shape == (2, 2)
    pairs = table[Tensor.from_host(np.array([-4, 1])), [0, 1]]
    with pytest.raises(IndexError, match="getitem: index .* is out of range"):
        pairs.numpy()
    assert pairs.tolist() == [0, 3]  # clamped
    table[Tensor.from_host(np.array([2, 3]))] = 7
    with pytest.raises(IndexError, match="setitem: index .* is out of range"):
        table.numpy()
    assert table.tolist() == [[0, 1], [2, 3], [7, 7]]
    codes = ops.one_hot(Tensor.from_host(np.array([0, 4])), 3)
    with pytest.raises(IndexError, match="one_hot: index .* is out of range for"):
        codes.numpy()


def test_host_indices_out_of_range_are_reported_at_once(engine):
    table = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(3, 2))
    with pytest.raises(IndexError, match="take: index 3 at position 1 is out of range for a length of 3"):
        ops.take(table, [0, 3], 0)
    with pytest.raises(IndexError, match="gather: index -4"):
        ops.gather(table, 0, np.array([[0, -4]]))
    with pytest.raises(ShapeError, match=r"index \(1,\) for shape \(3, 2\)"):
        ops.gather(table, 0, np.array([0]))
    with pytest.raises(DTypeError, match="expected whole numbers as indices, got float32"):
        ops.embedding(table, table)
    with pytest.raises(IndexError, match="one_hot: index 3 at position 1 is out of range for 3 classes"):
        ops.one_hot([0, 3], 3)
    with pytest.raises(IndexError, match="embedding: padding_idx 3 is out of range for 3 rows"):
        ops.embedding([0], table, 3)
    with pytest.raises(IndexError, match="no position to name on an axis of length 0"):
        ops.embedding(Tensor.from_host(np.array([0])), Tensor.zeros((0, 2)))


def test_one_hot_finds_the_number_of_classes(engine):
    ids = Tensor.from_host(np.array([2, 0], np.uint8))
    assert ops.one_hot(ids).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert ops.one_hot(ids, 4, "float32").dtype == "float32"


def test_masks_in_place_without_a_host_read(engine, values):
    """One value is written to all selected elements: a select, which a step may capture."""
    t, mask = Tensor.from_host(values), values[:, :, 0] % 4 < 2
    row = np.array([7, 8, 9], np.float32)
    recording = engine.new_recording()
    engine.recording = recording
    try:
        t[t > 80] = 0.5
    finally:
        engine.recording = None
    np.testing.assert_array_equal(t.numpy(), values)  # recorded, not run
    for key, value in (((values > 80), 0.5), (mask, row), ((slice(None), mask[0]), row), (mask, row[None])):
        expected, t = values.copy(), Tensor.from_host(values)
        expected[key] = value
        t[key] = value
        np.testing.assert_array_equal(t.numpy(), expected)
    with pytest.raises(ShapeError, match="setitem: values of shape"):
        t[Tensor.from_host(mask)] = np.ones(2, np.float32)
    with pytest.raises(IndexError, match="a mask of shape"):
        t[Tensor.from_host(mask[:2])] = 1.0


def test_data_dependent_shapes_are_refused_while_recording(engine, values):
    t = Tensor.from_host(values)
    mask = t > 3
    calls = (
        lambda: t[mask],
        lambda: ops.nonzero(t),
        lambda: ops.masked_select(t, mask),
        lambda: ops.bincount(Tensor._wrap(engine, (3,), "int32", t.buffer, t.array, t.pool_handle)),
    )
    for call in calls:
        engine.recording = engine.new_recording()
        try:
            with pytest.raises(CaptureError, match="a value was read on the host"):
                call()
        finally:
            engine.recording = None


def test_indices_that_lie_in_what_is_written(engine):
    t = Tensor.from_host(np.array([2, 0, 1, 3]))
    t[t] = np.array([9, 8, 7, 6])
    assert t.tolist() == [8, 7, 9, 6]
    t = Tensor.from_host(np.array([True, False, True]))
    t[t] = False
    assert t.tolist() == [False] * 3


def test_a_scalar_mask(engine):
    t = Tensor.from_host(np.float32(3))
    assert t[True].tolist() == [3]
    assert t[t > 5].tolist() == []
    t[t > 2] = 1
    assert t.item() == 1


def test_a_list_with_a_slice_is_a_tuple(handle):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor.from_host(handle.queue, values.copy())
    np.testing.assert_array_equal(x[[slice(None), np.array([0, 2])]].to_host(), values[:, [0, 2]])
    np.testing.assert_array_equal(x[[0, slice(1, 3)]].to_host(), values[0, 1:3])
    assert x[[None, 0]].shape == (1, 4)
    x[[slice(None), 1]] = 7
    values[:, 1] = 7
    np.testing.assert_array_equal(x.to_host(), values)
    np.testing.assert_array_equal(x[[0, 2]].to_host(), values[[0, 2]])
