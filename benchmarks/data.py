"""Times DataLoader against indexing, against itself with workers, and against PyTorch's on the same data sets."""

from __future__ import annotations

import argparse
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
    """Samples that have to be unpacked: about five milliseconds of one core each, as a photograph takes."""

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


def seconds(loader: Iterable[Any], runs: int) -> float:
    """The best of several passes; the first starts the workers and does not count."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        consume(loader)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def in_turn(jobs: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """The median seconds of each job, run in turn so that a slow moment meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def show(name: str, ratio: float, bound: str, held: bool) -> None:
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
    ratio = found["netcl"] / found["indices"]
    show("arrays in memory, 256 x 3 x 32 x 32, shuffled: over x[indices]", ratio, "<= 1.05", ratio <= 1.05)
    if "torch" in found:
        ratio = found["torch"] / found["netcl"]
        show("arrays in memory: speed against PyTorch's DataLoader", ratio, ">= 1.0", ratio >= 1.0)


def decode_rows(runs: int) -> None:
    """Samples that take time: two workers against none, and against PyTorch's two."""
    data = Decoded()
    alone = seconds(DataLoader(data, 32, shuffle=True, seed=0), runs)
    with DataLoader(data, 32, shuffle=True, seed=0, num_workers=2) as loader:
        two = seconds(loader, runs)
    show("decoding, two workers against none", alone / two, ">= 1.8", alone / two >= 1.8)
    try:
        from torch.utils.data import DataLoader as TorchLoader
    except ImportError:
        return
    theirs = seconds(TorchLoader(data, 32, shuffle=True, num_workers=2, persistent_workers=True), runs)
    show("decoding, two workers: speed against PyTorch's two", theirs / two, ">= 1.0", theirs / two >= 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    memory_rows(options.runs)
    decode_rows(max(1, options.runs // 2))


if __name__ == "__main__":
    main()
