"""Datasets and their splits."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.data import ArrayDataset, ConcatDataset, IterableDataset, Subset, random_split, split_dataset
from netcl.data.dataset import batch_reader


class Stream(IterableDataset[int]):
    def __iter__(self):
        return iter(range(3))


def test_array_dataset_samples_and_batches():
    x, y = np.arange(24.0).reshape(6, 2, 2), np.arange(6)
    data = ArrayDataset(x, y)
    assert len(data) == 6
    image, label = data[4]
    assert (image == x[4]).all()
    assert label == 4
    images, labels = data.get_batch(np.array([5, 0, 5]))
    assert images.shape == (3, 2, 2)
    assert (images == x[[5, 0, 5]]).all()
    assert labels.tolist() == [5, 0, 5]
    images[:] = -1
    assert x.min() == 0  # a batch is a copy


def test_array_dataset_of_one_array_has_bare_samples():
    data = ArrayDataset([[1, 2], [3, 4]])
    assert data[1].tolist() == [3, 4]
    assert data.get_batch(np.array([1])).tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [((), "at least one"), ((np.zeros(3), np.zeros(4)), r"\(3,\), \(4,\)"), ((np.float32(1),), r"\(\)")],
)
def test_array_dataset_refuses(arrays, words):
    with pytest.raises(ValueError, match=words):
        ArrayDataset(*arrays)


def test_an_empty_array_dataset_has_no_samples():
    data = ArrayDataset(np.zeros((0, 3)), np.zeros(0))
    assert len(data) == 0
    assert data.get_batch(np.empty(0, np.int64))[0].shape == (0, 3)


def test_concat_dataset():
    joined = ArrayDataset(np.arange(3)) + ArrayDataset(np.arange(0)) + ArrayDataset(np.arange(10, 12))
    assert [int(joined[i]) for i in range(len(joined))] == [0, 1, 2, 10, 11]
    assert int(joined[-1]) == 11
    assert int(joined[-5]) == 0
    for outside in (5, -6):
        with pytest.raises(IndexError, match="5 samples"):
            joined[outside]
    with pytest.raises(ValueError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(TypeError, match="Stream"):
        ConcatDataset([Stream()])


def test_subset_counts_from_the_end_and_nests():
    outer = Subset(Subset(ArrayDataset(np.arange(10)), [1, 3, -1]), np.array([2, 0]))
    assert len(outer) == 2
    assert [int(outer[0]), int(outer[1])] == [9, 1]


@pytest.mark.parametrize(
    ("indices", "error", "words"),
    [([0, 4], IndexError, "4.*4 samples"), ([0.5], TypeError, "float64"), ([[0]], ValueError, r"\(1, 1\)")],
)
def test_subset_refuses(indices, error, words):
    with pytest.raises(error, match=words):
        Subset(ArrayDataset(np.arange(4)), indices)


def test_samples_of_a_subclass_are_not_passed_over():
    class Doubled(ArrayDataset):
        def __getitem__(self, index):
            return super().__getitem__(index) * 2

    class Shifted(Subset):
        def __getitem__(self, index):
            return super().__getitem__(index) + 1

    class Fast(Doubled):
        def get_batch(self, indices):
            return self.arrays[0][indices] * 2

    indices = np.array([2, 0])
    assert batch_reader(Doubled(np.arange(4))) is None
    assert batch_reader(Subset(Doubled(np.arange(4)), [1])) is None
    assert batch_reader(Shifted(ArrayDataset(np.arange(4)), [1])) is None
    assert batch_reader([1, 2]) is None
    assert batch_reader(Fast(np.arange(4)))(indices).tolist() == [4, 0]
    assert batch_reader(Subset(Fast(np.arange(4)), [3, 1, 2]))(indices).tolist() == [4, 6]


def test_random_split_parts_cover_the_dataset_and_depend_on_the_seed():
    data = ArrayDataset(np.arange(11))
    parts = random_split(data, [0.5, 0.3, 0.2], seed=3)
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(int(part[i]) for part in parts for i in range(len(part))) == list(range(11))
    again = random_split(data, [0.5, 0.3, 0.2], seed=3)
    assert [part.indices.tolist() for part in again] == [part.indices.tolist() for part in parts]
    assert (
        random_split(data, [6, 5], seed=4)[0].indices.tolist() != random_split(data, [6, 5], seed=3)[0].indices.tolist()
    )
    assert [len(part) for part in random_split(data, [11, 0])] == [11, 0]


@pytest.mark.parametrize("lengths", [[5, 5], [12, -1], [0.5, 0.4], []])
def test_random_split_refuses(lengths):
    with pytest.raises(ValueError, match="add up"):
        random_split(ArrayDataset(np.arange(11)), lengths)


def test_split_dataset():
    data = ArrayDataset(np.arange(10))
    left, right = split_dataset(data)
    assert left.indices.tolist() == list(range(8))
    assert right.indices.tolist() == [8, 9]
    left, right = split_dataset(data, 4, shuffle=True, seed=1)
    assert len(left) == 6
    assert sorted([*left.indices.tolist(), *right.indices.tolist()]) == list(range(10))
    assert right.indices.tolist() == split_dataset(data, 4, shuffle=True, seed=1)[1].indices.tolist()
    assert [len(part) for part in split_dataset(data, 1.0)] == [0, 10]
    for wrong in (11, -1, 1.5, -0.1):
        with pytest.raises(ValueError, match="right_size"):
            split_dataset(data, wrong)
    with pytest.raises(TypeError, match="Stream"):
        split_dataset(Stream())
