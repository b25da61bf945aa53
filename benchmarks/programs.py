"""Times the programs of examples/pytorch under PyTorch and under netcl.torch on the same cores, and the facade's cost.

``python benchmarks/programs.py [--devices intel,pocl] [--only cnn,facade] [--turns 15] [--json FILE]``. Both run the
same steps of a program in turns: a turn is a few steps of one and then the same steps of the other, so that the work of
a step (the length of an episode, the iterations of a line search) and the machine's load are equal. The ratio is the
median over the turns of PyTorch's time over netcl's; the last column is the part of netcl's calls that was predicted.
Asked for is 1.0 for a program whose step takes PyTorch more than 5 ms, and 0.6 for programs of many small ops.

``facade`` compares a step of the digits network through netcl.torch with one through netcl's own names, by turns in one
process; the upper bound (95 %) of the median of their ratios is to be at most 1.05. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import Timing, handles, save, timing
from peer_processes import driver_of, python_of

import netcl as nc
import netcl.autograd as ag
from netcl import nn
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.data import DataLoader
from netcl.data.readers import example_digits
from netcl.optim import AdamW

HERE = Path(__file__).resolve().parent
# Steps of a turn. An episode of actor_critic and a step of lbfgs are hundreds of small ops.
PROGRAMS = {
    "cnn": 4,
    "vae": 20,
    "dcgan": 4,
    "char_lstm": 4,
    "gpt": 4,
    "vit": 4,
    "unet": 4,
    "gcn": 10,
    "actor_critic": 3,
    "ddpm": 3,
    "siamese": 4,
    "lbfgs": 2,
}
SMALL_OPS = ("actor_critic", "lbfgs")
WARM_UP = 4  # steps before the first turn: kernels are built and measured
FOREVER = 1_000_000


class Program:
    """A program in a process of its own, which stops between turns."""

    def __init__(self, python: str, kind: str, name: str, env: dict[str, str]) -> None:
        script = HERE.parent / f"examples/pytorch/{name}.py"
        command = [python, str(HERE / "program_turns.py"), kind, str(script), "--device", "cpu"]
        steps = ("--steps", str(FOREVER))
        self._process = subprocess.Popen(
            [*command, *steps], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
        )

    def turn(self, steps: int) -> float:
        """Milliseconds per step of the next ``steps`` steps."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a program ended while it was timed: {self._process.args}")
        return float(line)

    def close(self) -> float:
        """Ends the process; returns the part of its calls that was predicted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        line = self._process.stdout.readline()
        self._process.wait()
        return float(line or 0.0)


def program_rows(name: str, python: str, handle: DeviceHandle, turns: int) -> tuple[list[Timing], bool]:
    """The times and the ratio of a program on a device, printed, and True if its target is met."""
    contestants = {
        "PyTorch": Program(python, "pytorch", name, {}),
        f"netcl.torch, {driver_of(handle)}": Program(sys.executable, "netcl", name, {"NETCL_DEVICE": handle.selector}),
    }
    times: dict[str, list[float]] = {label: [] for label in contestants}
    try:
        for program in contestants.values():
            program.turn(WARM_UP)
        for turn in range(turns):
            for label in list(contestants) if turn % 2 else reversed(contestants):
                times[label].append(contestants[label].turn(PROGRAMS[name]))
    finally:
        shares = [program.close() for program in contestants.values()]
    theirs, ours = times.values()
    rows = [timing(name, label, values) for label, values in times.items()]
    ratio = timing(name, f"PyTorch / {rows[1].contestant}", [a / b for a, b in zip(theirs, ours)], "")
    asked = 0.6 if name in SMALL_OPS else 1.0 if rows[0].median > 5 else None
    met = asked is None or ratio.median >= asked
    verdict = "" if asked is None else f">= {asked} {'holds' if met else 'MISSED'}"
    spread = f"{ratio.low:.2f} to {ratio.high:.2f}"
    print(
        f"{name:<14}{rows[1].contestant:<22}{rows[0].median:>9.2f}{rows[1].median:>9.2f}{ratio.median:>8.2f}"
        f"{spread:>16}{shares[-1]:>11.1%}  {verdict}",
        flush=True,
    )
    return [*rows, ratio], met


def own_steps(handle: DeviceHandle, batch: int) -> Iterator[float]:
    """The losses of the digits network through netcl's own names."""
    x, y = example_digits()
    with device(handle):
        nc.manual_seed(0)
        loader = DataLoader((x, y), batch, shuffle=True, drop_last=True, seed=0)
        model = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 10)),
        )
        optimizer = AdamW(model.parameters(), lr=1e-3)
        while True:
            for images, labels in loader:
                optimizer.zero_grad()
                loss = ag.cross_entropy(model(Tensor.from_host(images)), Tensor.from_host(labels))
                loss.backward()
                optimizer.step()
                yield loss.item()


