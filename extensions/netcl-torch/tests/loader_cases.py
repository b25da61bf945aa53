"""Data sets and functions for loaders with workers; a module of its own, because worker processes import it."""

from __future__ import annotations

import collections
import dataclasses
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import netcl.torch as torch
from netcl.torch.utils.data import Dataset, IterableDataset, get_worker_info

Pair = collections.namedtuple("Pair", ("first", "second"))


class Kept(dict):  # type: ignore[type-arg]
    """A mapping of another type, with an attribute."""

    origin = "class"


@dataclasses.dataclass
class Record:
    """A batch of a class of its own."""

    x: Any
    name: str


class Brain(Dataset[Any]):
    """Rows of bfloat16, which NumPy does not have."""

    def __init__(self) -> None:
        self.x = torch.tensor([[0.0, 1.0], [2.5, 3.0], [4.0, 5.0]], dtype=torch.bfloat16)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: int) -> Any:
        return self.x[at]


class Numbers(Dataset[Any]):
    """Index, worker, seed of the worker and numbers of three generators."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, at: int) -> Any:
        info = get_worker_info()
        assert info is not None
        assert info.dataset is self
        return at, info.id, info.seed, torch.rand(1).item(), random.random(), np.random.rand()


class Devices(Dataset[Any]):
    """The engines of tensors made in a worker."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, at: int) -> Any:
        return torch.ones(1).device.backend, torch.ones(1, device="cpu").device.backend


class Parts(IterableDataset[Any]):
    """Streams of the given lengths, one per worker: 100 * worker + position."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        return iter(range(100 * worker, 100 * worker + self.lengths[worker]))


class Own(Exception):
    """An exception that is not made of a text alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)


class Fault(Dataset[Any]):
    """Raises, ends its process or hangs at index 2."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> Any:
        if at == 2:
            if self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "hang":
                time.sleep(60)
            if self.kind == "own":
                raise Own(3, "broken")
            raise {"key": KeyError, "value": ValueError}[self.kind](f"sample {at} is broken")
        return at


class Rows(Dataset[Any]):
    """0, 1, ... of a length."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> int:
        return at


class Slow(Rows):
    """Index 0 takes longer than the others."""

    def __getitem__(self, at: int) -> int:
        time.sleep(2.0 if at == 0 else 0.0)
        return at


def containers(samples: list[int]) -> Any:
    """A batch of containers of many types."""
    x = torch.tensor(samples)
    kept = Kept(x=x)
    kept.origin = "object"
    return (
        x,
        [x],
        Pair(x, "text"),
        collections.OrderedDict(a=x, b=(x,)),
        kept,
        Record(x, "n"),
        torch.nn.Parameter(x * 1.0),
    )


def failing_start(worker: int) -> None:
    """Raises in the second worker."""
    if worker == 1:
        raise RuntimeError("no start")


def noted_start(worker: int) -> None:
    """Leaves a note in the data set."""
    info = get_worker_info()
    assert info is not None
    info.dataset.count += worker
