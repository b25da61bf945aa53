"""Fine-tunes a network from a safetensors file on digits that it has never seen, a few scans of each.

    python examples/jobs/fine_tune.py --picture scans.png

A network is trained on the digits 0 to 5 at any place of an image first and saved as safetensors; with --weights FILE
that is not repeated if the file is there. A network with its layers and another head then learns the digits 6 to 9 from
sixteen scans of each. The last line is how many other scans of these it reads right: about 82 %, after about a minute
on two cores of an AMD EPYC (Intel's CPU runtime), which other work shared. From random weights it learns to read about
70 %.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core.device import device
from netcl.data import DataLoader, example_digits
from netcl.io import load_safetensors, save_safetensors
from netcl.optim import AdamW
from netcl.trainer import Trainer

Array = np.ndarray[Any, Any]
OLD = 6  # digits that the file is of, 0 to 5
SIDE = 14


def placed(scans: Array, seed: int) -> Array:
    """Images (n, 1, SIDE, SIDE) with a scan of 8 x 8 pixels at a random place of each."""
    images = np.zeros((len(scans), 1, SIDE, SIDE), np.float32)
    places = np.random.default_rng(seed).integers(0, SIDE - 7, (len(scans), 2))
    for image, scan, (down, right) in zip(images, scans, places):
        image[0, down : down + 8, right : right + 8] = scan[0]
    return images


def make_network(classes: int, width: int) -> nn.Sequential:
    """Features of images, and a head on them."""
    features = nn.Sequential(
        *(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.BatchNorm2d(4 * width), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
    )
    return nn.Sequential(features, nn.Linear(4 * width * 9, classes))


def pretrain(path: Path, scans: Array, labels: Array, width: int, epochs: int, seed: int) -> None:
    """Trains on the first digits and writes the weights to a safetensors file."""
    model = make_network(OLD, width)
    images = placed(scans[labels < OLD], seed)
    loader = DataLoader((images, labels[labels < OLD]), 32, shuffle=True, seed=seed)
    Trainer(model, AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)).fit(loader, epochs=epochs)
    save_safetensors(model, path)


def learn(model: nn.Sequential, scans: Array, labels: Array, epochs: int, seed: int, *, tuned: bool) -> list[float]:
    """Trains a network on a few scans, first the head alone if its features are ``tuned`` already; gives the losses."""
    features, head = model[0], model[1]
    loader = DataLoader((scans, labels), len(scans), seed=seed)
    losses = []
    if tuned:
        features.requires_grad_(False)
        first = Trainer(model, AdamW(head.parameters(), lr=1e-2), compile=False)
        losses += first.fit(loader, epochs=epochs // 2, log_every=0).column("loss")
        features.requires_grad_(True)
    rates = [{"params": features.parameters(), "lr": 3e-4 if tuned else 3e-3}, {"params": head.parameters()}]
    whole = Trainer(model, AdamW(rates, lr=3e-3), compile=False)
    return losses + whole.fit(loader, epochs=epochs - len(losses), log_every=0).column("loss")


def draw(path: Path, scans: Array, labels: Array, read: dict[str, Array]) -> None:
    """Writes scans that both networks read in two ways to a file: the digit, and what each reads."""
    from matplotlib.figure import Figure

    tuned, fresh = read.values()
    shown = np.flatnonzero(tuned != fresh)[:16]
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    for axes, at in zip(figure.subplots(2, 8).flat, shown):
        axes.imshow(scans[at, 0], cmap="gray_r")
        color = "#2563eb" if tuned[at] == labels[at] else "#c44e52" if fresh[at] == labels[at] else "#667080"
        axes.set_title(f"{labels[at]}: {tuned[at]}, {fresh[at]}", fontsize=8, color=color)
        axes.axis("off")
    names = ", ".join(f"{name} ({100 * (made == labels).mean():.0f} % right)" for name, made in read.items())
    figure.suptitle(f"digit: {names}", fontsize=9)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="safetensors file to read, or to make")
    parser.add_argument("--scans", type=int, default=16, help="of each new digit")
    parser.add_argument("--epochs", type=int, help="on the new digits; 60 by default, 20 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw scans that are read in two ways to this file")
    parser.add_argument("--quick", action="store_true", help="a smaller network, trained for less")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    width, before, copies, epochs = (6, 2, 1, 20) if options.quick else (16, 4, 8, 60)
    epochs = options.epochs or epochs
    scans, labels = example_digits()
    new = np.random.default_rng(options.seed).permutation(np.flatnonzero(labels >= OLD))
    few = np.concatenate([new[labels[new] == digit][: options.scans] for digit in range(OLD, 10)])
    others = np.setdiff1d(new, few)
    images = placed(scans, options.seed - 1 if options.seed else 99)
    start = time.perf_counter()
    with device(options.device), tempfile.TemporaryDirectory() as folder:
        nc.manual_seed(options.seed)
        path = options.weights or Path(folder) / "digits.safetensors"
        if not path.is_file():
            pretrain(path, np.tile(scans, (copies, 1, 1, 1)), np.tile(labels, copies), width, before, options.seed)
        read = {}
        for name, tuned in (("fine-tuned", True), ("from random weights", False)):
            model = make_network(10 - OLD, width)
            if tuned:
                weights = load_safetensors(path)
                kept = {key: value for key, value in weights.items() if not key.startswith("1.")}  # all but the head
                missing = model.load_state_dict(kept, strict=False).missing_keys
                print(f"{path.name}: {len(kept)} tensors taken, {', '.join(missing)} left as drawn")
            losses = learn(model, images[few], labels[few] - OLD, epochs, options.seed, tuned=tuned)
            print(f"{name}: loss {losses[0]:.3f} to {losses[-1]:.4f}")
            read[name] = Trainer(model).predict(DataLoader(images[others], 256)).argmax(axis=1) + OLD
    seconds = time.perf_counter() - start
    if options.picture:
        draw(options.picture, images[others], labels[others], read)
    right = [100 * (made == labels[others]).mean() for made in read.values()]
    print(f"fine-tuned {right[0]:.1f} %, from random weights {right[1]:.1f} %, {seconds:.1f} s")


if __name__ == "__main__":
    main()
