"""Times whole training steps, captured: netcl on each device against PyTorch eager, in turn, on the same cores.

``python benchmarks/training.py [--devices intel,pocl] [--only mlp,cnn] [--seconds 4] [--json FILE]``. A step is
forward, backward and optimizer. A round runs each contestant once, until the seconds of a row are over; the
table has medians, the middle half, and PyTorch's median over ours.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import Work, handles, save, timing, torch

import netcl.autograd as ag
from netcl import nn, optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.runtime.capture import capture

WIDTH, HEADS, LAYERS, HIDDEN = 256, 4, 4, 1024


def _mlp(n: Any) -> Any:
    return n.Sequential(
        n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, 10)
    )  # fmt: skip


def _cnn(n: Any) -> Any:
    stem = (n.Conv2d(1, 32, 3, padding=1), n.ReLU(), n.Conv2d(32, 64, 3, padding=1), n.ReLU(), n.MaxPool2d(2))
    return n.Sequential(*stem, n.Flatten(), n.Linear(64 * 14 * 14, 10))


def _encoder(n: Any) -> Any:
    layer = n.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
    return n.TransformerEncoder(layer, LAYERS)


def _block(n: Any, ins: int, outs: int, stride: int, relu: Callable[[Any], Any]) -> Any:
    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            first = n.Conv2d(ins, outs, 3, stride=stride, padding=1, bias=False)
            second = n.Conv2d(outs, outs, 3, padding=1, bias=False)
            self.main = n.Sequential(first, n.BatchNorm2d(outs), n.ReLU(), second, n.BatchNorm2d(outs))
            plain = stride == 1 and ins == outs
            short = () if plain else (n.Conv2d(ins, outs, 1, stride=stride, bias=False), n.BatchNorm2d(outs))
            self.short = n.Sequential(*short)

        def forward(self, x: Any) -> Any:
            return relu(self.main(x) + self.short(x))

    return Block()


def _resnet(n: Any, relu: Callable[[Any], Any]) -> Any:
    blocks = [_block(n, 64, 64, 1, relu), _block(n, 64, 64, 1, relu)]
    for ins in (64, 128, 256):
        blocks += [_block(n, ins, 2 * ins, 2, relu), _block(n, 2 * ins, 2 * ins, 1, relu)]
    stem = (n.Conv2d(3, 64, 3, padding=1, bias=False), n.BatchNorm2d(64), n.ReLU())
    return n.Sequential(*stem, *blocks, n.AvgPool2d(4), n.Flatten(), n.Linear(512, 10))


def _batch(name: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shape = {"mlp": (128, 784), "cnn": (64, 1, 28, 28), "resnet18": (32, 3, 32, 32), "encoder": (8, 128, WIDTH)}[name]
    x = rng.standard_normal(shape).astype(np.float32)
    return x, rng.standard_normal(shape).astype(np.float32) if name == "encoder" else rng.integers(0, 10, shape[0])


STEPS = ("mlp", "cnn", "resnet18", "encoder")


def netcl_step(name: str, handle: DeviceHandle) -> Work:
    """The captured step on a device."""
    models = {"mlp": _mlp, "cnn": _cnn, "resnet18": lambda n: _resnet(n, ag.relu), "encoder": _encoder}
    model = models[name](nn)
    values, wanted = _batch(name)
    x, y = Tensor.from_host(handle, values), Tensor.from_host(handle, wanted)
    loss_of = ag.mse_loss if name == "encoder" else ag.cross_entropy
    parameters = list(model.parameters())
    made: dict[str, Callable[[], Any]] = {
        "mlp": lambda: optim.Adam(parameters, lr=1e-3),
        "encoder": lambda: optim.AdamW(parameters, lr=1e-4),
    }
    optimizer = made.get(name, lambda: optim.SGD(parameters, lr=0.01, momentum=0.9))()

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(x, y)
    captured = capture(step, x, y)

    def replay() -> None:
        captured.replay(x, y)
        handle.queue.finish()

    return replay


def torch_step(name: str) -> Work:
    """The eager step of PyTorch on two threads."""
    models = {"mlp": _mlp, "cnn": _cnn, "resnet18": lambda n: _resnet(n, torch.relu), "encoder": _encoder}
    model = models[name](torch.nn)
    x, y = (torch.from_numpy(array) for array in _batch(name))
    loss_of = torch.nn.functional.mse_loss if name == "encoder" else torch.nn.functional.cross_entropy
    parameters = list(model.parameters())
    made: dict[str, Callable[[], Any]] = {
        "mlp": lambda: torch.optim.Adam(parameters, lr=1e-3),
        "encoder": lambda: torch.optim.AdamW(parameters, lr=1e-4),
    }
    optimizer = made.get(name, lambda: torch.optim.SGD(parameters, lr=0.01, momentum=0.9))()

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def measured(works: dict[str, Work], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of single steps, each contestant's in short runs that take turns; the first of a run is left out."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 3:
        for name, work in works.items():
            began = time.perf_counter()
            for count in range(100):
                start = time.perf_counter()
                work()
                if count:
                    times[name].append(1e3 * (time.perf_counter() - start))
                if count and time.perf_counter() - began > seconds / 16:
                    break
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", default=",".join(STEPS), help="rows, separated by commas")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row and contestant")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    collected = []
    print(f"{'step':<12}{'device':<34}{'ms':>9}{'middle half':>20}{'PyTorch / ours':>16}")
    for name in options.only.split(","):
        works: dict[str, Work] = {}
        if torch is not None and not options.no_torch:
            works["PyTorch"] = torch_step(name)
        for handle in handles(options.devices):
            if handle.backend != "cpu" or options.devices:
                with device(handle):
                    works[handle.platform_name[:32]] = netcl_step(name, handle)
        times = measured(works, options.seconds * len(works))
        for contestant, values in times.items():
            one = timing(name, contestant, values)
            ratio = f"{statistics.median(times['PyTorch']) / one.median:.2f}" if "PyTorch" in times else ""
            spread = f"{one.low:.2f} to {one.high:.2f}"
            print(f"{name:<12}{contestant:<34}{one.median:>9.2f}{spread:>20}{ratio:>16}", flush=True)
            collected.append(one)
    save(options.json, collected)


if __name__ == "__main__":
    main()
