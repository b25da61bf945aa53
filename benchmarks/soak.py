"""Runs netcl for long and in many threads: no wrong result, no growth of memory, events, files, threads or segments.

``--training STEPS`` trains for STEPS steps on each device in one process, with a worker that loads, captured steps,
metrics and checkpoints. The upper end of the 95 % interval of the memory's slope stays below 50 bytes a step; 100000
steps are the length for a change, 1000000 that for a night.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.device import DeviceManager, device
from netcl.core.memory import get_persistent_pool
from netcl.data import ArrayDataset, DataLoader
from netcl.optim import AdamW, ModelEMA
from netcl.trainer import Callback, CSVLogger, ModelCheckpoint, Trainer

THREADS = 8
LAUNCHES, CYCLES, THREADED = 1_000_000, 100_000, 100_000
# Fluctuation allowed between two samples. In nine tenths of the runs, memory that is lost in each launch or cycle would
# be more than this allows from 5 bytes a launch and 46 a cycle on; the allocators' pages and what a driver keeps for
# commands under way move by 3 MB on PoCL and Intel's runtime. Of events there may be those of the last few commands.
# Of the training runs: samples and batch of their data, and the growth that is allowed.
SAMPLES, BATCH, BYTES_A_STEP = 16384, 32, 50.0
SEGMENTS = Path("/dev/shm")
NAMES = {"cpu": "NumPy", "pocl": "PoCL", "intel": "Intel's runtime"}
SLACK = {"resident KB": 4096, "events": 8, "files": 0, "threads": 0, "pool KB": 0}


def held(handle: DeviceHandle) -> dict[str, int]:
    """The resources that the process holds now."""
    handle.queue.finish()
    # A transfer looks at those before it, and lets go of the events and arrays of what is over.
    Tensor.from_host(handle, np.zeros(1, np.float32)).to_host()
    gc.collect()
    events = {id(item) for item in gc.get_referents(*gc.get_objects()) if isinstance(item, cl.Event)}
    return {
        "resident KB": resident_bytes() >> 10,
        "events": len(events),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "pool KB": int(get_persistent_pool(handle).get_stats()["bytes_allocated"]) >> 10,
    }


def launches(handle: DeviceHandle) -> Callable[[], None]:
    """One launch, with a read now and then."""
    x, one = (Tensor.from_host(handle, np.ones(16, np.float32)) for _ in range(2))
    state = {"x": x, "count": 0}

    def launch() -> None:
        state["x"] = ops.add(state["x"], one)
        state["count"] += 1
        if state["count"] % 500 == 0:
            # float32 counts to 2**24; the tensor starts over long before that.
            if state["x"].to_host()[0] != 1 + state["count"]:
                raise SystemExit(f"a wrong sum after {state['count']} launches")
            if state["count"] == 100_000:
                state.update(x=x, count=0)

    return launch


def leases(handle: DeviceHandle) -> Callable[[], None]:
    """One cycle of allocating, writing and freeing tensors of several sizes, up and down."""
    sizes = [16, 3000, 70_000, 300_000]
    cycles = itertools.count()

    def cycle() -> None:
        tensors = [Tensor.from_host(handle, np.ones(size // 4, np.float32)) for size in sizes]
        tensors.append(Tensor.zeros((5, 7), queue=handle.queue))
        # The scheduler decides how far the host runs ahead of the device, which changes the resident memory.
        if next(cycles) % 10 == 0:
            handle.queue.finish()
        del tensors

    return cycle


def grows(handle: DeviceHandle, work: Callable[[], None], count: int) -> tuple[str, list[str]]:
    """The resources held in the first and the last tenth of ``count`` runs, as text, and the names of growing ones."""
    tenth = max(1, count // 10)
    looks = []
    for part in range(10):
        for _ in range(tenth):
            work()
        if part in (0, 9):
            looks.append(held(handle))
    first, last = looks
    faults = [what for what, slack in SLACK.items() if last[what] - first[what] > slack]
    return "  ".join(f"{what} {first[what]} -> {last[what]}" for what in SLACK), faults


def threads_disagree(handle: DeviceHandle, count: int) -> list[int]:
    """Which of eight threads that launch one op on data of their own, ``count`` times in all, got wrong sums."""
    wrong: list[int] = []

    def work(i: int) -> None:
        x = Tensor.from_host(handle, np.full(64, i, np.float32))
        total = Tensor.zeros((64,), queue=handle.queue)
        for done in range(1, count // THREADS + 1):
            total = ops.add(total, x)
            if done % 1000 == 0 and not (total.to_host() == done * i).all():
                wrong.append(i)
                return
        if not (total.to_host() == count // THREADS * i).all():
            wrong.append(i)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return wrong


def runs(selector: str, scale: float = 1.0) -> Iterator[tuple[str, float, str, str]]:
    """(what ran, seconds, what was held, fault or nothing) of each run on a device, profiling events off and on."""
    for profiling in (False, True):
        # A manager of its own, so that the queue is made with profiling on or off.
        with config.override(PROFILE_EVENTS=profiling):
            handle = DeviceManager().default(selector)
        if handle is None or handle.backend == "cpu":
            raise SystemExit(f"{selector} is no OpenCL device here")
        events = f"profiling {'on' if profiling else 'off'}"
        for name, work, full in (
            ("launches", launches(handle), LAUNCHES),
            ("allocate and free cycles", leases(handle), CYCLES),
        ):
            count = int(full * scale)
            start = time.perf_counter()
            cells, faults = grows(handle, work, count)
            seconds = time.perf_counter() - start
            yield f"{count} {name}, {events}", seconds, cells, f"GROWS: {', '.join(faults)}" if faults else ""
        count = int(THREADED * scale)
        start = time.perf_counter()
        wrong = threads_disagree(handle, count)
        seconds = time.perf_counter() - start
        yield f"{count} launches of {THREADS} threads, {events}", seconds, "", f"WRONG in {wrong}" if wrong else ""


# ------------------------------------------------------------------------------------------------ whole training


class Held(NamedTuple):
    """What a process holds at a step of a training run."""

    step: int
    resident: int  # bytes
    files: int
    threads: int
    segments: int


class Sampler(Callback):
    """Notes what the process holds, at ``samples`` points of a run."""

    def __init__(self, steps: int, samples: int) -> None:
        self.every = max(1, steps // samples)
        self.held: list[Held] = []

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.step % self.every == 0:
            gc.collect()
            segments = len(list(SEGMENTS.glob(f"netcl-{os.getpid()}-*"))) if SEGMENTS.is_dir() else 0
            files = len(os.listdir("/proc/self/fd"))
            self.held.append(Held(trainer.step, resident_bytes(), files, threading.active_count(), segments))


def resident_bytes() -> int:
    """The resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slope(held: Sequence[Held]) -> tuple[float, float]:
    """Bytes per step of a line through the resident memory, and the half width of its 95 % interval.

    Neighbouring samples depend on each other (pages come and go in blocks): the variance of the slope is that of
    W. Newey, K. West, Econometrica 55 (1987), with a window of a tenth of the samples.
    """
    x = np.array([row.step for row in held], np.float64)
    y = np.array([row.resident for row in held], np.float64)
    x -= x.mean()
    total = (x * x).sum()
    slope_ = float((x * y).sum() / total)
    scores = x * (y - y.mean() - slope_ * x)
    window = max(1, len(held) // 10)
    variance = (scores * scores).sum()
    for lag in range(1, window + 1):
        variance += 2 * (1 - lag / (window + 1)) * (scores[lag:] * scores[:-lag]).sum()
    return slope_, 1.96 * float(np.sqrt(max(variance, 0.0))) / total


def train(selector: str, steps: int, samples: int) -> list[Held]:
    """What a process held in a run of ``steps`` steps: loader with a worker, captured steps, metrics, checkpoints."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, SAMPLES)
    images = rng.standard_normal((SAMPLES, 1, 4, 4)).astype(np.float32) + labels[:, None, None, None]
    epochs, per_epoch = -(-steps // (SAMPLES // BATCH)), SAMPLES // BATCH
    sampler = Sampler(epochs * per_epoch, samples)
    with device(selector), tempfile.TemporaryDirectory() as folder:
        layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)]
        model = nn.Sequential(*layers)
        saver = ModelCheckpoint(folder, "loss", every_n_steps=max(1, steps // 200))
        trainer = Trainer(
            model,
            AdamW(model.parameters(), lr=1e-3),
            ema=ModelEMA(model, 0.9),
            callbacks=[saver, CSVLogger(Path(folder) / "history.csv"), sampler],
            seed=0,
        )
        with DataLoader(ArrayDataset(images, labels), BATCH, shuffle=True, seed=1, num_workers=1) as loader:
            history = trainer.fit(loader, epochs=epochs, log_every=0)
    if not (history[-1]["loss"] < history[0]["loss"] and np.isfinite(history[-1]["loss"])):
        raise SystemExit(f"{selector}: the loss went from {history[0]['loss']} to {history[-1]['loss']}")
    return sampler.held


def grown(held: Sequence[Held]) -> tuple[str, list[str]]:
    """What was held in the last four fifths of a run, as text, and the names of what grew in it."""
    late = held[len(held) // 5 :]
    per_step, half = slope(late)
    faults = [f"{per_step + half:.1f} bytes a step"] if per_step + half > BYTES_A_STEP else []
    for name in ("files", "threads", "segments"):
        before, after = (
            max(getattr(row, name) for row in part) for part in (late[: len(late) // 2], late[len(late) // 2 :])
        )
        faults += [name] if after > before else []
    ends = f"{late[0].resident >> 10} -> {late[-1].resident >> 10} KB resident"
    last = late[-1]
    text = f"{per_step:+.2f} ± {half:.2f} bytes a step, {ends}, {last.files} files, {last.threads} threads, "
    return f"{text}{last.segments} segments", faults


def draw_memory(runs: dict[str, list[Held]], path: str) -> None:
    """Draws the resident memory of the runs over their steps, from that at a fifth of the run on, with the limit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    last = 0
    for selector, held in runs.items():
        base, last = held[len(held) // 5], max(last, held[-1].step)
        grown_ = [(row.resident - base.resident) / 2**20 for row in held]
        axes.plot([row.step for row in held], grown_, label=NAMES.get(selector, selector))
    limit = [0.0, BYTES_A_STEP * 0.8 * last / 2**20]
    axes.plot([0.2 * last, last], limit, "--", color="grey", label=f"limit: {BYTES_A_STEP:.0f} bytes a step")
    axes.set(xlabel="training step", ylabel="growth of resident memory (MiB)")
    axes.legend()
    figure.savefig(path, dpi=120)


def soak_training(selectors: Sequence[str], steps: int, samples: int, figure: str, file: Path | None) -> bool:
    """Trains on each device for ``steps`` steps and prints what grew; returns True if nothing did."""
    held: dict[str, list[Held]] = {}
    rows = []
    flat = True
    for selector in selectors:
        start = time.perf_counter()
        held[selector] = train(selector, steps, samples)
        cells, faults = grown(held[selector])
        seconds = time.perf_counter() - start
        verdict = f"GROWS: {', '.join(faults)}" if faults else "flat"
        print(f"{selector}: {held[selector][-1].step} training steps: {seconds:.0f} s, {verdict}  {cells}", flush=True)
        flat &= not faults
        per_step, half = slope(held[selector][len(held[selector]) // 5 :])
        numbers = {"seconds": round(seconds), "bytes_a_step": per_step, "half_of_95_percent": half, "grows": faults}
        rows.append({"device": selector, **numbers, "held": dict(zip(Held._fields, zip(*held[selector])))})
        if file is not None:  # after each device: the run takes long
            file.write_text(json.dumps(rows), encoding="utf-8")
    if figure:
        draw_memory(held, figure)
    return flat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; default pocl,intel, with --training cpu too")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full length to run")
    parser.add_argument("--training", type=int, default=0, metavar="STEPS", help="train for STEPS steps on each device")
    parser.add_argument("--samples", type=int, default=500, help="looks at the memory in a training run")
    parser.add_argument("--figure", default="", help="draw the memory of the training runs (.png, .svg)")
    parser.add_argument("--json", type=Path, help="a file for the numbers of the training runs")
    options = parser.parse_args()
    if options.training:
        selectors = (options.devices or "cpu,pocl,intel").split(",")
        flat = soak_training(selectors, options.training, options.samples, options.figure, options.json)
        sys.exit(0 if flat else 1)
    failed = False
    for selector in (options.devices or "pocl,intel").split(","):
        print(selector)
        for name, seconds, cells, fault in runs(selector, options.scale):
            print(f"  {name}: {seconds:.0f} s, {fault or 'right and flat'}  {cells}", flush=True)
            failed |= bool(fault)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
