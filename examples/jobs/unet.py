"""Trains a U-Net to mark the cells of micrographs that are made here: unevenly lit, noisy, crossed by bright fibres.

    python examples/jobs/unet.py --picture unet.png

Four fifths of 480 images of 64 x 64 pixels are trained on; the last line is how much the marked pixels of the others
overlap the true ones (intersection over union): about 0.96, after about 70 s on two cores of an AMD EPYC (Intel's CPU
runtime), which other work shared. The best threshold of brightness reaches 0.35.
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
from netcl.data import DataLoader
from netcl.optim import AdamW, OneCycleLR
from netcl.trainer import Trainer

Array = np.ndarray[Any, Any]


def micrographs(count: int, side: int, seed: int) -> tuple[Array, Array]:
    """Images and masks, both (count, 1, side, side), float32; a mask is 1 in cells, else 0."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    images, masks = np.empty((2, count, 1, side, side), np.float32)
    for image, mask in zip(images[:, 0], masks[:, 0]):
        mask[:] = 0
        for _ in range(rng.integers(4, 9)):
            across, down, turn = *rng.random(2), np.pi * rng.random()
            long, short = rng.uniform(0.08, 0.16), rng.uniform(0.05, 0.09)
            u = np.cos(turn) * (x - across) + np.sin(turn) * (y - down)
            v = np.cos(turn) * (y - down) - np.sin(turn) * (x - across)
            mask[(u / long) ** 2 + (v / short) ** 2 < 1] = 1
        image[:] = 0.35 * mask
        for _ in range(2):
            turn, offset = np.pi * rng.random(), rng.uniform(-0.3, 0.3)
            image[abs(np.cos(turn) * (x - 0.5) + np.sin(turn) * (y - 0.5) - offset) < 0.012] = 0.5
        turn = 2 * np.pi * rng.random()
        image += 0.6 * (np.cos(turn) * x + np.sin(turn) * y) + 0.12 * rng.standard_normal((side, side))
    return images - images.mean(axis=(2, 3), keepdims=True), masks


def double_convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    """Two convolutions 3 x 3, each with batch normalization and ReLU."""
    layers: list[nn.Module] = []
    for channels in (channels_in, channels_out):
        layers += [nn.Conv2d(channels, channels_out, 3, padding=1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Images (n, 1, h, w) to logits of that shape: halved twice, doubled twice, and joined at each size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down1 = double_convolution(1, width)
        self.down2 = double_convolution(width, 2 * width)
        self.bottom = double_convolution(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.join2 = double_convolution(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.join1 = double_convolution(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down1(x)
        coarse = self.down2(nc.max_pool2d(fine, 2))
        x = self.up2(self.bottom(nc.max_pool2d(coarse, 2)))
        x = self.up1(self.join2(nc.cat([x, coarse], dim=1)))
        logits: Tensor = self.head(self.join1(nc.cat([x, fine], dim=1)))
        return logits


def loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Cross entropy of each pixel, and one minus the Dice coefficient of the whole batch."""
    marked = nc.sigmoid(logits)
    dice = (2 * (marked * masks).sum() + 1) / (marked.sum() + masks.sum() + 1)
    crossed: Tensor = nn.functional.binary_cross_entropy_with_logits(logits, masks)
    return crossed + 1 - dice


def overlap(marked: Array, true: Array) -> float:
    """Pixels that are in both, as a part of those that are in one."""
    return float((marked & true).sum() / (marked | true).sum())


def draw(path: Path, images: Array, masks: Array, marked: Array) -> None:
    """Writes four images, their cells, and the pixels that the network marked, to a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.7), layout="constrained")
    for row, (name, values) in enumerate((("image", images), ("cells", masks), ("marked", marked))):
        for column in range(4):
            axes = figure.add_subplot(3, 4, 4 * row + column + 1)
            axes.imshow(values[column, 0], cmap="gray", interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            if column == 0:
                axes.set_ylabel(name)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--epochs", type=int, help="8 by default, 5 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="write marked images to this file")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller images, fewer channels")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    count, side, width, batch_size = (100, 32, 4, 5) if options.quick else (480, 64, 16, 16)
    epochs = options.epochs or (5 if options.quick else 8)
    x, y = micrographs(count, side, options.seed)
    held_out = np.arange(count) % 5 == 4
    with device(options.device):
        nc.manual_seed(options.seed)
        train = DataLoader((x[~held_out], y[~held_out]), batch_size, shuffle=True, seed=options.seed)
        model = UNet(width)
        optimizer = AdamW(model.parameters())
        schedule = OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * len(train))
        trainer = Trainer(model, optimizer, loss_fn=loss, metrics={}, scheduler=schedule)
        start = time.perf_counter()
        trainer.fit(train, epochs=epochs)
        seconds = time.perf_counter() - start
        marked = trainer.predict(DataLoader(x[held_out], 32)) > 0
    true = y > 0.5
    # The threshold is chosen by the images that are trained on, as the network is.
    levels = np.quantile(x[~held_out], np.linspace(0.3, 0.98, 35))
    level = max(levels, key=lambda value: overlap(x[~held_out] > value, true[~held_out]))
    if options.picture:
        draw(options.picture, x[held_out], y[held_out], marked)
    bright = overlap(x[held_out] > level, true[held_out])
    print(f"overlap {overlap(marked, true[held_out]):.3f}, brightness alone {bright:.3f}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
