"""default_collate."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

from netcl.data import DataLoader, default_collate

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([1, 2], np.array([1, 2], np.int64)),
        ([1, 2.5], np.array([1, 2.5])),
        ([1.5, 2], np.array([1.5, 2])),
        ([1, np.float32(1.5)], np.array([1, 1.5], np.float32)),
        ([np.float32(1.5), 2**40], np.array([1.5, 2**40], np.float32)),
        ([np.ones(2, np.float32), np.full(2, 3)], np.array([[1, 1], [3, 3]], np.float32)),
        ([np.ones(2, np.float32), np.ones(2)], np.ones((2, 2))),
        ([np.ones(2, bool), np.full(2, 3, np.int8)], np.array([[1, 1], [3, 3]], np.int8)),
        ([True, 2], np.array([1, 2])),
        ([True, False], np.array([True, False])),
        ([1j, 2], np.array([1j, 2])),
        ([np.float32(1), np.float32(2)], np.array([1, 2], np.float32)),
        ([np.uint8(1), np.int16(2)], np.array([1, 2], np.int16)),
        ([np.bool_(1), np.bool_(0)], np.array([True, False])),
        ([np.ones((2, 3), np.float16)] * 4, np.ones((4, 2, 3), np.float16)),
        ([np.array(5)] * 2, np.array([5, 5])),
        ([np.zeros((0, 2))] * 3, np.zeros((3, 0, 2))),
        (["a", "bc"], ["a", "bc"]),
        ([b"a"], [b"a"]),
        ([(1, "a"), (2, "b")], (np.array([1, 2]), ["a", "b"])),
        ([[1, 2], [3, 4]], [np.array([1, 3]), np.array([2, 4])]),
        ([{"x": 1, "y": (2,)}], {"x": np.array([1]), "y": (np.array([2]),)}),
        ([Pair(1, 2), Pair(3, 4)], Pair(np.array([1, 3]), np.array([2, 4]))),
        ([()], ()),
    ],
)
def test_structures(samples, expected, assert_equal):
    assert_equal(default_collate(samples), expected)


def test_array_likes_become_arrays(assert_equal):
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.arange(2, dtype=np.int32)

    assert_equal(default_collate([Like(), Like()]), np.array([[0, 1], [0, 1]], np.int32))


@pytest.mark.parametrize(
    ("samples", "error", "words"),
    [
        ([], ValueError, "no samples"),
        ([np.zeros(2), np.zeros(2), np.zeros(3)], ValueError, r"\(2,\), sample 2 has \(3,\)"),
        ([(1, 2), (1,)], ValueError, "2 fields, sample 1 has 1"),
        ([{"a": 1}, {"b": 1}], ValueError, r"\['a'\], sample 1 has \['b'\]"),
        ([None], TypeError, "NoneType.*collate_fn"),
        ([{1, 2}], TypeError, "set"),
    ],
)
def test_refusals(samples, error, words):
    with pytest.raises(error, match=words):
        default_collate(samples)


def test_integers_without_a_common_dtype_are_no_floats():
    with pytest.raises(ValueError, match="int64 and uint64"):
        default_collate([np.ones(2, np.uint64), np.ones(2, np.int64)])


def test_one_int64_sample_among_float32_keeps_the_dtype_of_a_loader():
    """The batch became float64 in silence, and so did the model's input."""
    samples = [(np.full(3, number, np.int64 if number == 2 else np.float32), number) for number in range(4)]
    (batch,) = DataLoader(samples, 4)
    assert np.asarray(batch[0]).dtype == np.float32
    assert np.asarray(batch[0]).tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]
