"""``netcl tune``, ``netcl profile`` and ``netcl bench``: measure kernels, training steps and devices."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import netcl.autograd as ag
from netcl import nn, ops
from netcl.autograd.levels import LEVELS, need
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.data import example_digits
from netcl.optim import SGD
from netcl.trainer.cli.build import build, open_device
from netcl.trainer.cli.config import ConfigFileError
from netcl.trainer.cli.peer import pytorch_times
from netcl.trainer.cli.train import configured
from netcl.trainer.profiler import Profiler

if TYPE_CHECKING or "profiling" in LEVELS:
    from netcl.profiling.autotuner import autotune_conv2d, autotune_matmul
    from netcl.profiling.report import roofline
    from netcl.profiling.timing import format_seconds, timing

_SIZES = {"matmul": ((3, 3), "M N K"), "conv2d": ((7, 9), "N C H W F KH KW [STRIDE [PAD]]")}


def tune(chosen: argparse.Namespace) -> int:
    """Measures the kernel variants of a shape; the fastest correct one is stored for later runs."""
    need("profiling", "netcl tune")
    (least, most), names = _SIZES[chosen.what]
    if not least <= len(chosen.sizes) <= most:
        raise ConfigFileError(f"tune {chosen.what} expects {names}, got {len(chosen.sizes)} sizes")
    measure: Callable[..., Any] = autotune_matmul if chosen.what == "matmul" else autotune_conv2d
    handle = open_device(chosen.device)
    with device(handle):
        fastest = measure(*chosen.sizes, dtype=chosen.dtype)
    extra = dict(fastest.extra)
    print(f"{chosen.what} {' '.join(map(str, chosen.sizes))} {chosen.dtype} on {handle}, {handle.device_name}")
    times = sorted(
        extra.get("candidates", {extra.get("kernel", "?"): extra.get("time_ms", float("nan"))}).items(), key=_second
    )
    for kernel, milliseconds in times:
        mark = "*" if kernel == extra.get("kernel") else " "
        rate = f"{extra['time_ms'] * extra['gflops'] / milliseconds:12.4g} GFLOP/s" if extra.get("gflops") else ""
        print(f"{mark} {kernel:<16}{milliseconds:10.4g} ms{rate}")
    print(f"* the kernel of later runs, in tiles of {fastest.tile_m} x {fastest.tile_n} x {fastest.tile_k}")
    return 0


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def profile(chosen: argparse.Namespace) -> int:
    """Trains a few steps of a configuration and prints the time per kernel."""
    config, handle = configured(chosen)
    with device(handle):
        run = build(config)
        folder = Path(chosen.folder) if chosen.folder else run.output / "profile"
        watcher = Profiler(folder, steps=chosen.steps)
        run.trainer.callbacks[:] = [watcher]
        needed = watcher.wait + watcher.steps
        try:
            batches = list(itertools.islice(run.train_loader, needed * run.trainer.accumulation_steps))
            run.trainer.fit(batches, epochs=-(-needed // max(1, len(batches))), log_every=0)
        finally:
            run.close()
    print((folder / "kernels.txt").read_text(encoding="utf-8"))
    if chosen.roofline:
        need("profiling", "netcl profile --roofline")
        print(f"roofline: {roofline(watcher.profile, chosen.roofline)}")
    print(f"trace for https://ui.perfetto.dev: {folder / 'trace.json'}\nroofline: {folder / 'roofline.html'}")
    return 0


def bench(chosen: argparse.Namespace) -> int:
    """Prints a table of jobs by device: seconds, and the speed relative to NumPy and, if it is installed, PyTorch."""
    need("profiling", "netcl bench")
    if chosen.devices is None:
        handles = sorted(manager.select(), key=lambda handle: handle.backend != "cpu")
    else:
        handles = [open_device(selector) for selector in chosen.devices.split(",")]
    host: dict[str, float] = {}
    peer_name, peer = pytorch_times(chosen.runs)
    if peer and chosen.json:
        print(json.dumps({"selector": "pytorch", "device": peer_name, "seconds": peer}), flush=True)
    elif peer:
        print(peer_name)
        for name, seconds in peer.items():
            print(f"  {name:<34}{format_seconds(seconds):>12}", flush=True)
    for handle in handles:
        times = _times(handle, chosen.runs)
        if handle.backend == "cpu":
            host = times
        if chosen.json:
            print(json.dumps({"selector": handle.selector, "device": handle.device_name, "seconds": times}), flush=True)
            continue
        print(f"{handle.selector}  {handle.device_name} ({handle.platform_name})")
        for name, seconds in times.items():
            speeds = f"  {host[name] / seconds:7.2f} times NumPy" if name in host and handle.backend != "cpu" else ""
            speeds += f"  {peer[name] / seconds:7.2f} times PyTorch" if name in peer else ""
            print(f"  {name:<34}{format_seconds(seconds):>12}{speeds}", flush=True)
    return 0


def _times(handle: DeviceHandle, runs: int) -> dict[str, float]:
    """Returns the median seconds of each job on one device."""
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> Tensor:
        drawn: Tensor = Tensor.from_host(rng.standard_normal(shape, dtype=np.float32))
        return drawn

    with device(handle):
        a, b, m, n = tensor(1 << 22), tensor(1 << 22), tensor(512, 512), tensor(512, 512)
        image, kernel = tensor(16, 32, 28, 28), tensor(64, 32, 3, 3)
        jobs: dict[str, Callable[[], Any]] = {
            "add, 4 Mi elements": lambda: ops.add(a, b),
            "sum, 4 Mi elements": lambda: ops.sum(a),
            "matmul 512 x 512 x 512": lambda: ops.matmul(m, n),
            "conv2d 16 x 32 x 28 x 28, 3 x 3": lambda: ops.conv2d(image, kernel, padding=1),
            "training step, digits": digits_step(),
        }
        return {name: timing(job, warmup=3, runs=runs).median for name, job in jobs.items()}


def digits_step(samples: int = 64) -> Callable[[], Any]:
    """Returns one eager training step of a small convolutional network on some digits."""
    x, y = example_digits(samples)
    xb, yb = Tensor.from_host(x), Tensor.from_host(y)
    layers = [nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(512, 10))
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        ag.cross_entropy(model(xb), yb).backward()
        optimizer.step()

    return step
