"""DataLoader against PyTorch's: one program prints the batches of many loaders under both, and the texts are equal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import collections
import random
import sys
import warnings

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler, ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler,
    SequentialSampler, Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler, get_worker_info,
)

Pair = collections.namedtuple("Pair", ("first", "second"))


class Rows(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, at):
        if at >= 100:
            raise {100: KeyError, 101: IndexError, 102: ZeroDivisionError}[at]("bad row")
        return at


class Drawn(Rows):
    def __getitem__(self, at):
        info = get_worker_info()
        seeds = (info.id, info.num_workers, info.seed == torch.initial_seed()) if info else ()
        return [at, random.random(), np.random.rand(), torch.rand(2).tolist(), torch.randperm(4).tolist(), seeds]


class Parts(IterableDataset):
    def __init__(self, lengths, said=None):
        self.lengths, self.said = lengths, said

    def __len__(self):
        if self.said is None:
            raise TypeError("no length")
        return self.said

    def __iter__(self):
        info = get_worker_info()
        at = 0 if info is None else info.id
        return iter(range(100 * at, 100 * at + self.lengths[at]))


class Whole(IterableDataset):
    def __iter__(self):
        return iter(range(5))


class Samples(Rows):
    def __getitem__(self, at):
        return {
            "i": at, "f": at / 4, "b": at > 1, "s": str(at), "p": Pair(at, np.float32(at)), "t": (at, [at, 0.5]),
            "o": collections.OrderedDict(z=at, a=np.arange(2)), "h": torch.full((2,), at, dtype=torch.bfloat16),
            "e": np.float64(at), "n": np.int16(at),
        }


def shown(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).rpartition('.')[2]}{value.tolist()}"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{key}={shown(one)}' for key, one in value.items())})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return repr(value)


def as_they_are(samples):
    return samples


def as_tuple(samples):
    return (torch.tensor(samples), Pair(torch.ones(1), {"a": samples}))


def loaders():
    seeded = lambda: torch.Generator().manual_seed(7)
    yield "plain", DataLoader(Rows(5), 2)
    yield "drop_last", DataLoader(Rows(5), 2, drop_last=True)
    yield "no batches", DataLoader(Rows(3), None)
    yield "shuffle", DataLoader(Rows(9), 4, shuffle=True)
    yield "generator", DataLoader(Rows(9), 4, shuffle=True, generator=seeded())
    yield "replacement", DataLoader(Rows(9), 4, sampler=RandomSampler(Rows(9), True, 11, seeded()))
    yield "subset", DataLoader(Rows(9), 4, sampler=SubsetRandomSampler([5, 3, 1, 8], seeded()))
    yield "weighted", DataLoader(Rows(3), 4, sampler=WeightedRandomSampler([1.0, 2.0, 3.0], 6, generator=seeded()))
    yield "batch_sampler", DataLoader(Rows(9), batch_sampler=BatchSampler(SequentialSampler(Rows(9)), 4, True))
    yield "lists of keys", DataLoader(Rows(9), batch_sampler=[[3], [1, 2], (4, 5)])
    yield "keys", DataLoader({"a": 1, "b": 2.5}, 2, sampler=["b", "a"])
    yield "samples", DataLoader(Samples(3), 2)
    yield "converted", DataLoader(Samples(2), None)
    yield "tensors", DataLoader(TensorDataset(torch.arange(4), torch.ones(4, 1)), 3)
    yield "concatenated", DataLoader(Rows(2) + Rows(3), 3)
    yield "subset of", DataLoader(Subset(Rows(9), [8, 1, 4]), 2)
    yield "stream", DataLoader(Parts([5]), 2)
    yield "stream drop_last", DataLoader(Parts([5]), 2, drop_last=True)
    yield "stream samples", DataLoader(Parts([3]), None)
    yield "chain", DataLoader(ChainDataset([Parts([2]), Parts([3])]), 2)
    yield "drawn", DataLoader(Drawn(3), 2, collate_fn=as_they_are)
    for workers in (1, 2, 3):
        yield f"workers {workers}", DataLoader(Rows(11), 2, num_workers=workers)
        yield f"shuffle {workers}", DataLoader(Rows(11), 2, num_workers=workers, shuffle=True)
        yield f"drawn {workers}", DataLoader(Drawn(7), 2, num_workers=workers, collate_fn=as_they_are)
        yield f"stream {workers}", DataLoader(Parts([5, 2, 7]), 2, num_workers=workers)
        yield f"stream drop_last {workers}", DataLoader(Parts([5, 2, 7]), 2, num_workers=workers, drop_last=True)
        yield f"stream samples {workers}", DataLoader(Parts([3, 0, 4]), None, num_workers=workers)
        yield f"whole {workers}", DataLoader(Whole(), 2, num_workers=workers)
        yield f"prefetch {workers}", DataLoader(Parts([0, 9, 1]), 2, num_workers=workers, prefetch_factor=5)
    yield "samples 2", DataLoader(Samples(3), 2, num_workers=2)
    yield "collate 2", DataLoader(Rows(3), 2, num_workers=2, collate_fn=as_tuple)
    yield "persistent", DataLoader(Drawn(5), 2, num_workers=2, persistent_workers=True, collate_fn=as_they_are)
    yield "persistent stream", DataLoader(Parts([5, 2]), 2, num_workers=2, persistent_workers=True)


def failures():
    for number in (100, 101, 102):
        for workers in (0, 2):
            yield f"row {number} {workers}", DataLoader(Rows(1), 1, sampler=[0, number, 1], num_workers=workers)


def main():
    for name, loader in loaders():
        torch.manual_seed(3)
        random.seed(1)
        np.random.seed(2)
        for _ in range(2):
            print(name, *map(shown, loader), torch.rand(1).item(), random.random())
        try:
            print(len(loader))
        except TypeError:
            print("no length")
    for name, loader in failures():
        found, iterator = [], iter(loader)
        while True:
            try:
                found.append(shown(next(iterator)))
            except StopIteration:
                break
            except Exception as error:
                found += [type(error).__name__, str(error).splitlines()[0]]
        print(name, *found)
    loader = DataLoader(Parts([3, 3], 4), 1, num_workers=2)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(len(list(loader)), [warning.category.__name__ for warning in caught], len(loader))


if __name__ == "__main__":
    main()
"""


def printed(folder: Path, *command: str) -> list[str]:
    environment = {**os.environ, "NETCL_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, *command, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system: fork, of PyTorch's workers")
def test_batches_order_random_numbers_and_failures_are_pytorchs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    theirs = printed(tmp_path)
    ours = printed(tmp_path, "-m", "netcl.torch")
    assert len(theirs) > 100
    for one, other in zip(theirs, ours):
        assert one == other
    assert len(theirs) == len(ours)