def facade_steps(handle: DeviceHandle, batch: int) -> Iterator[float]:
    """The losses of the same network as a program for PyTorch writes it."""
    import netcl.torch as torch
    import netcl.torch.nn.functional as F
    from netcl.torch.utils.data import DataLoader, TensorDataset

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
            self.conv2, self.bn2 = torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32)
            self.fc = torch.nn.Linear(32 * 4 * 4, 10)

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(self.bn1(self.conv1(x)))
            x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
            logits: Tensor = self.fc(torch.flatten(x, 1))
            return logits

    x, y = example_digits()
    with device(handle):
        torch.manual_seed(0)
        samples = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        loader = DataLoader(samples, batch_size=batch, shuffle=True, drop_last=True)
        model = Net().to(handle)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        while True:
            for images, labels in loader:
                images, labels = images.to(handle), labels.to(handle)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                yield loss.item()


def _timed(steps: Iterator[float], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        next(steps)
    return 1e3 * (time.perf_counter() - began) / count


def bounds_of_median(values: list[float]) -> tuple[float, float]:
    """The bounds (95 %) of the median of a population of which ``values`` are samples, by the bootstrap."""
    drawn = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


def facade_rows(handle: DeviceHandle, turns: int, batch: int = 64, steps: int = 10) -> tuple[list[Timing], bool]:
    """The times of the two, printed with the bounds of their ratio, and True if the upper one is met."""
    works = {"netcl": own_steps(handle, batch), "netcl.torch": facade_steps(handle, batch)}
    times: dict[str, list[float]] = {label: [] for label in works}
    for work in works.values():
        _timed(work, 2 * WARM_UP)
    for turn in range(4 * turns):
        for label in list(works) if turn % 2 else reversed(works):
            times[label].append(_timed(works[label], steps))
    ratios = [b / a for a, b in zip(*times.values())]
    low, high = bounds_of_median(ratios)
    rows = [timing("facade", f"{label}, {driver_of(handle)}", values) for label, values in times.items()]
    verdict = f"<= 1.05 {'holds' if high <= 1.05 else 'MISSED'}"
    print(
        f"facade: {driver_of(handle)}, netcl {rows[0].median:.2f} ms, netcl.torch {rows[1].median:.2f} ms, ratio "
        f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]  {verdict}",
        flush=True,
    )
    return rows, high <= 1.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", default=",".join((*PROGRAMS, "facade")), help="programs, and facade")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    devices = [each for each in handles(options.devices) if each.backend != "cpu" or options.devices]
    chosen = options.only.split(",")
    python, collected, met = python_of("pytorch", "torch"), [], True
    if python is None:
        print("PyTorch is not installed: no program is timed")
    else:
        print(f"{'program':<14}{'on':<22}{'PyTorch':>9}{'ms':>9}{'ratio':>8}{'middle half':>16}{'predicted':>11}")
        for name in (name for name in PROGRAMS if name in chosen):
            for handle in devices:
                rows, holds = program_rows(name, python, handle, options.turns)
                collected, met = [*collected, *rows], met and holds
    if "facade" in chosen:
        for handle in devices:
            rows, holds = facade_rows(handle, options.turns)
            collected, met = [*collected, *rows], met and holds
    save(options.json, collected)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
