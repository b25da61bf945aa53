"""DataLoader in this process: batches, order, transforms, arguments."""

from __future__ import annotations

import random
import sys
import traceback

import numpy as np
import pytest

from netcl.data import ArrayDataset, BatchSampler, DataLoader, IterableDataset, RandomSampler, Subset
from netcl.data.augment import cutout, mixup
from netcl.data.filters import horizontal_flip, normalize, random_crop, to_float

X = np.random.default_rng(0).random((23, 3, 8, 8), np.float32)
Y = np.arange(23)


class Listed:
    """A dataset of single samples over the same arrays: the slow path."""

    def __init__(self, *arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, index):
        return tuple(array[index] for array in self.arrays)


def test_batches_in_order():
    batches = list(DataLoader(ArrayDataset(X, Y), 5))
    assert [x.shape for x, _ in batches] == [(5, 3, 8, 8)] * 4 + [(3, 3, 8, 8)]
    assert (np.concatenate([x for x, _ in batches]) == X).all()
    assert np.concatenate([y for _, y in batches]).tolist() == Y.tolist()
    assert batches[0][0].dtype == np.float32
    assert batches[0][1].dtype == Y.dtype


@pytest.mark.parametrize(("drop_last", "count"), [(False, 5), (True, 4)])
def test_length_and_drop_last(drop_last, count):
    loader = DataLoader((X, Y), 5, drop_last=drop_last)
    assert len(loader) == len(list(loader)) == count


def test_arrays_in_place_of_a_dataset():
    assert next(iter(DataLoader(X, 4))).shape == (4, 3, 8, 8)
    assert isinstance(DataLoader((X, Y)).dataset, ArrayDataset)
    assert [batch.tolist() for batch in DataLoader([5, 6, 7], 2)] == [[5, 6], [7]]
    with pytest.raises(ValueError, match="one length"):
        DataLoader((X, Y[:-1]))


def test_shuffle_is_a_new_permutation_each_epoch_by_seed():
    def orders(seed):
        loader = DataLoader(Y, 5, shuffle=True, seed=seed)
        return [np.concatenate(list(loader)).tolist() for _ in range(3)]

    first = orders(1)
    assert all(sorted(order) == Y.tolist() for order in first)
    assert first[0] != first[1] != first[2]
    assert orders(1) == first != orders(2)
    assert orders(None) != orders(None)


def test_epoch_and_set_epoch():
    loader = DataLoader(Y, 5, shuffle=True, seed=1)
    epochs = [np.concatenate(list(loader)).tolist() for _ in range(3)]
    assert loader.epoch == loader.sampler.epoch == 3
    loader.set_epoch(1)
    assert np.concatenate(list(loader)).tolist() == epochs[1]
    loader.sampler.set_epoch(0)  # as PyTorch's users do
    assert np.concatenate(list(loader)).tolist() == epochs[0]
    next(iter(loader))
    assert loader.epoch == 2  # an abandoned epoch counts


def test_fast_and_slow_path_agree(assert_equal):
    steps = [to_float, random_crop(2, 8), horizontal_flip(), normalize([0.1, 0.2, 0.3], [1, 2, 3])]
    augment = [cutout(3), mixup(0.4, 23)]
    images = (X * 255).astype(np.uint8)
    for dataset in (Listed(images, Y), Subset(ArrayDataset(images, Y), range(23))):
        fast, slow = (
            [
                batch
                for loader in [DataLoader(data, 6, shuffle=True, seed=4, transforms=steps, augment=augment)]
                for _ in range(2)
                for batch in loader
            ]
            for data in (ArrayDataset(images, Y), dataset)
        )
        assert_equal(fast, slow)


def test_augmentation_of_a_sample_does_not_depend_on_the_batch_size():
    def images(batch_size, shuffle):
        loader = DataLoader((X, Y), batch_size, shuffle=shuffle, seed=4, augment=[random_crop(2, 8), cutout(3)])
        batches = list(loader)
        order = np.argsort(np.concatenate([y for _, y in batches]))
        return np.concatenate([x for x, _ in batches])[order]

    first = images(5, False)
    assert (images(7, True) == first).all()
    assert (first != X).any()


def test_plain_transforms_see_the_input_of_a_sample():
    loader = DataLoader((X, Y), 4, transforms=[to_float, lambda image: image.mean()])
    x, y = next(iter(loader))
    assert np.allclose(x, X[:4].mean(axis=(1, 2, 3)))
    assert y.tolist() == [0, 1, 2, 3]
    assert next(iter(DataLoader(Y, 4, transforms=lambda label: label * 2))).tolist() == [0, 2, 4, 6]


def test_collate_fn_and_plain_augment():
    loader = DataLoader(
        (X, Y),
        4,
        seed=1,
        collate_fn=lambda samples: [label for _, label in samples],
        augment=lambda b, rng: (b, len(rng)),
    )
    labels, count = next(iter(loader))
    assert [int(label) for label in labels] == [0, 1, 2, 3]
    assert count == 4


def test_global_random_numbers_are_by_sample_and_leave_no_trace():
    class Noisy(Listed):
        def __getitem__(self, index):
            return index, random.random(), np.random.rand()

    def values(batch_size, shuffle):
        batches = list(DataLoader(Noisy(Y), batch_size, shuffle=shuffle, seed=9))
        table = np.stack([np.concatenate(column) for column in zip(*batches)], 1)
        return table[np.argsort(table[:, 0])]

    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.rand()
    random.seed(5)
    np.random.seed(5)
    first = values(5, False)
    assert (random.random(), np.random.rand()) == expected
    assert (values(8, True) == first).all()
    assert len(set(first[:, 1])) == len(set(first[:, 2])) == 23


