"""A layer of one's own around a kernel of one's own: a moving average that a network learns through.

    python examples/custom_layer.py --epochs 20

The network tells sine waves from square waves under noise; the last line is its accuracy on waves held out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import netcl as nc
import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.core.kernels.primitives import KernelSpec
from netcl.data import DataLoader
from netcl.optim import Adam

Array = np.ndarray[Any, Any]

# One work-item per number: the mean of its row within ``radius`` places, zeros beyond the ends.
SMOOTH = KernelSpec(
    name="smooth",
    params=["__global const float* x", "__global float* y", "const int length", "const int radius"],
    body="""
    const int i = (int)get_global_id(0);
    const size_t row = get_global_id(1) * (size_t)length;
    float sum = 0.0f;
    for (int j = max(0, i - radius); j <= min(length - 1, i + radius); ++j) sum += x[row + j];
    y[row + i] = sum / (float)(2 * radius + 1);
    """,
)


def smoothed(x: Tensor, radius: int) -> Tensor:
    """The moving average of each row of x (rows, length), by the kernel, or by NumPy if x is on the host."""
    y = Tensor.empty(x.shape, queue=x.queue)
    if x.device.backend == "cl":
        SMOOTH.build(x.device).run(x.queue, x.shape[::-1], None, x, y, x.shape[1], radius)
        return y
    sums = np.cumsum(np.pad(x.numpy(), [(0, 0), (radius + 1, radius)]), axis=1, dtype=np.float64)
    return y.write((sums[:, 2 * radius + 1 :] - sums[:, : x.shape[1]]) / (2 * radius + 1))


class Smooth(ag.Function):
    """The op: each output weighs an input as much as that input's output weighs back, so its gradient is itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, radius: int) -> Tensor:
        ctx.radius = radius
        return smoothed(x, radius)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return Smooth.apply(grad, ctx.radius), None


@nn.register
class MovingAverage(nn.Module):
    """The mean of each row of x (rows, length), float32, within ``radius`` places."""

    def __init__(self, radius: int) -> None:
        super().__init__()
        self.radius = radius

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.dtype != "float32":
            raise ShapeError(
                f"{self!r}: expected x (rows, length), float32, got {x.shape}, {x.dtype}", op="MovingAverage"
            )
        return Smooth.apply(x, self.radius)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"radius={self.radius}"


def waves(count: int, seed: int) -> tuple[Array, Array]:
    """Waves (count, 64) of a random phase, and whether each is square."""
    rng = np.random.default_rng(seed)
    square = rng.integers(0, 2, count)
    sine = np.sin(np.linspace(0, 4 * np.pi, 64) + 2 * np.pi * rng.random((count, 1)))
    clean = np.where(square[:, None], np.sign(sine) * np.pi / 4, sine)
    return (clean + 0.4 * rng.standard_normal((count, 64))).astype(np.float32), square


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()

    (x, y), (test, labels) = waves(4000, 0), waves(1000, 1)
    with device(options.device):
        nc.manual_seed(0)
        probe = ag.Parameter(ag.randn(2, 9))
        ag.gradcheck(lambda t: Smooth.apply(t, 2), [probe], eps=1e-2)
        model = nn.Sequential(
            nn.Linear(64, 64), MovingAverage(2), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
        )
        optimizer, loss_fn = Adam(model.parameters(), lr=2e-3), nn.CrossEntropyLoss()
        for _ in range(options.epochs):
            for batch, wanted in DataLoader((x, y), 100, shuffle=True, seed=0):
                optimizer.zero_grad()
                loss_fn(model(nc.tensor(batch)), nc.tensor(wanted)).backward()
                optimizer.step()
        with nc.no_grad():
            guessed = model(nc.tensor(test)).numpy().argmax(axis=1)
    print(f"accuracy {100 * (guessed == labels).mean():.1f} %")


if __name__ == "__main__":
    main()
