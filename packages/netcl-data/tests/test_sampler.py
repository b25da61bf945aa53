"""Orders of samplers, and their positions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from netcl.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

DATA = range(17)
WEIGHTS = np.linspace(0, 1, 17)
MAKERS = {
    "sequential": lambda seed: SequentialSampler(DATA),
    "random": lambda seed: RandomSampler(DATA, seed=seed),
    "replacement": lambda seed: RandomSampler(DATA, replacement=True, num_samples=40, seed=seed),
    "several permutations": lambda seed: RandomSampler(DATA, num_samples=40, seed=seed),
    "weighted": lambda seed: WeightedRandomSampler(WEIGHTS, 20, seed=seed),
    "subset": lambda seed: SubsetRandomSampler(list(range(5, 15)), seed=seed),
    "distributed": lambda seed: DistributedSampler(DATA, 3, 1, seed=seed),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def make(request):
    return request.param


def test_epochs_differ_and_repeat_by_seed(make):
    sampler, other = make(5), make(5)
    epochs = [list(sampler) for _ in range(3)]
    assert [list(other) for _ in range(3)] == epochs
    assert all(len(epoch) == len(sampler) for epoch in epochs)
    assert all(type(index) is int for index in epochs[0])
    if not isinstance(sampler, SequentialSampler):
        assert epochs[0] != epochs[1] != epochs[2]
        assert list(make(6)) != epochs[0]
    sampler.set_epoch(1)
    assert sampler.epoch == 1
    assert list(sampler) == epochs[1]
    assert sampler.epoch == 2


@pytest.mark.parametrize("given", [0, 1, 4, 10])
def test_the_rest_of_an_epoch_comes_back(make, given):
    sampler = make(5)
    list(sampler)
    iterator = iter(sampler)
    given = min(given, len(sampler))
    for _ in range(given):
        next(iterator)
    state = json.loads(json.dumps(sampler.state_dict()))
    expected = [*iterator], list(sampler), list(sampler)
    resumed = make(99)
    resumed.load_state_dict(state)
    assert (list(resumed), list(resumed), list(resumed)) == expected


def test_an_abandoned_epoch_is_not_continued(make):
    sampler = make(5)
    next(iter(sampler))
    second = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) == second


def test_a_finished_epoch_resumes_with_the_next(make):
    sampler = make(5)
    list(sampler)
    state = sampler.state_dict()
    assert (state["epoch"], state["position"], state["check"]) == (1, 0, None)


def test_random_sampler_is_a_permutation():
    assert sorted(RandomSampler(DATA, seed=1)) == list(DATA)
    drawn = list(RandomSampler(DATA, num_samples=40, seed=1))
    assert sorted(drawn[:17]) == sorted(drawn[17:34]) == list(DATA)
    assert len(list(RandomSampler(DATA, num_samples=5, seed=1))) == 5
    assert list(RandomSampler([], seed=1)) == []


def test_weighted_sampler_follows_its_weights():
    drawn = np.array(list(WeightedRandomSampler([0, 1, 3], 4000, seed=0)))
    assert not (drawn == 0).any()
    assert abs((drawn == 2).mean() - 0.75) < 0.03
    assert sorted(WeightedRandomSampler([1, 0, 2], 2, replacement=False, seed=0)) == [0, 2]


def test_distributed_shares_cover_all_samples():
    for drop_last, length in ((False, 6), (True, 5)):
        shares = [list(DistributedSampler(DATA, 3, rank, drop_last=drop_last)) for rank in range(3)]
        assert [len(share) for share in shares] == [length] * 3
        together = [index for share in shares for index in share]
        assert len(set(together)) == (17 if not drop_last else 15)
    assert list(DistributedSampler(DATA, 2, 1, shuffle=False)) == [1, 3, 5, 7, 9, 11, 13, 15, 0]
    assert list(DistributedSampler(range(2), 5, 4, shuffle=False)) == [0]
    assert list(DistributedSampler([], 2, 0)) == []


@pytest.mark.parametrize(
    ("make_wrong", "words"),
    [
        (lambda: RandomSampler(DATA, seed=-1), "seed.*-1"),
        (lambda: RandomSampler(DATA, seed=1.5), "seed.*1.5"),
        (lambda: RandomSampler(DATA, num_samples=-1), "num_samples.*-1"),
        (lambda: RandomSampler([], num_samples=3), "empty"),
        (lambda: WeightedRandomSampler([1, -1], 1), "negative"),
        (lambda: WeightedRandomSampler([0, 0], 1), "all zero"),
        (lambda: WeightedRandomSampler([1, np.nan], 1), "finite"),
        (lambda: WeightedRandomSampler([[1]], 1), r"\(1, 1\)"),
        (lambda: WeightedRandomSampler([1, 0], 2, replacement=False), "1 weights above zero"),
        (lambda: SubsetRandomSampler([[1]]), r"\(1, 1\)"),
        (lambda: DistributedSampler(DATA, 2, 2), "rank=2"),
        (lambda: BatchSampler(DATA, 0), "batch_size.*0"),
        (lambda: SequentialSampler(DATA).set_epoch(-1), "epoch.*-1"),
    ],
)
def test_wrong_arguments(make_wrong, words):
    with pytest.raises(ValueError, match=words):
        make_wrong()


def test_distributed_sampler_needs_a_rank(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "netcl.core.config", raising=False)
    with pytest.raises(ValueError, match="num_replicas="):
        DistributedSampler(DATA)


def test_states_that_do_not_fit():
    sampler = RandomSampler(DATA, seed=1)
    with pytest.raises(ValueError, match="lacks"):
        sampler.load_state_dict({"seed": 1})
    with pytest.raises(ValueError, match="18 samples"):
        sampler.load_state_dict(RandomSampler(range(18), seed=1).state_dict())
    iterator = iter(sampler)
    next(iterator)
    other = WeightedRandomSampler(np.ones(17), 17)
    other.load_state_dict(sampler.state_dict())
    with pytest.raises(ValueError, match="cannot resume"):
        iter(other)


def test_batch_sampler_groups_and_resumes():
    assert list(BatchSampler(SequentialSampler(range(7)), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(BatchSampler(SequentialSampler(range(7)), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert list(BatchSampler("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert [len(BatchSampler(range(7), 3, drop_last)) for drop_last in (False, True)] == [3, 2]
    with pytest.raises(TypeError, match="no length"):
        len(BatchSampler((i for i in range(3)), 2))
    batches = BatchSampler(RandomSampler(DATA, seed=1), 4)
    iterator = iter(batches)
    next(iterator), next(iterator)
    resumed = RandomSampler(DATA)
    resumed.load_state_dict(batches.sampler.state_dict())
    assert list(BatchSampler(resumed, 4)) == list(iterator)


def test_an_iter_of_a_subclass_is_respected():
    class Backwards(SequentialSampler):
        def __iter__(self):
            return iter(range(len(self) - 1, -1, -1))

    assert list(BatchSampler(Backwards(range(3)), 2)) == [[2, 1], [0]]
