"""Trains ResNet-18 on CIFAR-10 with the Trainer.

    python examples/cifar10_resnet18.py --data folder/with/cifar-10-batches-bin --epochs 15

The folder holds the binary version from https://www.cs.toronto.edu/~kriz/cifar.html; nothing is downloaded. Without one
the script says so and trains on a few synthetic images instead, a few minutes on two cores. The last line is the
accuracy on the test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core.device import device
from netcl.data import CIFAR10Arrays, DataLoader
from netcl.optim import SGD, CosineAnnealingLR
from netcl.trainer import Trainer

Array = np.ndarray[Any, Any]
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)[:, None, None]
STAND_IN, STAND_IN_EPOCHS = 640, 3  # what two cores train on in a few minutes
STD = np.array([0.2470, 0.2435, 0.2616], np.float32)[:, None, None]


def synthetic(count: int, seed: int) -> tuple[Array, Array]:
    """Images of ten classes that a network can distinguish: stripes with a direction and a colour each, and noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    row, column = np.mgrid[:32, :32] / 32
    angle = labels[:, None, None] * np.pi / 10
    waves = np.sin(12 * np.pi * (np.cos(angle) * row + np.sin(angle) * column) + 6 * rng.random((count, 1, 1)))
    colours = np.random.default_rng(0).random((10, 3))[labels][:, :, None, None]
    images = 128 + 50 * waves[:, None] * colours + 30 * rng.standard_normal((count, 3, 32, 32))
    return images.clip(0, 255).astype(np.uint8), labels


def load(folder: Path | None, count: int | None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Images (n, 3, 32, 32), uint8, and labels, to train on and to test."""
    if folder is None:
        print("no --data folder with the CIFAR-10 binaries: training on synthetic images, not on CIFAR-10")
        return synthetic(count or STAND_IN, 1), synthetic((count or STAND_IN) // 4, 2)
    parts = (CIFAR10Arrays(folder, train=train) for train in (True, False))
    train, test = ((part.arrays[0][:count], part.arrays[1][:count]) for part in parts)
    return train, test


def prepare(batch: tuple[Array, Array], rng: Any) -> tuple[Array, Array]:
    """Mirrors every other image and moves all by up to four points, as is usual for CIFAR-10."""
    images, labels = batch
    mirrored = rng.random(len(images)) < 0.5
    images = np.where(mirrored[:, None, None, None], images[..., ::-1], images)
    padded = np.pad(images, [(0, 0), (0, 0), (4, 4), (4, 4)])
    down, right = (8 * rng.random((len(images), 2)) + 0.5).astype(int).T
    moved = [image[:, i : i + 32, j : j + 32] for image, i, j in zip(padded, down, right)]
    return normalize((np.stack(moved), labels))


def normalize(batch: tuple[Array, Array], rng: Any = None) -> tuple[Array, Array]:
    """Points as float32 with mean 0 and spread 1."""
    return (batch[0].astype(np.float32) / 255 - MEAN) / STD, batch[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--data", type=Path, help="folder with the binary version of CIFAR-10")
    parser.add_argument("--epochs", type=int, help=f"15 by default, {STAND_IN_EPOCHS} without --data")
    parser.add_argument("--batch-size", type=int, help="128 by default, 32 without --data")
    parser.add_argument("--samples", type=int, help="so many images only, for a trial")
    options = parser.parse_args()
    epochs = options.epochs or (15 if options.data else STAND_IN_EPOCHS)
    batch_size = options.batch_size or (128 if options.data else 32)

    train, test = load(options.data, options.samples)
    with device(options.device):
        nc.manual_seed(0)
        loader = DataLoader(train, batch_size, shuffle=True, drop_last=True, augment=prepare, seed=0)
        model = nn.resnet.resnet18(num_classes=10, stem="cifar")
        rate = 0.1 * batch_size / 128
        optimizer = SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
        trainer = Trainer(model, optimizer, scheduler=CosineAnnealingLR(optimizer, epochs), seed=0)
        trainer.fit(loader, epochs=epochs)
        logits = trainer.predict(DataLoader(normalize(test)[0], batch_size=batch_size))
    print(f"accuracy {100 * (logits.argmax(axis=1) == test[1]).mean():.2f} %")


if __name__ == "__main__":
    main()
