"""Random numbers by (seed, epoch, sample)."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.data import DataLoader, RandomSampler, SampleRandom, WeightedRandomSampler, random_split
from netcl.data.sample_random import check_seed, preserved_globals, sample_keys, seed_globals


def test_a_sample_draws_the_same_alone_and_in_any_batch():
    whole = SampleRandom(7, 2, np.arange(10))
    first, second = whole.random(), whole.random((10, 2, 3))
    for indices in ([4], [9, 4, 0], np.array([4, 4])):
        part = SampleRandom(7, 2, indices)
        assert (part.random() == first[np.array(indices)]).all()
        assert (part.random((len(indices), 2, 3)) == second[np.array(indices)]).all()


def test_the_stream_is_fixed_for_good():
    # Written down once: a change would change every run that is resumed.
    assert sample_keys(0, 0, [0, 1]).tolist() == [17082178867596717304, 6752573004810752849]
    assert SampleRandom(1, 2, [3]).random((1, 2)).tolist() == [[0.5135961805131152, 0.23445592506948665]]


def test_seed_epoch_index_and_stream_all_matter():
    keys = [int(sample_keys(s, e, [i])[0]) for s in range(4) for e in range(4) for i in range(-2, 4)]
    assert len(set(keys)) == len(keys)
    assert sample_keys(2**70, 0, [0]).dtype == np.uint64
    assert SampleRandom(0, 0, [1]).random() != SampleRandom(0, 0, [1], stream=1).random()


def test_uniform_numbers_are_uniform():
    numbers = SampleRandom(3, 0, np.arange(4000)).random((4000, 5))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 60  # chi-square, 19 degrees of freedom
    assert abs(np.corrcoef(numbers.T) - np.eye(5)).max() < 0.06
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.06


def test_names_are_keys_too():
    assert SampleRandom(0, 0, ["a", "b"]).random()[1] == SampleRandom(0, 0, ["b"]).random()[0]


def test_sizes():
    empty = SampleRandom(0, 0, [])
    assert empty.random((0, 3)).shape == (0, 3)
    assert 0 < empty.beta(1.0, 1.0) < 1
    with pytest.raises(ValueError, match="number of samples, 2"):
        SampleRandom(0, 0, [1, 2]).random(3)
    assert len(SampleRandom(0, 0, [1, 2])) == 2


def test_beta_depends_on_the_set_of_samples_and_goes_on():
    one, other = SampleRandom(0, 0, [1, 2, 3]), SampleRandom(0, 0, [3, 1, 2])
    drawn = one.beta(0.5, 0.5)
    assert drawn == other.beta(0.5, 0.5)
    assert drawn != one.beta(0.5, 0.5)
    assert SampleRandom(0, 0, [1, 2]).beta(0.5, 0.5) != drawn


def test_check_seed(monkeypatch):
    monkeypatch.delitem(sys.modules, "netcl.core.config", raising=False)
    assert check_seed(5) == check_seed(np.int64(5)) == 5
    assert check_seed(None) != check_seed(None)
    for wrong in (-1, 1.0, True, "1"):
        with pytest.raises(ValueError, match="seed"):
            check_seed(wrong)
    monkeypatch.delitem(sys.modules, "netcl.core.tensor.generator", raising=False)
    monkeypatch.setitem(sys.modules, "netcl.core.config", SimpleNamespace(get={"SEED": 41}.get))
    assert check_seed(None) == 41
    assert check_seed(5) == 5


def test_the_seed_of_the_process_decides_orders(monkeypatch):
    generator = pytest.importorskip("netcl.core.tensor.generator", reason="netcl-core, to draw from, is not installed")
    monkeypatch.delenv("NETCL_SEED", raising=False)

    def orders():
        generator.default_generator.manual_seed(6)
        loader = DataLoader(list(range(50)), shuffle=True, batch_size=50)
        weighted = WeightedRandomSampler(np.ones(9), 9)
        return [
            *(list(RandomSampler(range(9))), list(RandomSampler(range(9))), list(weighted)),
            *(random_split(range(20), [10, 10])[0].indices.tolist(), np.asarray(next(iter(loader))).tolist()),
        ]

    first, second, *_ = orders()
    assert first != second
    assert orders() == orders()


def test_a_generator_decides_orders():
    module = pytest.importorskip("netcl.core.tensor.generator", reason="netcl-core, to draw from, is not installed")

    def parts(generator):
        return random_split(range(20), [10, 10], generator=generator)[0].indices.tolist()

    generator = module.Generator().manual_seed(2)
    first = parts(generator)
    assert parts(generator) != first
    assert parts(generator.manual_seed(2)) == first
    for make in (lambda **options: RandomSampler(range(9), **options), lambda **o: DataLoader([1, 2], **o)):
        assert make(generator=generator.manual_seed(3)).seed == make(generator=generator.manual_seed(3)).seed
        with pytest.raises(ValueError, match="not both"):
            make(generator=generator, seed=1)
        with pytest.raises(TypeError, match=r"a netcl\.Generator, got numpy.*or seed=seed"):
            make(generator=np.random.default_rng(0))


def test_global_states_are_seeded_and_given_back():
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1)
    np.random.seed(1)
    drawn = []
    with preserved_globals():
        for _ in range(2):
            seed_globals(2**60 + 5)
            drawn.append((random.random(), np.random.rand()))
    assert drawn[0] == drawn[1]
    assert (random.random(), np.random.rand()) == expected
