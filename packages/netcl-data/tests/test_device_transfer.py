"""Batches as device tensors, one batch ahead, with a stand-in for netcl.core's Tensor."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.data import DataLoader
from netcl.data.device_transfer import configured

X = np.arange(24, dtype=np.float32).reshape(12, 2)


class FakeTensor:
    """Notes what was transferred."""

    made: list = []

    @staticmethod
    def from_host(queue, data, **options):
        FakeTensor.made.append((queue, data, options))
        return SimpleNamespace(data=data.copy())


@pytest.fixture(autouse=True)
def core(monkeypatch):
    FakeTensor.made = []
    monkeypatch.setitem(sys.modules, "netcl.core", SimpleNamespace(Tensor=FakeTensor))


def test_tensors_one_batch_ahead():
    loader = DataLoader((X, np.arange(12)), 5, device_queue="queue")
    iterator = iter(loader)
    assert FakeTensor.made == []
    seen = []
    for number in range(3):
        x, y = next(iterator)
        seen.append(x.data)
        assert len(FakeTensor.made) == 2 * min(number + 2, 3)
        assert loader.state_dict()["batch"] == number + 1  # what was handed over, not what is on its way
    assert next(iterator, None) is None
    assert (np.concatenate(seen) == X).all()
    assert y.data.tolist() == [10, 11]
    assert all(queue == "queue" and options == {"use_pinned": None} for queue, _, options in FakeTensor.made)


def test_pinned_and_what_is_no_number():
    samples = [(X[0], "name", 5)]
    ((x, names, number),) = DataLoader(samples, 1, device_queue="queue", pin_memory=True)
    assert names == ["name"]
    assert x.data.shape == (1, 2)
    assert number.data.tolist() == [5]
    assert all(options == {"use_pinned": True} for _, _, options in FakeTensor.made)
    (texts,) = DataLoader(np.array(["a", "b"]), 2, device_queue="queue")
    assert texts.tolist() == ["a", "b"]


def test_resume_of_tensors():
    loader = DataLoader(X, 2, shuffle=True, seed=1, device_queue="queue")
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    resumed = DataLoader(X, 2, shuffle=True, seed=2, device_queue="queue")
    resumed.load_state_dict(loader.state_dict())
    assert [batch.data.tolist() for batch in resumed] == [batch.data.tolist() for batch in iterator]


def test_an_error_comes_after_the_whole_batches_before_it():
    class Broken:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return X[index] if index < 5 else X[index]["broken"]

    iterator = iter(DataLoader(Broken(), 2, device_queue="queue"))
    assert [next(iterator).data.shape for _ in range(2)] == [(2, 2)] * 2
    with pytest.raises(IndexError):
        next(iterator)
    assert next(iterator, None) is None


def test_an_empty_dataset():
    assert list(DataLoader(X[:0], 2, device_queue="queue")) == []


def test_without_netcl_core(monkeypatch):
    monkeypatch.delitem(sys.modules, "netcl.core")
    with pytest.raises(ImportError, match=r"netcl-data\[device\]"):
        next(iter(DataLoader(X, 2, device_queue="queue")))


def test_configured(monkeypatch):
    monkeypatch.delitem(sys.modules, "netcl.core.config", raising=False)
    assert configured("SEED") is None
    monkeypatch.setitem(sys.modules, "netcl.core.config", SimpleNamespace(get={"RANK": 1, "WORLD_SIZE": 2}.get))
    assert configured("RANK") == 1
    from netcl.data import DistributedSampler

    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]
