"""torch.utils.data.DataLoader under netcl.torch: arguments, workers, their batches, streams and failures."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import netcl.torch as torch
from netcl.data import DataLoaderWorkerError
from netcl.torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, get_worker_info


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module("loader_cases")


def lists(loader: Any) -> Any:
    return [batch.tolist() for batch in loader]


# -- arguments and attributes


def test_attributes_are_pytorchs(cases):
    loader = DataLoader(cases.Rows(5), 2, pin_memory_device="cuda", collate_fn=list)
    assert (loader.batch_size, loader.drop_last, loader.num_workers, loader.prefetch_factor) == (2, False, 0, None)
    assert (loader.pin_memory_device, loader.in_order, loader.timeout, loader.generator) == ("cuda", True, 0, None)
    assert isinstance(loader.sampler, SequentialSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert loader.collate_fn is list
    assert len(loader) == len(iter(loader)) == 3
    assert len(DataLoader(cases.Rows(5), None)) == 5
    loader = DataLoader(cases.Rows(5), num_workers=2, multiprocessing_context="spawn")
    assert loader.prefetch_factor == 2
    assert loader.multiprocessing_context.get_start_method() == "spawn"


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_some_attributes_are_fixed(name, cases):
    loader = DataLoader(cases.Rows(5))
    with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
        setattr(loader, name, getattr(loader, name))
    loader.num_workers = 0
    loader.collate_fn = list


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_workers": -1}, ValueError, "num_workers"),
    ({"timeout": -1}, ValueError, "timeout"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor"),
    ({"prefetch_factor": 0, "num_workers": 1}, ValueError, "prefetch_factor"),
    ({"persistent_workers": True}, ValueError, "persistent_workers"),
    ({"sampler": [0], "shuffle": True}, ValueError, "sampler"),
    ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "batch_sampler"),
    ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "batch_sampler"),
    ({"batch_size": None, "drop_last": True}, ValueError, "drop_last"),
    ({"batch_size": 0}, ValueError, "batch_size"),
    ({"multiprocessing_context": "spawn"}, ValueError, "multiprocessing_context"),
    ({"multiprocessing_context": "no", "num_workers": 1}, ValueError, "start_method"),
    ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "multiprocessing_context"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_arguments(arguments, error, text, cases):
    with pytest.raises(error, match=text):
        DataLoader(cases.Rows(3), **arguments)


@pytest.mark.parametrize("arguments", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}], ids=str)
def test_streams_have_an_order_of_their_own(arguments, cases):
    with pytest.raises(ValueError, match="order of its own"):
        DataLoader(cases.Parts([1]), **arguments)
    assert lists(DataLoader(cases.Parts([1]), shuffle=False)) == [[0]]


def test_a_timeout_is_for_workers(cases):
    with pytest.raises(ValueError, match="timeout"):
        iter(DataLoader(cases.Rows(1), timeout=1))


def test_samplers_give_any_keys():
    rows = {"a": 1, "b": 2, "c": 3}
    assert lists(DataLoader(rows, 2, sampler=["c", "a", "b"])) == [[3, 1], [2]]
    assert lists(DataLoader(rows, 2, sampler=["c", "a", "b"], drop_last=True)) == [[3, 1]]
    assert lists(DataLoader(rows, batch_sampler=[["a"], ["b", "c"]])) == [[1], [2, 3]]
    assert list(DataLoader(rows, None, sampler=["b"])) == [2]


def test_two_passes_run_at_the_same_time(cases):
    loader = DataLoader(cases.Rows(3))
    assert [(int(x), int(y)) for x, y in zip(loader, loader)] == [(0, 0), (1, 1), (2, 2)]


def test_an_iterable_that_yields_more_than_its_length_warns(cases):
    loader = DataLoader(cases.Parts([4]), None)
    assert list(loader) == [0, 1, 2, 3]
    assert len(loader) == 2
    with pytest.warns(
        UserWarning, match=r"len\(\) of the iterable data set Parts is 2, but this is batch [34]"
    ) as caught:
        assert list(loader) == [0, 1, 2, 3]
    assert [warning.filename for warning in caught] == [__file__] * 2


# -- batches of workers


def test_bfloat16_and_containers_keep_their_types(cases):
    (brain,) = DataLoader(cases.Brain(), 3, num_workers=1)
    assert brain.dtype == torch.bfloat16
    assert brain.tolist() == [[0.0, 1.0], [2.5, 3.0], [4.0, 5.0]]
    (batch,) = DataLoader(cases.Rows(2), 2, num_workers=1, collate_fn=cases.containers)
    plain, listed, pair, ordered, kept, record, parameter = batch
    assert [type(one) for one in batch] == [
        *(torch.Tensor, list, cases.Pair, OrderedDict, cases.Kept, cases.Record, torch.nn.Parameter)
    ]
    assert (type(batch), type(ordered["b"])) == (tuple, tuple)
    assert kept.origin == "object"
    for x in (plain, listed[0], pair.first, ordered["a"], ordered["b"][0], kept["x"], record.x):
        assert (x.tolist(), x.dtype) == ([0, 1], torch.int64)
    assert parameter.requires_grad


def test_workers_have_numbers_seeds_and_the_numpy_engine(cases):
    def drawn():
        torch.manual_seed(5)
        return [[x.tolist() for x in batch] for batch in DataLoader(cases.Numbers(), 2, num_workers=2)]

    batches = drawn()
    assert [batch[0] for batch in batches] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [set(batch[1]) for batch in batches] == [{0}, {1}, {0}, {1}]
    first, second = batches[0][2][0], batches[1][2][0]
    assert second == first + 1
    assert all(len({one for batch in batches for one in batch[column]}) == 7 for column in (3, 4, 5))
    assert drawn() == batches
    assert get_worker_info() is None
    assert list(DataLoader(cases.Devices(), None, num_workers=1)) == [["cpu", "cpu"]]


def test_worker_init_fn_sees_its_copy_of_the_data_set(cases):
    loader = DataLoader(cases.Rows(2), None, num_workers=2, worker_init_fn=cases.noted_start, sampler=range(2))
    assert list(loader) == [0, 1]
    assert loader.dataset.count == 2


@pytest.mark.parametrize("lengths", [[5, 1], [0, 5], [3, 3]], ids=str)
def test_each_worker_reads_its_own_copy_of_a_stream_in_turn(lengths, cases):
    a, b = ([100 * at + n for n in range(length)] for at, length in enumerate(lengths))
    expected = {
        "[5, 1]": [[0, 1], [100], [2, 3], [4]],
        "[0, 5]": [[100, 101], [102, 103], [104]],
        "[3, 3]": [[0, 1], [100, 101], [2], [102]],
    }[str(lengths)]
    loader = DataLoader(cases.Parts(lengths), 2, num_workers=2, persistent_workers=True)
    try:
        assert lists(loader) == expected
        assert lists(loader) == expected
        assert sorted(x for batch in expected for x in batch) == a + b
    finally:
        loader._iterator._pool.close()


def test_short_batches_and_samples_of_streams(cases):
    loader = DataLoader(cases.Parts([3, 2]), 2, drop_last=True, num_workers=2)
    assert lists(loader) == [[0, 1], [100, 101]]
    loader = DataLoader(cases.Parts([2, 1]), None, num_workers=2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="get_worker_info"):
        assert list(loader) == [0, 100, 1]


def test_batches_come_as_they_arrive_without_in_order(cases):
    found = list(DataLoader(cases.Slow(4), None, num_workers=2, in_order=False))
    assert sorted(found) == [0, 1, 2, 3]
    assert found[0] != 0
    assert list(DataLoader(cases.Rows(4), None, num_workers=2)) == [0, 1, 2, 3]


def test_persistent_workers_stay_and_others_end(cases):
    loader = DataLoader(cases.Rows(4), 2, num_workers=1, persistent_workers=True)
    assert iter(loader) is iter(loader)
    (first,) = multiprocessing.active_children()
    assert lists(loader) == lists(loader) == [[0, 1], [2, 3]]
    assert multiprocessing.active_children() == [first]
    del loader, first
    gc.collect()
    assert multiprocessing.active_children() == []
    for _ in DataLoader(cases.Rows(4), num_workers=1):
        break
    gc.collect()
    assert multiprocessing.active_children() == []


def test_a_data_set_that_cannot_be_sent_is_read_here():
    class Local(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.warns(UserWarning, match="this process makes the batches, as workers cannot get") as caught:
        assert lists(DataLoader(Local(), 2, num_workers=2)) == [[0, 1], [2]]
    assert caught[0].filename == __file__


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system: fork")
def test_fork_is_honoured_or_refused(cases):
    code = (
        "import sys, warnings; sys.path.insert(0, sys.argv[1]); import netcl.torch\n"
        "from netcl.torch.utils.data import DataLoader; import loader_cases\n"
        "warnings.simplefilter('ignore', DeprecationWarning)  # of a fork of a process with threads\n"
        "make = lambda: DataLoader(loader_cases.Brain(), 2, num_workers=1, multiprocessing_context='fork')\n"
        "print([x.tolist() for x in make()])\n"
        "sys.modules['pyopencl'] = None\n"
        "try:\n    make()\nexcept ValueError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "NETCL_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True, text=True, timeout=100, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[[[0.0, 1.0], [2.5, 3.0]], [[4.0, 5.0]]]\nstart_method='fork' after pyopencl")


# -- failures


@pytest.mark.parametrize("kind", ["key", "value", "own"])
def test_the_exception_of_a_worker_has_its_type_and_its_traceback(kind, cases):
    name, expected = {"key": ("KeyError", KeyError), "value": ("ValueError", ValueError), "own": ("Own", RuntimeError)}[
        kind
    ]
    iterator = iter(DataLoader(cases.Fault(kind), None, num_workers=2))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(expected) as caught:
        next(iterator)
    lines = str(caught.value).splitlines()
    assert lines[:2] == [
        f"Caught {name} in DataLoader worker process 0.",
        "Original Traceback (most recent call last):",
    ]
    assert "loader_cases.py" in lines[2]
    assert "broken" in lines[-1]
    assert next(iterator) == 3


def test_a_worker_init_fn_that_raises(cases):
    iterator = iter(DataLoader(cases.Rows(4), None, num_workers=2, worker_init_fn=cases.failing_start))
    assert next(iterator) == 0
    with pytest.raises(RuntimeError, match=r"Caught RuntimeError in DataLoader worker process 1\.(.|\n)*no start"):
        next(iterator)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system: signals")
def test_a_killed_worker_says_so(cases):
    gc.collect()  # the workers of iterations that tests before have left
    with pytest.raises(DataLoaderWorkerError, match="died, exit code -9"):
        list(DataLoader(cases.Fault("kill"), None, num_workers=2))
    assert multiprocessing.active_children() == []


@pytest.mark.timing
def test_a_timeout_ends_the_wait(cases):
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"gave no batch within timeout=0\.5 s"):
        list(DataLoader(cases.Fault("hang"), None, num_workers=1, timeout=0.5))
    assert time.monotonic() - started < 30


def test_arrays_of_a_batch_stay_arrays(cases):
    (batch,) = DataLoader(cases.Rows(2), 2, num_workers=1, collate_fn=np.array)
    assert isinstance(batch, np.ndarray)