def test_samplers_of_others():
    class Reversed:
        epochs = []

        def set_epoch(self, epoch):
            self.epochs.append(epoch)

        def __iter__(self):
            return iter(range(4, -1, -1))

        def __len__(self):
            return 5

    loader = DataLoader(Y, 2, sampler=Reversed())
    assert [batch.tolist() for batch in loader] == [[4, 3], [2, 1], [0]]
    assert len(loader) == 3
    list(loader)
    assert Reversed.epochs == [0, 1]
    assert [batch.tolist() for batch in DataLoader(Y, batch_sampler=[[1, 2], [5]])] == [[1, 2], [5]]
    own = DataLoader(Y, batch_sampler=BatchSampler(RandomSampler(Y, seed=3), 4, drop_last=True))
    assert len(own) == len(list(own)) == 5
    assert own.batch_size == 4
    named = DataLoader({"a": 1, "b": 2}, 2, sampler=["b", "a"])
    assert [batch.tolist() for batch in named] == [[2, 1]]


def test_negative_and_outside_sample_numbers():
    assert [batch.tolist() for batch in DataLoader(Y, 2, sampler=[-1, 0])] == [[22, 0]]
    with pytest.raises(IndexError, match="23"):
        list(DataLoader(Y, 2, sampler=[23]))


class Stream(IterableDataset):
    def __init__(self, n=7):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def test_streams():
    loader = DataLoader(Stream(), 3)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [batch.tolist() for batch in DataLoader(Stream(), 3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(DataLoader(Stream(0), 3)) == []
    with pytest.raises(TypeError, match="without length"):
        len(loader)

    class Sized(Stream):
        def __len__(self):
            return self.n

    assert [len(DataLoader(Sized(), 3, drop_last=drop)) for drop in (False, True)] == [3, 2]


def test_an_empty_dataset_has_no_batches():
    for shuffle in (False, True):
        loader = DataLoader(np.zeros((0, 2)), 4, shuffle=shuffle)
        assert len(loader) == 0
        assert list(loader) == []


def test_an_error_names_the_sample_and_does_not_end_the_epoch():
    class Broken(Listed):
        def __getitem__(self, index):
            if index == 7:
                raise KeyError("broken")
            return super().__getitem__(index)

    loader = DataLoader(Broken(Y), 3)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(KeyError, match="broken") as caught:
        next(iterator)
    if sys.version_info >= (3, 11):
        assert "sample 7" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(StopIteration):
        next(iterator)
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"batch_size": 0}, ValueError, "batch_size.*0"),
        ({"batch_size": True}, ValueError, "batch_size.*True"),
        ({"batch_size": 2.0}, ValueError, "batch_size.*2.0"),
        ({"num_workers": -1}, ValueError, "num_workers.*-1"),
        ({"prefetch": 0}, ValueError, "prefetch.*0"),
        ({"timeout": -1}, ValueError, "timeout.*-1"),
        ({"seed": -1}, ValueError, "seed.*-1"),
        ({"sampler": [0], "shuffle": True}, ValueError, "exclude"),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError, "excludes"),
        ({"batch_sampler": [[0]], "batch_size": 4}, ValueError, "excludes"),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "excludes"),
        ({"dataset": 5}, TypeError, "int"),
        ({"dataset": Stream(), "shuffle": True}, ValueError, "order of its own"),
        ({"dataset": Stream(), "sampler": [0]}, ValueError, "order of its own"),
        ({"dataset": Stream(), "batch_sampler": [[0]]}, ValueError, "order of its own"),
        ({"transforms": [3]}, TypeError, "transforms.*3"),
        ({"augment": ["x"]}, TypeError, "augment.*'x'"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        DataLoader(**{"dataset": Y, **arguments})


def test_pin_memory_without_a_device_warns():
    with pytest.warns(UserWarning, match="device_queue"):
        DataLoader(Y, pin_memory=True)


@pytest.mark.parametrize(
    ("data", "step", "words"),
    [
        ([{"x": 1.0}], {"augment": cutout()}, "dict"),
        ([{"x": 1.0}], {"transforms": cutout()}, "dict"),
        (X, {"augment": mixup(0.2)}, "first two fields.*ndarray"),
    ],
)
def test_augmentations_say_what_they_act_on(data, step, words):
    with pytest.raises(TypeError, match=words):
        list(DataLoader(data, 2, **step))


def test_a_batch_of_gray_images_without_channels_is_not_one_image():
    with pytest.raises(ValueError, match=r"\(N, C, H, W\), got shape \(4, 8, 8\)"):
        next(iter(DataLoader(X[:, 0], 4, augment=horizontal_flip())))


def test_close_and_with_are_harmless_without_workers():
    with DataLoader(Y, 5) as loader:
        assert len(list(loader)) == 5
    loader.close()
    assert len(list(loader)) == 5


def test_a_loader_shows_its_settings():
    loader = DataLoader((np.zeros((10, 3)), np.zeros(10)), 4, shuffle=True, seed=5, augment=[horizontal_flip(0.25)])
    expected = "ArrayDataset of 10 samples, batches=3, batch_size=4, shuffle=True, num_workers=0, seed=5"
    assert repr(loader) == f"DataLoader({expected}, augment=[horizontal_flip(0.25)])"
    assert "<th>batch_size</th><td>4</td>" in loader._repr_html_()
