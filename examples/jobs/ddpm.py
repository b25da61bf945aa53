"""Trains a denoising diffusion model on 1,797 scans of handwritten digits, and lets it write digits on demand.

    python examples/jobs/ddpm.py --picture written.png

The network is told the digit and how much noise there is. The last line is how many of 200 digits that it wrote are
read as the digit that was asked for, by the nearest of all scans: about 95 %, after about 100 s on two cores of an AMD
EPYC (Intel's CPU runtime), which other work shared. Digits written at random would be right in 10 %.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.data import DataLoader, example_digits
from netcl.optim import AdamW, CosineAnnealingLR, ModelEMA
from netcl.trainer import Trainer

Array = np.ndarray[Any, Any]


class Noise:
    """How much of an image is left after each of ``steps`` steps of noise, and the way there and back."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        left = np.cos(np.linspace(0.02, 1, steps + 1) * np.pi / 2) ** 2
        self.beta = np.clip(1 - left[1:] / left[:-1], 0, 0.999)
        self.left = np.cumprod(1 - self.beta)

    def add(self, batch: tuple[Array, Array], rng: Any) -> tuple[Array, Array, Array, Array]:
        """Images with noise of a random step, those steps, the digits, and the noise, which is the target."""
        images, digits = batch
        steps = (rng.random(len(images)) * self.steps).astype(np.int64)
        left = self.left[steps, None, None, None]
        noise = np.sqrt(-2 * np.log(1 - rng.random(images.shape))) * np.cos(2 * np.pi * rng.random(images.shape))
        noisy = np.sqrt(left) * images + np.sqrt(1 - left) * noise
        return noisy.astype(np.float32), steps, digits, noise.astype(np.float32)

    def remove(self, model: nn.Module, digits: Array) -> Array:
        """Images of these digits, from nothing but noise, (n, 1, 8, 8) between -1 and 1."""
        wanted = nc.tensor(digits)
        x = nc.randn(len(digits), 1, 8, 8)
        with nc.no_grad():
            for step in reversed(range(self.steps)):
                beta, left = float(self.beta[step]), float(self.left[step])
                seen = model(x, nc.full((len(digits),), step, dtype="int64"), wanted)
                x = (x - beta / (1 - left) ** 0.5 * seen) / (1 - beta) ** 0.5
                if step:
                    x = x + beta**0.5 * nc.randn(*x.shape)
        written: Array = x.numpy().clip(-1, 1)
        return written


class Block(nn.Module):
    """Adds to its input two convolutions of it, between which a vector is added at every pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.told = nn.Linear(width, width)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        h = self.conv1(nc.silu(self.norm1(x))) + self.told(told)[:, :, None, None]
        return x + self.conv2(nc.silu(self.norm2(h)))


class Denoiser(nn.Module):
    """The noise in images (n, 1, 8, 8) of known steps and digits, (n,) each: blocks at 8 x 8 and at 4 x 4 pixels."""

    def __init__(self, steps: int, width: int, blocks: int) -> None:
        super().__init__()
        wide = 2 * width
        self.step, self.digit, self.narrow = nn.Embedding(steps, wide), nn.Embedding(10, wide), nn.Linear(wide, width)
        self.enter, self.first = nn.Conv2d(1, width, 3, padding=1), Block(width)
        self.down, self.up = nn.Conv2d(width, wide, 2, stride=2), nn.ConvTranspose2d(wide, width, 2, stride=2)
        self.blocks = nn.ModuleList([Block(wide) for _ in range(blocks)])
        self.last, self.leave = Block(width), nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor, digits: Tensor) -> Tensor:
        told = nc.silu(self.step(steps) + self.digit(digits))
        fine = self.first(self.enter(x), self.narrow(told))
        coarse = self.down(fine)
        for block in self.blocks:
            coarse = block(coarse, told)
        noise: Tensor = self.leave(nc.silu(self.last(fine + self.up(coarse), self.narrow(told))))
        return noise


def read(images: Array, scans: Array, labels: Array) -> Array:
    """The digit of the scan that is nearest to each image."""
    rows, known = images.reshape(len(images), -1), scans.reshape(len(scans), -1)
    nearest: Array = labels[((known**2).sum(axis=1) - 2 * rows @ known.T).argmin(axis=1)]
    return nearest


def draw(path: Path, images: Array) -> None:
    """Writes images (digits, 4, 8, 8) to a file, a column for each digit that was asked for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.9), layout="constrained")
    for axes, image in zip(figure.subplots(4, len(images)).T.flat, images.reshape(-1, 8, 8)):
        axes.imshow(image, cmap="gray_r", vmin=-1, vmax=1)
        axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--epochs", type=int, help="60 by default, 14 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="write the digits to this file")
    parser.add_argument("--quick", action="store_true", help="two digits, fewer, channels and steps of noise")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    kinds, width, blocks, noise = (2, 16, 1, Noise(20)) if options.quick else (10, 32, 2, Noise(100))
    epochs, batch_size = options.epochs or (14 if options.quick else 60), 32 if options.quick else 64
    scans, labels = example_digits()
    scans, labels = 2 * scans[labels < kinds] - 1, labels[labels < kinds]
    with device(options.device):
        nc.manual_seed(options.seed)
        loader = DataLoader(
            (scans, labels), batch_size, shuffle=True, drop_last=True, augment=noise.add, seed=options.seed
        )
        model = Denoiser(noise.steps, width, blocks)
        ema = ModelEMA(model, decay=0.95 if options.quick else 0.99)
        optimizer = AdamW(model.parameters(), lr=1e-2 if options.quick else 4e-3)
        schedule = CosineAnnealingLR(optimizer, epochs)
        trainer = Trainer(
            model, optimizer, loss_fn=nn.MSELoss(), metrics={}, ema=ema, scheduler=schedule, grad_clip=1.0
        )
        start = time.perf_counter()
        trainer.fit(loader, epochs=epochs)
        seconds = time.perf_counter() - start
        asked = np.arange(kinds).repeat(20)
        model.eval()
        with ema.averaged():
            written = noise.remove(model, asked)
    if options.picture:
        draw(options.picture, written.reshape(kinds, 20, 8, 8)[:, :4])
    right = (read(written, scans, labels) == asked).mean()
    print(f"written as asked {100 * right:.1f} %, at random {100 / kinds:.1f} %, {seconds:.1f} s")


if __name__ == "__main__":
    main()
