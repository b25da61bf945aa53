"""DataLoader with worker processes: the same numbers as without, and nothing left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from netcl.data import DataLoader, workers
from netcl.data.augment import cutout
from netcl.data.filters import horizontal_flip, random_crop

pytestmark = pytest.mark.usefixtures("nothing_left")

X = np.random.default_rng(0).random((22, 3, 6, 6), np.float32)


def noisy(cases, dataset, num_workers, **more):
    return DataLoader(
        dataset,
        4,
        seed=3,
        num_workers=num_workers,
        transforms=[cases.add_noise, horizontal_flip()],
        augment=[cases.scale_batch, random_crop(1, 6), cutout(2)],
        **more,
    )


@pytest.mark.parametrize("num_workers", [1, 3])
def test_numbers_do_not_depend_on_the_workers(num_workers, cases, assert_equal):
    inline = noisy(cases, cases.Noisy(), 0, shuffle=True)
    expected = [list(inline), list(inline)]
    with noisy(cases, cases.Noisy(), num_workers, shuffle=True) as loader:
        assert_equal([list(loader), list(loader)], expected)


@pytest.mark.parametrize("more", [{"use_shared_mem": False}, {"start_method": "spawn"}, {"prefetch": 5}])
def test_nor_on_how_they_work(more, cases, assert_equal):
    expected = list(noisy(cases, cases.Noisy(), 0))
    with noisy(cases, cases.Noisy(), 2, **more) as loader:
        assert_equal(list(loader), expected)


@pytest.mark.parametrize("drop_last", [False, True])
def test_streams(drop_last, cases, assert_equal):
    inline = noisy(cases, cases.NoisyStream(), 0, drop_last=drop_last)
    expected = [list(inline), list(inline)]
    with noisy(cases, cases.NoisyStream(), 2, drop_last=drop_last) as loader:
        assert_equal([list(loader), list(loader)], expected)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (2, 0)


def test_arrays_and_batches_that_do_not_fit_a_slot(cases, assert_equal):
    with DataLoader((X, np.arange(22)), 4, shuffle=True, seed=1, num_workers=2) as loader:
        assert_equal(list(loader), list(DataLoader((X, np.arange(22)), 4, shuffle=True, seed=1)))
    with DataLoader(cases.Ragged(), 4, collate_fn=cases.pad, num_workers=2) as loader:
        assert_equal(list(loader), list(DataLoader(cases.Ragged(), 4, collate_fn=cases.pad)))
    growing = [[0], [1, 2], [3, 4, 5], *([[6, 7, 8, 9]] * 6), [2]]
    with DataLoader(X, batch_sampler=growing, num_workers=2, prefetch=1) as loader:
        assert_equal(list(loader), list(DataLoader(X, batch_sampler=growing)))


def test_batches_belong_to_the_user(cases):
    with DataLoader(X, 2, num_workers=1, prefetch=1) as loader:
        batches = list(loader)
        for batch in batches:
            batch += 1  # writable
        assert (np.concatenate(batches) == X + 1).all()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_resume_counts_the_batches_handed_over(num_workers, stream, cases, assert_equal):
    def make(workers_of_it):
        return noisy(cases, cases.NoisyStream(60) if stream else cases.Noisy(60), workers_of_it)

    with make(2) as loader, make(num_workers) as resumed:
        list(loader)
        iterator = iter(loader)
        for _ in range(10):
            next(iterator)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (1, 10)
        resumed.load_state_dict(state)
        assert_equal(list(resumed), list(iterator))
        assert_equal(next(iter(resumed)), next(iter(loader)))


def test_an_abandoned_epoch_and_an_overtaken_iteration(cases, assert_equal):
    inline = noisy(cases, cases.Noisy(), 0)
    next(iter(inline))
    with noisy(cases, cases.Noisy(), 2) as loader:
        old = iter(loader)
        next(old)
        assert_equal(list(loader), list(inline))
        with pytest.raises(RuntimeError, match="iterated anew"):
            next(old)


def test_info_and_init_function(cases):
    with DataLoader(cases.WhoAmI(), 1, num_workers=2, worker_init_fn=cases.leave_a_mark) as loader:
        first = list(loader)
        second = list(loader)
    ids = [int(batch[0][0]) for batch in first]
    assert set(ids) == {0, 1}
    assert all(int(batch[1][0]) == 2 and int(batch[2][0]) == 100 + int(batch[0][0]) for batch in first)
    processes = [{int(batch[3][0]) for batch in batches} for batches in (first, second)]
    assert processes[0] == processes[1]  # they stay
    assert os.getpid() not in processes[0]


def test_close_and_collection_end_the_workers(cases):
    loader = DataLoader(X, 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    assert len(multiprocessing.active_children()) == 2
    loader.close()
    loader.close()
    assert multiprocessing.active_children() == []
    with pytest.raises(RuntimeError, match="closed"):
        next(iterator)
    assert len(list(loader)) == 6  # starts new ones
    assert len(multiprocessing.active_children()) == 2
    del loader, iterator
    gc.collect()
    assert multiprocessing.active_children() == []


def test_what_cannot_be_sent_to_workers_is_refused(cases):
    loader = DataLoader(X, 2, num_workers=2, transforms=lambda image: image)
    with pytest.raises(TypeError, match="top of a module.*num_workers=0"):
        iter(loader)


def test_start_methods(cases, monkeypatch):
    with pytest.raises(ValueError, match="start_method.*'thread'"):
        iter(DataLoader(X, 2, num_workers=1, start_method="thread"))
    monkeypatch.setitem(sys.modules, "pyopencl", object())
    assert workers.choose_start_method(None) in ("forkserver", "spawn")
    if "fork" in multiprocessing.get_all_start_methods():
        with pytest.raises(ValueError, match="fork.*pyopencl"):
            iter(DataLoader(X, 2, num_workers=1, start_method="fork"))
        monkeypatch.delitem(sys.modules, "pyopencl")
        assert workers.choose_start_method("fork") == "fork"


def test_long_use_leaks_nothing(cases):
    descriptors = Path("/proc/self/fd")

    def open_descriptors():
        gc.collect()
        return len(list(descriptors.iterdir())) if descriptors.is_dir() else 0

    with DataLoader(X, 4, num_workers=1) as loader:
        list(loader)
        before = open_descriptors()
        for _ in range(20):
            list(loader)
        assert open_descriptors() <= before
    for _ in range(3):
        with DataLoader(X, 4, num_workers=1) as loader:
            list(loader)
    assert open_descriptors() <= before
