"""Trains a small model for some steps, on one device or as a rank, in ways that must give the same numbers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import Tensor, manager
from netcl.ops import manual_seed
from netcl.optim import SGD

Values = dict[str, np.ndarray]
DRAWS = threading.Lock()  # ranks that are threads draw from one generator


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns twelve images (12, 1, 8, 8) and their labels."""
    rng = np.random.default_rng(step)
    return rng.standard_normal((12, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 12)


def make(kind: str) -> Any:
    """Returns an "mlp", a "dropout" mlp, a "cnn", or a "norm" cnn with batch normalisation."""
    from netcl import nn

    manual_seed(11)
    if kind in ("mlp", "dropout"):
        hidden = [nn.Linear(64, 16), nn.ReLU(), *([nn.Dropout(0.3)] if kind == "dropout" else [])]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(16, 3))
    convolution = [nn.Conv2d(1, 4, 3, padding=1), *([nn.BatchNorm2d(4)] if kind == "norm" else [])]
    return nn.Sequential(*convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))


def train(kind: str, steps: int, wrap: Callable[[Any], Any] = lambda module: module) -> Values:
    """Returns the state after ``steps`` steps on the whole batches, or on what ``shard`` leaves of them."""
    with DRAWS:
        module = make(kind)
    manual_seed(5)
    model = wrap(module)
    optimizer = SGD(module.parameters(), lr=0.05, momentum=0.9)
    shard = model.shard if isinstance(model, dist.DataParallel) else lambda *arrays: arrays
    for step in range(steps):
        x, y = shard(*batch(step))
        optimizer.zero_grad()
        ag.cross_entropy(model(Tensor.from_host(x)), Tensor.from_host(y)).backward()
        optimizer.step()
    return {name: value.numpy() for name, value in module.state_dict().items()}


def distance(values: Values, expected: Values) -> float:
    """Returns the norm of the difference over the norm of the expected, the largest of all names."""
    norms = [np.linalg.norm(values[name] - value.astype(float)) for name, value in expected.items()]
    return max(norm / max(float(np.linalg.norm(value)), 1e-30) for norm, value in zip(norms, expected.values()))


def wrapped(kind: str, weights: list[float] | None, **options: Any) -> Callable[[Any], Any]:
    def wrap(module: Any) -> Any:
        converted = dist.convert_sync_batchnorm(module) if kind == "norm" else module
        return dist.DataParallel(converted, weights=weights, **options)

    return wrap


def parts(count: int) -> list[Any]:
    """Returns the default device as ``count``."""
    handle = manager.default()
    return manager.split(handle, count) if handle.backend == "cl" else [handle] * count


def main() -> None:
    """Runs ``training.py FILE STEPS DEVICES KIND...``: rank 0 writes the state of each kind, in equal and unequal
    shards, as npz. Several devices are each process's; the last rank has one less in "unequal".
    """
    group = dist.init_process_group()
    path, steps, devices, kinds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    fewer = devices - (devices > 1 and group.rank == group.size - 1)
    for kind in kinds:
        for name, count in (("equal", devices), ("unequal", fewer)):
            shards = group.size if devices == 1 else count
            weights = [float(at + 1) if name == "unequal" else 1.0 for at in range(shards)]
            state = train(kind, steps, wrapped(kind, weights, devices=parts(count) if devices > 1 else None))
            if group.rank == 0:
                np.savez(f"{path}-{kind}-{name}.npz", **state)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
