"""Times add, matmul and one training step of the digits network on every device, against NumPy, as a table.

``python benchmarks/basics.py [--devices intel,pocl] [--runs 20] [--json FILE]``. Medians, and NumPy's median over ours.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from bursts import Work
from measure import Timing, handles, save, timing

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.data.readers import example_digits
from netcl.optim import SGD

ELEMENTS, SIDE, BATCH = 1 << 22, 512, 64


def times_of(work: Work, handle: DeviceHandle, runs: int) -> list[float]:
    """The wall times of `work` in milliseconds, its queue drained each time, after three calls to warm up."""
    times = []
    for _ in range(3 + runs):
        start = time.perf_counter()
        work()
        handle.queue.finish()
        times.append(1e3 * (time.perf_counter() - start))
    return times[3:]


def digits_step() -> Work:
    """One eager training step, optimizer included, of a small convolutional network."""
    x, y = example_digits()
    xb, yb = Tensor.from_host(x[:BATCH]), Tensor.from_host(y[:BATCH])
    convolution = [nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*convolution, nn.Flatten(), nn.Linear(32 * 4 * 4, 10))
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        ag.cross_entropy(model(xb), yb).backward()
        optimizer.step()

    return step


def measure(handle: DeviceHandle, runs: int) -> dict[str, Timing]:
    """Each job on one device."""
    rng = np.random.default_rng(0)
    with device(handle.selector):
        a, b = (Tensor.from_host(rng.random(ELEMENTS, dtype=np.float32)) for _ in range(2))
        m, n = (Tensor.from_host(rng.random((SIDE, SIDE), dtype=np.float32)) for _ in range(2))
        jobs: dict[str, Work] = {
            f"add {ELEMENTS >> 20}M": lambda: ops.add(a, b),
            f"matmul {SIDE}": lambda: ops.matmul(m, n),
            f"digits step, batch {BATCH}": digits_step(),
        }
        return {name: timing(name, handle.device_name, times_of(job, handle, runs)) for name, job in jobs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all devices when left out")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    numpy_times = measure(manager.default("cpu"), options.runs)
    collected = []
    print(f"{'device':<40}" + "".join(f"{job + ' (ms)':>28}" for job in numpy_times))
    for handle in handles(options.devices):
        times = numpy_times if handle.backend == "cpu" else measure(handle, options.runs)
        cells = (f"{one.median:.3f} ({numpy_times[job].median / one.median:.2f}x)" for job, one in times.items())
        print(f"{handle.device_name[:38]:<40}" + "".join(f"{cell:>28}" for cell in cells), flush=True)
        collected += times.values()
    save(options.json, sorted(collected, key=lambda one: list(numpy_times).index(one.row)))


if __name__ == "__main__":
    main()
