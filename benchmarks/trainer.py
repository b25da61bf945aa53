"""Times Trainer.fit against a bare loop over the same captured step, with and without its loader; and a long run."""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.data import ArrayDataset, DataLoader
from netcl.optim import SGD
from netcl.runtime.capture import capture
from netcl.trainer import Callback, Trainer

BATCH, TURN = 128, 4
LONG = 100_000


def network(width: int = 32) -> nn.Sequential:
    """A small convolutional network for 32 x 32 images."""
    ops.manual_seed(0)
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(2 * width * 16, 10))


def data(samples: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.random((samples, 3, 32, 32), dtype=np.float32), rng.integers(0, 10, samples)


class InTurn:
    """A loader of one long epoch that hands out a few batches of each kind in turn, and times what is made of them.

    Other work on the machine changes the time of a step by a tenth from one second to the next; compared steps run
    within a quarter of a second. The queue is finished at the end of each turn, so that every cost shows.
    """

    def __init__(self, handle: DeviceHandle, kinds: dict[str, Iterator[Any]], bare: Callable[[], None]) -> None:
        self.handle, self.kinds, self.bare = handle, kinds, bare
        self.rounds = 0
        self.times: dict[str, list[float]] = {name: [] for name in ("bare", *kinds)}

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.rounds):
            for name, batches in self.kinds.items():
                start = time.perf_counter()
                yield from itertools.islice(batches, TURN)
                self._end(name, start)
            start = time.perf_counter()
            for _ in range(TURN):
                self.bare()
            self._end("bare", start)

    def _end(self, name: str, start: float) -> None:
        self.handle.queue.finish()
        self.times[name].append(time.perf_counter() - start)


def again(loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of epoch after epoch."""
    while True:
        yield from loader


def reach(handle: DeviceHandle, rounds: int) -> None:
    """Steps of one Trainer on batches on the device, and from a loader, compared with the captured step."""
    x, y = data(BATCH * 20)
    resident = [
        (Tensor.from_host(handle, x[at : at + BATCH]), Tensor.from_host(handle, y[at : at + BATCH]))
        for at in range(0, len(x), BATCH)
    ]
    loader = DataLoader(ArrayDataset(x, y), BATCH, shuffle=True, seed=0, device_queue=handle)
    model = network()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.01, momentum=0.9), metrics_stride=10)
    trainer.fit(resident[:4], epochs=1, log_every=0)
    captured = capture(partial(trainer.training_step, first=True, last=True), *resident[0])
    turns = InTurn(
        handle, {"resident": again(resident), "loader": again(loader)}, lambda: captured.replay(*resident[0])
    )
    for turns.rounds in (2, rounds):  # the first starts everything
        turns.times = {name: [] for name in turns.times}
        trainer.fit(turns, epochs=1, log_every=0)
    times = turns.times
    print(f"{handle.device_name}: {1e3 * statistics.median(times['bare']) / TURN:.2f} ms per captured step of {BATCH}")
    for name, over, bound in (("Trainer over the bare loop", ("resident", "bare"), 1.02),) + (
        ("loader and training over training alone", ("loader", "resident"), 1.05),
    ):
        ratios = sorted(a / b for a, b in zip(times[over[0]], times[over[1]]))
        ratio, quarter = statistics.median(ratios), len(ratios) // 4
        spread = f"{ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}"
        print(
            f"  {name:<44}{ratio:>8.3f}  <= {bound}  {'holds' if ratio <= bound else 'MISSED'}  ({spread})", flush=True
        )


class Watch(Callback):
    """Notes what the process holds ten times in the run."""

    def __init__(self, steps: int) -> None:
        self.every = max(1, steps // 10)
        self.seen: list[tuple[int, ...]] = []

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.step % self.every == 0:
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
            segments = len(list(Path("/dev/shm").glob(f"netcl-{os.getpid()}-*")))
            events = sum(type(thing).__name__ == "Event" for thing in gc.get_objects())
            files, things = len(os.listdir("/proc/self/fd")), len(gc.get_objects())
            self.seen.append((trainer.step, resident, files, segments, events, things))
            print(
                "  step {:>7}: {:>8} KB resident, {} files, {} segments, {} events, {} objects".format(*self.seen[-1])
            )


def soak(handle: DeviceHandle, steps: int) -> None:
    """A model of about a millisecond for very many steps: nothing grows between the second and the last tenth."""
    x, y = data(BATCH * 100)
    with device(handle):
        ops.manual_seed(0)
        model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 10))
        watch = Watch(steps)
        trainer = Trainer(model, SGD(model.parameters(), lr=0.01), callbacks=[watch])
        loader = DataLoader(ArrayDataset(x, y), BATCH, shuffle=True, seed=0, device_queue=handle)
        start = time.perf_counter()
        trainer.fit(loader, epochs=-(-steps // len(loader)), log_every=0)
    seconds = time.perf_counter() - start
    first, last = watch.seen[1], watch.seen[-1]
    grown = f"resident {last[1] - first[1]:+} KB, files {last[2] - first[2]:+}, objects {last[5] - first[5]:+}"
    print(f"  {1e3 * seconds / trainer.step:.2f} ms per step; {grown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="a selector")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--soak", type=int, nargs="?", const=LONG, default=0, metavar="STEPS")
    options = parser.parse_args()
    handle = manager.default(options.device)
    if handle is None:
        raise SystemExit(f"there is no device {options.device!r}")
    with device(handle):
        if options.soak:
            soak(handle, options.soak)
        else:
            reach(handle, options.rounds)


if __name__ == "__main__":
    main()
