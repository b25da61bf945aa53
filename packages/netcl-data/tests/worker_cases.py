"""Datasets and functions for tests with workers; a module of its own, because worker processes import it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl.data import Dataset, IterableDataset, get_worker_info
from netcl.data.shared_batch import SharedBatchRingBuffer


class Noisy(Dataset[Any]):
    """Samples with random numbers of three sources and a text."""

    def __init__(self, n: int = 22) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        image = np.full((3, 6, 6), index, np.float32) + np.random.rand(3, 6, 6).astype(np.float32)
        return image, index, {"name": f"s{index}", "noise": random.random()}


class NoisyStream(IterableDataset[Any]):
    """The same as a stream; the epoch shows in the samples."""

    def __init__(self, n: int = 22) -> None:
        self.n = n
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        for index in range(self.n):
            yield np.random.rand(3, 6, 6).astype(np.float32), index, self.epoch


class Ragged(Dataset[Any]):
    """Arrays of many lengths, for a collate_fn."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> Any:
        return np.arange(index % 7, dtype=np.int64)


class Fault(Dataset[Any]):
    """Does something bad at one sample: raise, kill, exit, hang, stop, slow, unpicklable."""

    def __init__(self, kind: str, at: int = 13, n: int = 40) -> None:
        self.kind, self.at, self.n = kind, at, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            getattr(self, "_" + self.kind)()
        if self.kind == "unpicklable" and index == self.at:
            return threading.Lock()
        return np.full(4, index, np.float32)

    def _raise(self) -> None:
        raise KeyError("the sample is broken")

    def _raise_local(self) -> None:
        class LocalError(Exception):
            """Cannot be pickled: it has no name in its module."""

        raise LocalError("the sample is broken")

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self) -> None:
        os._exit(3)

    def _hang(self) -> None:
        time.sleep(600)

    def _stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def _slow(self) -> None:
        time.sleep(1.0)

    def _unpicklable(self) -> None:
        """Does harm by the lock that __getitem__ returns."""


class RefusesToLoad(Dataset[Any]):
    """Can be pickled, but not read back in a worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return index

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise OSError("the disk of the worker is gone")

    def __getstate__(self) -> dict[str, Any]:
        return {"some": "state"}


class WhoAmI(Dataset[Any]):
    """Samples: the number of the worker, how many there are, and what worker_init_fn left."""

    mark = -1

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        assert isinstance(info.dataset, WhoAmI)
        time.sleep(0.02)  # so that one worker cannot take all
        return info.id, info.num_workers, self.mark, os.getpid()


def leave_a_mark(worker_id: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.mark = 100 + worker_id


def fail_at_start(worker_id: int) -> None:
    raise RuntimeError(f"no luck for {worker_id}")


def pad(samples: list[Any]) -> Any:
    """Pads to the longest of the batch."""
    longest = max(len(sample) for sample in samples)
    return np.stack([np.pad(sample, (0, longest - len(sample))) for sample in samples]), len(samples)


def add_noise(image: Any) -> Any:
    return image + np.random.rand()


def scale_batch(batch: Any, rng: Any) -> Any:
    image, *rest = batch
    image = image + np.random.rand() + random.random()
    return (image * rng.random((len(image), 1))[:, :, None, None], *rest)


def fill_ring(attach_info: Any) -> None:
    ring = SharedBatchRingBuffer.attach(attach_info)
    ring.slot_view(1)["y"][:] = 7
    ring.close()
