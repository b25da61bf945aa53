"""The jobs of ``netcl bench`` in PyTorch, if it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.autograd.levels import LEVELS
from netcl.data import example_digits

if TYPE_CHECKING or "profiling" in LEVELS:
    from netcl.profiling.timing import timing


def pytorch_times(runs: int) -> tuple[str, dict[str, float]]:
    """Returns PyTorch's name and version, and the median seconds of each job on the CPU; ("", {}) without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return "", {}
    torch: Any = importlib.import_module("torch")
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    a, b, m, n = tensor(1 << 22), tensor(1 << 22), tensor(512, 512), tensor(512, 512)
    image, kernel = tensor(16, 32, 28, 28), tensor(64, 32, 3, 3)
    jobs: dict[str, Callable[[], Any]] = {
        "add, 4 Mi elements": lambda: a + b,
        "sum, 4 Mi elements": lambda: a.sum(),
        "matmul 512 x 512 x 512": lambda: m @ n,
        "conv2d 16 x 32 x 28 x 28, 3 x 3": lambda: torch.nn.functional.conv2d(image, kernel, padding=1),
        "training step, digits": _digits_step(torch),
    }
    name = f"PyTorch {torch.__version__} on the CPU, {torch.get_num_threads()} threads"
    return name, {job: timing(run, warmup=3, runs=runs).median for job, run in jobs.items()}


def _digits_step(torch: Any) -> Callable[[], None]:
    """Returns one training step of the network of ``netcl bench`` on 64 digits."""
    x, y = (torch.from_numpy(array) for array in example_digits(64))
    nn = torch.nn
    layers = [nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step
