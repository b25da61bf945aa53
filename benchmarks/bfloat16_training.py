"""The losses of training in bfloat16 autocast, by netcl and by PyTorch from the same weights.

``python benchmarks/bfloat16_training.py [--device gpu] [--steps 300] [--orders 5]``. A GPT learns the characters of
this project's documents, a ResNet-18 made pictures of ten classes. PyTorch trains from one set of weights with
``orders`` orders of the data; netcl with the first. The mean loss of the last 50 steps may differ from PyTorch's with
the same order by at most PyTorch's spread over the orders. Needs PyTorch, and runs it on CUDA if there is some.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import models
import numpy as np
import torch

import netcl as nc
from netcl.core import Tensor
from netcl.core.device import device
from netcl.runtime.capture import capture

Array = np.ndarray[Any, Any]
LENGTH = 256
LAST = 50  # steps of the mean


def text() -> Array:
    """The documents as numbers of the most frequent characters; all others are the first one."""
    folder = Path(__file__).parents[1] / "docs"
    letters = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.md")))[:1_000_000]
    values = np.frombuffer(letters.encode("utf-32-le"), np.uint32)
    known, counts = np.unique(values, return_counts=True)
    frequent = known[np.argsort(-counts, kind="stable")][: models.CHARACTERS]
    numbers = np.zeros(values.shape, np.int64)
    for number, character in enumerate(frequent):
        numbers[values == character] = number
    return numbers


def batches(name: str, order: int, steps: int, size: int) -> list[tuple[Array, Array]]:
    """The batches of a run, in an order of its own."""
    rng = np.random.default_rng(1000 + order)
    if name == "gpt":
        data = text()
        starts = rng.integers(0, len(data) - LENGTH - 1, (steps, size))
        rows = data[starts[..., None] + np.arange(LENGTH + 1)]
        return [(row[:, :-1], row[:, 1:]) for row in rows]
    templates = np.random.default_rng(0).standard_normal((10, 3, 4, 4)).repeat(8, 2).repeat(8, 3)
    found = []
    for _ in range(steps):
        labels = rng.integers(0, 10, size)
        pictures = templates[labels] + 3 * rng.standard_normal((size, 3, 32, 32))
        found.append((pictures.astype(np.float32), labels))
    return found


def theirs(name: str, state: dict[str, Any], given: list[tuple[Array, Array]], where: str) -> list[float]:
    """PyTorch's losses."""
    model = models.model(name, torch)
    model.load_state_dict(state)
    model.to(where)
    updates = models.optimizer(name, torch.optim, model.parameters())
    losses = []
    for batch in given:
        x, y = (torch.tensor(array, device=where) for array in batch)
        with torch.autocast(where, torch.bfloat16):
            loss = models.loss(name, torch, model(x), y)
        updates.zero_grad()
        loss.backward()
        updates.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def ours(name: str, state: dict[str, Any], given: list[tuple[Array, Array]]) -> list[float]:
    """netcl's losses, of a captured step."""
    model = models.model(name, nc)
    model.load_state_dict({key: value.numpy() for key, value in state.items()})
    updates = models.optimizer(name, nc.optim, model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        updates.zero_grad()
        with nc.autocast(True, "bfloat16"):
            loss: Tensor = models.loss(name, nc, model(x), y)
        loss.backward()
        updates.step()
        return loss

    losses: list[float] = []
    captured = None
    for number, batch in enumerate(given):
        x, y = (Tensor.from_host(array) for array in batch)
        if number < 2:
            losses.append(float(step(x, y)))
            continue
        captured = captured or capture(step, x, y)
        losses.append(float(captured.replay(x, y)))
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="gpu", help="a selector")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--networks", default="gpt,resnet18")
    options = parser.parse_args()
    where = "cuda" if torch.cuda.is_available() else "cpu"
    for name in options.networks.split(","):
        size = 16 if name == "gpt" else 128
        torch.manual_seed(0)
        state = {key: value.clone() for key, value in models.model(name, torch).state_dict().items()}
        begun = time.perf_counter()
        means, first = [], []
        for order in range(options.orders):
            losses = theirs(name, state, batches(name, order, options.steps, size), where)
            means.append(float(np.mean(losses[-LAST:])))
            first = first or losses
        with device(options.device) as handle:
            found = ours(name, state, batches(name, 0, options.steps, size))
        mean, spread = float(np.mean(found[-LAST:])), max(means) - min(means)
        verdict = "within" if abs(mean - means[0]) <= spread else "OUTSIDE"
        print(f"{name}, {options.steps} steps, {time.perf_counter() - begun:.0f} s")
        print(f"  netcl on {handle.device_name}: {found[0]:.4f} to {mean:.4f}")
        print(f"  PyTorch on {where}: {first[0]:.4f} to {', '.join(f'{one:.4f}' for one in means)}")
        print(f"  difference {abs(mean - means[0]):.4f}, {verdict} the spread {spread:.4f}", flush=True)


if __name__ == "__main__":
    main()
