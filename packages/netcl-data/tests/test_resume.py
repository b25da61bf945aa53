"""Exact resume: the rest of the batches of an unbroken run, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from netcl.data import BatchSampler, DataLoader, RandomSampler, WeightedRandomSampler
from netcl.data.augment import color_jitter, cutout
from netcl.data.filters import random_crop

X = np.random.default_rng(0).random((67, 3, 8, 8), np.float32)
Y = np.arange(67)


class Foreign:
    """A sampler of someone else, with a generator of its own that goes on from epoch to epoch."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return 67

    def __iter__(self):
        return iter(self.rng.permutation(67).tolist())

    def state_dict(self):
        return self.rng.bit_generator.state

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state


def shuffled(seed, **more):
    return DataLoader(
        (X, Y), 5, shuffle=True, seed=seed, augment=[random_crop(1, 8), color_jitter(), cutout(3)], **more
    )


MAKERS = {
    "arrays": lambda cases, seed: shuffled(seed),
    "drop_last": lambda cases, seed: shuffled(seed, drop_last=True),
    "samples": lambda cases, seed: DataLoader(cases.Noisy(67), 5, shuffle=True, seed=seed, transforms=cases.add_noise),
    "weighted": lambda cases, seed: DataLoader((X, Y), 5, sampler=WeightedRandomSampler(Y, 61, seed=seed), seed=seed),
    "batch sampler": lambda cases, seed: DataLoader(
        (X, Y), batch_sampler=BatchSampler(RandomSampler(Y, seed=seed), 5), seed=seed
    ),
    "foreign sampler": lambda cases, seed: DataLoader((X, Y), 5, sampler=Foreign(seed), seed=seed),
    "foreign batch sampler": lambda cases, seed: DataLoader(
        (X, Y), batch_sampler=[[i, i + 1] for i in range(60)], seed=seed, augment=cutout(3)
    ),
    "stream": lambda cases, seed: DataLoader(cases.NoisyStream(67), 5, seed=seed, transforms=cases.add_noise),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("taken", [0, 1, 10, 12])
def test_ten_batches_then_the_rest(make, taken, cases, assert_equal):
    loader = make(cases, 3)
    list(loader)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["batch"]) == (1, taken)
    rest, following = list(iterator), list(loader)
    resumed = make(cases, 77)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert_equal(list(resumed), rest)
    assert_equal(list(resumed), following)
    assert resumed.seed == 3


def test_a_finished_epoch_resumes_with_the_next(cases, assert_equal):
    for make in MAKERS.values():
        loader = make(cases, 3)
        list(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (1, 0)
        resumed = make(cases, 4)
        resumed.load_state_dict(state)
        assert_equal(list(resumed), list(loader))


def test_the_state_within_the_last_batch_leaves_an_empty_rest():
    loader, resumed = shuffled(3), shuffled(4)
    states = [loader.state_dict() for _ in loader]
    resumed.load_state_dict(states[-1])
    assert list(resumed) == []
    assert resumed.epoch == 1


def test_resume_of_a_resume(assert_equal):
    batches = list(shuffled(3))
    state = shuffled(3).state_dict()
    for number, expected in enumerate(batches):
        loader = shuffled(50 + number)
        loader.load_state_dict(state)
        assert_equal(next(iter(loader)), expected)
        state = loader.state_dict()


def test_the_sampler_alone_keeps_the_position_too(assert_equal):
    loader = shuffled(3)
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
    assert loader.sampler.state_dict()["position"] == 20
    sampler = RandomSampler(Y, seed=9)
    sampler.load_state_dict(loader.sampler.state_dict())
    resumed = DataLoader((X, Y), 5, sampler=sampler, seed=3, augment=[random_crop(1, 8), color_jitter(), cutout(3)])
    assert_equal(list(resumed), list(iterator))


def test_loading_does_not_disturb_an_iteration_under_way(assert_equal):
    loader = shuffled(3)
    iterator = iter(loader)
    first = next(iterator)
    state = loader.state_dict()
    expected = list(shuffled(3))[1:]
    loader.load_state_dict(state)
    assert_equal(list(iterator), expected)
    assert_equal(first, next(iter(shuffled(3))))


def test_a_loop_that_names_its_epochs_keeps_the_loaded_position(cases, assert_equal):
    for make in MAKERS.values():
        loader, resumed = make(cases, 3), make(cases, 4)
        iterator = iter(loader)
        next(iterator)
        resumed.load_state_dict(loader.state_dict())
        expected = [list(iterator), list(loader)]
        found = []
        for epoch in range(2):
            resumed.set_epoch(epoch)
            found.append(list(resumed))
        assert_equal(found, expected)


def test_set_epoch_of_another_epoch_forgets_the_position(assert_equal):
    loader, resumed, whole = shuffled(3), shuffled(3), shuffled(3)
    next(iter(loader))
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(1)
    whole.set_epoch(1)
    assert_equal(list(resumed), list(whole))


def test_states_that_do_not_fit():
    loader = shuffled(3)
    next(iter(loader))
    state = loader.state_dict()
    for other, words in (
        (DataLoader((X, Y), 6, shuffle=True), "batch_size=5.*has 6"),
        (DataLoader((X[:60], Y[:60]), 5, shuffle=True), "67 samples.*has 60"),
    ):
        before = other.state_dict()
        with pytest.raises(ValueError, match=words):
            other.load_state_dict(state)
        assert other.state_dict() == before
    for wrong, words in (
        ({}, "lacks"),
        ({**state, "version": 2}, "version 2"),
        ({**state, "sampler": None}, "another kind of sampler"),
    ):
        with pytest.raises(ValueError, match=words):
            loader.load_state_dict(wrong)
    sequential = DataLoader((X, Y), 5)
    sequential.load_state_dict(state)
    with pytest.raises(ValueError, match="cannot resume inside epoch 0"):
        iter(sequential)
