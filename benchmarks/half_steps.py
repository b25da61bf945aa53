"""Times captured training steps in half types against float32's, by turns in one process, on CPUs.

``python benchmarks/half_steps.py [--devices intel,pocl] [--only digits,cnn,resnet18:8,gpt:1] [--rounds 15]
[--profile]``. The number after a network of models.py is how many samples of its batch are taken; digits is a small
network with batch norm. Ratios are float32's time over the other's: medians over the rounds, of processor time and of
wall time. A step in float16 scales its loss, and so does "scaled", which is in float32. On CPUs autocast leaves small
layers in float32, but with NETCL_AUTOCAST_ON_CPUS=half. ``--profile`` lists the kernels of each step in order, each
with its least milliseconds by the device's clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import models
from measure import handles

import netcl
import netcl.autograd as ag
from netcl import amp, nn, optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.data.readers import example_digits
from netcl.profiling import profile
from netcl.runtime.capture import capture

KINDS = ("float32", "scaled", "bfloat16", "float16")
BATCH = 64  # of digits


def _network(name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """The model, its optimizer and the arrays of a batch."""
    if name == "digits":
        first = (nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        second = (nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))
        model = nn.Sequential(*first, *second)
        return model, optim.SGD(model.parameters(), lr=0.01, momentum=0.9), tuple(a[:BATCH] for a in example_digits())
    network, _, size = name.partition(":")
    model = models.model(network, netcl)
    inputs, wanted = models.batch(network, int(size) if size else None)
    return model, models.optimizer(network, optim, list(model.parameters())), (*inputs, wanted)


def captured_step(name: str, kind: str) -> tuple[Any, tuple[Tensor, ...]]:
    """The captured step in a dtype, and its batch."""
    model, updates, arrays = _network(name)
    given = tuple(Tensor.from_host(array) for array in arrays)
    scaler = amp.GradScaler() if kind in ("scaled", "float16") else None
    half = kind if kind in ("bfloat16", "float16") else None

    def loss_of(*given: Tensor) -> Tensor:
        found: Tensor = model(*given[:-1])
        if name == "digits":
            return ag.cross_entropy(found, given[-1])
        return models.loss(name.partition(":")[0], netcl, found, given[-1])  # type: ignore[no-any-return]

    def step(*given: Tensor) -> Tensor:
        updates.zero_grad()
        with netcl.autocast(half is not None, half):
            loss = loss_of(*given)
        if scaler is None:
            loss.backward()
            updates.step()
        else:
            scaler.scale_loss(loss).backward()
            scaler.step(updates)
            scaler.update()
        return loss

    for _ in range(2):
        step(*given)
    return capture(step, *given), given


def rows(handle: DeviceHandle, name: str, rounds: int, profiled: bool) -> None:
    """Prints a line for each dtype, and the kernels of its step."""
    steps = {kind: captured_step(name, kind) for kind in KINDS}
    walls: dict[str, list[float]] = {kind: [] for kind in KINDS}
    processor: dict[str, list[float]] = {kind: [] for kind in KINDS}
    repeats = 10 if name == "digits" else 1
    for number in range(rounds + 2):
        first = number % len(KINDS)  # no kind follows itself, with its data in the caches
        for kind in (*KINDS[first:], *KINDS[:first]):
            step, given = steps[kind]
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(repeats):
                step.replay(*given)
            handle.queue.finish()
            if number > 1:
                walls[kind].append((time.perf_counter() - wall) / repeats * 1e3)
                processor[kind].append((time.process_time() - cpu) / repeats * 1e3)
    for kind in KINDS:
        ratios = [
            statistics.median(a / b for a, b in zip(times["float32"], times[kind])) for times in (processor, walls)
        ]
        print(
            f"{name:12} {handle.platform_name[:24]:25} {kind:9} {len(steps[kind][0]):4} launches, "
            f"{statistics.median(walls[kind]):8.2f} ms; of float32's speed {ratios[0]:.3f} by processor time, "
            f"{ratios[1]:.3f} by wall time",
            flush=True,
        )
    for kind in KINDS if profiled else ():
        step, given = steps[kind]
        runs = []
        for _ in range(9):
            with profile(handle.queue) as seen:
                step.replay(*given)
            runs.append(seen.launches)
        print(f"  {kind}")
        for same in zip(*runs):
            least = min(one.end - one.start for one in same) * 1e3
            print(f"    {same[0].name if same[0].kind == 'kernel' else same[0].kind:32} {least:9.4f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", default="digits,cnn,resnet18:8,gpt:1", help="networks, separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true", help="list the kernels of each step")
    options = parser.parse_args()
    if options.profile:
        os.environ["NETCL_PROFILE_EVENTS"] = "1"  # before the first queue
    for name in options.only.split(","):
        for handle in handles(options.devices):
            if handle.backend == "cl":
                with device(handle):
                    rows(handle, name, options.rounds, options.profile)


if __name__ == "__main__":
    main()
