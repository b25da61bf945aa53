"""Times DataLoader against indexing, against itself with workers, and against PyTorch's on the same data sets."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from netcl.data import ArrayDataset, DataLoader, Dataset

BATCH, SAMPLES = 256, 256 * 40
DECODED, SIDE = 384, 224


class Decoded(Dataset[Any]):
    """Samples that have to be unpacked and scaled down: more than a millisecond of one core each."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        image = rng.integers(0, 64, (3, SIDE, SIDE), dtype=np.uint8)
        self.packed = [zlib.compress(np.roll(image, at, axis=2).tobytes(), 1) for at in range(8)]

    def __len__(self) -> int:
        return DECODED

    def __getitem__(self, index: int) -> Any:
        image = np.frombuffer(zlib.decompress(self.packed[index % 8]), np.uint8).reshape(3, SIDE, SIDE)
        small = image.reshape(3, SIDE // 4, 4, SIDE // 4, 4).astype(np.float32).mean(axis=(2, 4)) / 255
        return small, index % 10


def consume(loader: Iterable[Any]) -> None:
    """One pass."""
    for _ in loader:
        continue


def in_turn(jobs: dict[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """The seconds of each job, run in turn so that a slow moment meets all of them; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: found[1:] for name, found in times.items()}


def show(name: str, over: list[float], under: list[float], bound: str) -> None:
    """The median of the ratios of neighbours, and whether it keeps to ``bound``, ">= x" or "<= x"."""
    ratio, limit = statistics.median(a / b for a, b in zip(over, under)), float(bound[3:])
    held = ratio >= limit if bound[0] == ">" else ratio <= limit
    print(f"{name:<66}{ratio:>8.2f}  {bound:<8}{'holds' if held else 'MISSED'}", flush=True)


def memory_rows(runs: int) -> None:
    """Shuffled arrays in memory: against ``x[indices]`` and against PyTorch."""
    rng = np.random.default_rng(0)
    x, y = rng.random((SAMPLES, 3, 32, 32), dtype=np.float32), rng.integers(0, 10, SAMPLES)
    ours = DataLoader(ArrayDataset(x, y), BATCH, shuffle=True, seed=0)

    def indexed() -> None:
        order = rng.permutation(SAMPLES)
        for first in range(0, SAMPLES, BATCH):
            indices = order[first : first + BATCH]
            batch = x[indices], y[indices]  # held while the next is made, as every loop over a loader holds its batch
        del batch

    jobs: dict[str, Callable[[], Any]] = {"indices": indexed, "netcl": lambda: consume(ours)}
    try:
        import torch
        from torch.utils.data import DataLoader as TorchLoader
        from torch.utils.data import TensorDataset
    except ImportError:
        print("PyTorch is not installed: its rows are left out")
    else:
        theirs = TorchLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), BATCH, shuffle=True)
        jobs["torch"] = lambda: consume(theirs)
    found = in_turn(jobs, runs)
    show("arrays in memory, 256 x 3 x 32 x 32, shuffled: over x[indices]", found["netcl"], found["indices"], "<= 1.05")
    if "torch" in found:
        show("arrays in memory: speed against PyTorch's DataLoader", found["torch"], found["netcl"], ">= 1.0")


def every_other(data: Decoded, first: int, pipe: Any) -> None:
    """In a process of its own: reads half of the samples each time it is told to."""
    while pipe.recv():
        for index in range(first, DECODED, 2):
            data[index]
        pipe.send(True)


def decode_rows(runs: int) -> None:
    """Samples that take time: two workers against none and PyTorch's two; and two processes that only read."""
    data = Decoded()
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(2)]
    readers = [context.Process(target=every_other, args=(data, at, pipes[at][1])) for at in range(2)]
    for reader in readers:
        reader.start()

    def read() -> None:
        for pipe, _ in pipes:
            pipe.send(True)
        for pipe, _ in pipes:
            pipe.recv()

    alone = DataLoader(data, 32, shuffle=True, seed=0)
    with DataLoader(data, 32, shuffle=True, seed=0, num_workers=2) as loader:
        jobs: dict[str, Callable[[], Any]] = {"alone": lambda: consume(alone), "read": read}
        jobs["two"] = lambda: consume(loader)
        try:
            from torch.utils.data import DataLoader as TorchLoader
        except ImportError:
            print("PyTorch is not installed: its row is left out")
        else:
            theirs = TorchLoader(data, 32, shuffle=True, num_workers=2, persistent_workers=True)
            jobs["torch"] = lambda: consume(theirs)
        found = in_turn(jobs, runs)
    for (pipe, _), reader in zip(pipes, readers):
        pipe.send(False)
        reader.join()
    show("decoding, two workers against none", found["alone"], found["two"], ">= 1.8")
    possible = statistics.median(a / b for a, b in zip(found["alone"], found["read"]))
    print(f"  two processes that read the samples and hand over nothing: {possible:.2f}")
    if "torch" in found:
        show("decoding, two workers: speed against PyTorch's two", found["torch"], found["two"], ">= 1.0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    memory_rows(options.runs)
    decode_rows(options.runs)


if __name__ == "__main__":
    main()
