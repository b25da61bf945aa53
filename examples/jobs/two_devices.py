"""Trains one network on two devices, and on one, and compares them.

    python examples/jobs/two_devices.py --picture losses.png
    python examples/jobs/two_devices.py --devices gpu:0,gpu:1

Without --devices the one device is cut into two halves. Each device computes its part of a batch, their gradients are
summed, and batch normalization uses the statistics of the whole batch: the losses equal one device's to rounding.
The last line is how many scans of digits held out are read right: 98.3 % both ways, after about 15 s each on the two
cores of an AMD EPYC (Intel's CPU runtime), which other work shared. The first losses differ by about 1e-5; guessing is
right in 10 %.
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
from netcl.core.device import device, get_active_device, manager
from netcl.data import DataLoader, example_digits
from netcl.distributed import DataParallel, convert_sync_batchnorm
from netcl.optim import SGD, CosineAnnealingLR

Array = np.ndarray[Any, Any]
COMPARED = 10  # steps after which rounding is still small


def make_network(width: int) -> nn.Sequential:
    """Convolutions with batch normalization, and a head."""
    return nn.Sequential(
        *(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(2 * width * 16, 10),
    )


def train(devices: list[Any], learn: tuple[Array, Array], options: argparse.Namespace) -> tuple[Any, list[float], Any]:
    """A network that was trained on one or several devices, its losses, and the part of a batch of each device."""
    nc.manual_seed(options.seed)
    model = make_network(options.width)
    trained: Any = model
    if len(devices) > 1:
        trained = DataParallel(convert_sync_batchnorm(model), devices=devices)
    loader = DataLoader(learn, 128, shuffle=True, drop_last=True, seed=options.seed)
    optimizer, loss_fn = SGD(trained.parameters(), lr=0.01, momentum=0.9), nn.CrossEntropyLoss()
    schedule = CosineAnnealingLR(optimizer, options.epochs)
    losses = []
    for epoch in range(options.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_fn(trained(nc.tensor(images)), nc.tensor(labels))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        print(f"{len(devices)} {'devices' if len(devices) > 1 else 'device'}, epoch {epoch + 1}: loss {losses[-1]:.4f}")
    return trained, losses, getattr(trained, "weights", None)


def right(model: Any, images: Array, labels: Array) -> float:
    """How many images the model reads right, in per cent."""
    model.eval()
    with nc.no_grad():
        read = model(nc.tensor(images)).numpy().argmax(axis=1)
    return float(100 * (read == labels).mean())


def draw(path: Path, one: list[float], two: list[float]) -> None:
    """Writes the losses of both, and by how much they differ, to a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.6), layout="constrained")
    left, apart = figure.subplots(1, 2)
    left.semilogy(one, color="#667080", lw=3, label="one device")
    left.semilogy(two, color="#d97706", ls="--", label="two devices")
    left.set(xlabel="step", title="loss")
    left.legend(frameon=False)
    apart.semilogy(np.maximum(abs(np.array(one) - two), 1e-9), color="#2563eb")
    apart.set(xlabel="step", title="difference of the losses", ylim=(1e-9, 1))
    for axes in (left, apart):
        axes.grid(color="#e5e7eb")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--devices", help="several, with commas between: gpu:0,pocl; two halves of --device without it")
    parser.add_argument("--epochs", type=int, help="8 by default, 3 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw the losses to this file")
    parser.add_argument("--quick", action="store_true", help="a smaller network, trained for less")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')
    options.width = 4 if options.quick else 32
    options.epochs = options.epochs or (3 if options.quick else 8)

    images, labels = example_digits()
    held_out = np.arange(len(images)) % 5 == 4
    learn, test = (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])
    with device(options.device):
        whole = get_active_device()
        parts: list[Any]
        if options.devices:
            parts = [manager.default(name) for name in options.devices.split(",")]
        else:
            parts = list(manager.split(whole, 2))
        print("on", ", ".join(f"{part.device_name} ({part.platform_name})" for part in parts))
        model, losses, _ = train([whole], learn, options)
        alone = right(model, *test)
        start = time.perf_counter()
        model, shared, weights = train(parts, learn, options)
        seconds = time.perf_counter() - start
        print(f"part of a batch of each device: {', '.join(f'{weight:.2f}' for weight in weights)}")
        together = right(model, *test)
    if options.picture:
        draw(options.picture, losses, shared)
    apart = max(abs(a - b) for a, b in zip(losses[:COMPARED], shared))
    print(f"two devices {together:.1f} %, one device {alone:.1f} %, losses differ by {apart:.1e}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
