"""Trains a convolutional network on 1,797 scans of handwritten digits, saves it, and draws what it learned.

    python examples/quickstart.py                            train, write digits.netcl and digits.png
    python examples/quickstart.py --evaluate digits.netcl    load the saved network and measure it again
    python examples/quickstart.py --devices 2                train on both halves of the device, as if it were two

Every fifth scan is held out and only measured at the end.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import netcl as nc
from netcl import nn
from netcl.core.device import device, get_active_device, manager
from netcl.core.errors import DeviceNotFoundError
from netcl.data import DataLoader, example_digits
from netcl.distributed import DataParallel, convert_sync_batchnorm
from netcl.io import load_model, save_model
from netcl.optim import AdamW, CosineAnnealingLR
from netcl.trainer import History, LearningRateMonitor, Trainer

Array = npt.NDArray[Any]


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="cut the device into N that share the work")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder for digits.netcl and digits.png")
    parser.add_argument("--evaluate", type=Path, metavar="FILE", help="measure a saved network instead of training")
    return parser.parse_args()


def split_digits() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Scans (n, 1, 8, 8) and labels (n,): four fifths to train on, the fifth with index % 5 == 4 to measure."""
    x, y = example_digits()
    held_out = np.arange(len(x)) % 5 == 4
    return (x[~held_out], y[~held_out]), (x[held_out], y[held_out])


def distort(batch: tuple[Array, Array], rng: Any) -> tuple[Array, Array]:
    """Turns, scales, slants and moves each scan a little, reading between the points of the original linearly."""
    scans, labels = batch
    n, size = len(scans), scans.shape[-1]
    turn, scale, slant, down, right = (2 * rng.random((n, 5)) - 1).T[:, :, None, None]
    angle, zoom = np.deg2rad(12) * turn, 1 + 0.1 * scale
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    # The position of each new point in the scan, which gets a border of two empty points.
    from_x = zoom * (np.cos(angle) * x - np.sin(angle) * y) + 0.1 * slant * y + right
    from_y = zoom * (np.sin(angle) * x + np.cos(angle) * y) + down
    from_x, from_y = (np.clip(place + (size - 1) / 2 + 2, 0, size + 2.999) for place in (from_x, from_y))
    left, top = from_x.astype(int), from_y.astype(int)
    part_x, part_y = from_x - left, from_y - top
    padded, each = np.pad(scans[:, 0], ((0, 0), (2, 2), (2, 2))), np.arange(n)[:, None, None]
    above = (1 - part_x) * padded[each, top, left] + part_x * padded[each, top, left + 1]
    below = (1 - part_x) * padded[each, top + 1, left] + part_x * padded[each, top + 1, left + 1]
    return ((1 - part_y) * above + part_y * below)[:, None].astype(np.float32), labels


def make_network(width: int = 32) -> nn.Sequential:
    """Convolutions with batch normalisation on 8 x 8, then 4 x 4 points, and a linear layer on 2 x 2."""

    def block(channels_in: int, channels_out: int) -> list[nn.Module]:
        convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(channels_out), nn.ReLU()]

    return nn.Sequential(
        *block(1, width),
        *block(width, 2 * width),
        nn.MaxPool2d(2),
        *block(2 * width, 2 * width),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(2 * width * 2 * 2, 10),
    )


def read_digits(model: nn.Module, scans: Array) -> Array:
    """The probability of each digit, (n, 10)."""
    logits = Trainer(model).predict(DataLoader(scans, batch_size=256))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Array = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def train(options: argparse.Namespace) -> None:
    """Trains, measures, and writes the network and the picture."""
    learn, test = split_digits()
    loader = DataLoader(learn, options.batch_size, shuffle=True, drop_last=True, augment=distort, seed=options.seed)
    nc.manual_seed(options.seed)
    model = make_network()
    optimizer = AdamW(model.parameters(), lr=3e-3)
    schedule = CosineAnnealingLR(optimizer, options.epochs)
    trained: Any = model
    if options.devices > 1:
        parts = manager.split(get_active_device(), options.devices)
        trained = DataParallel(convert_sync_batchnorm(model), devices=parts)
    trainer = Trainer(
        trained,
        optimizer,
        scheduler=schedule,
        callbacks=[LearningRateMonitor()],
        compile=options.devices == 1,  # what several devices exchange passes the host, which no captured step replays
        seed=options.seed,
    )
    # The scans held out are measured after each epoch for the curve alone; nothing is chosen by them.
    history = trainer.fit(loader, DataLoader(test, batch_size=256), epochs=options.epochs)

    options.output.mkdir(parents=True, exist_ok=True)
    saved, picture = options.output / "digits.netcl", options.output / "digits.png"
    save_model(model, saved)
    probabilities = read_digits(model, test[0])
    seconds = sum(row["seconds"] for row in history)
    rate = sum(row["samples_per_second"] * row["seconds"] for row in history) / seconds
    report(probabilities, test[1], f"{seconds:.1f} s of training, {rate:,.0f} samples/s")
    written = [saved, picture] if draw(picture, history, test, probabilities) else [saved]
    print(f"wrote {' and '.join(map(str, written))}")


def evaluate(options: argparse.Namespace) -> None:
    """Loads a saved network and measures it on the scans that were held out."""
    _, (scans, labels) = split_digits()
    report(read_digits(load_model(options.evaluate), scans), labels, f"loaded from {options.evaluate}")


def report(probabilities: Array, labels: Array, how: str) -> None:
    """Prints the one line of the result."""
    right = int((probabilities.argmax(axis=1) == labels).sum())
    accuracy = f"accuracy {100 * right / len(labels):.4f} % ({right} of {len(labels)} scans held out)"
    handle = get_active_device()
    print(f"{handle.device_name} ({handle.platform_name}): {accuracy}, {how}")


def draw(path: Path, history: History, test: tuple[Array, Array], probabilities: Array) -> bool:
    """Draws training curves and misread digits; without matplotlib, says so and gives False."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print('no picture: it needs matplotlib, pip install "netcl-trainer[plot]"')
        return False
    figure = Figure(figsize=(12, 5.2), layout="constrained", facecolor="white")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.1, 1), wspace=0.04)
    left, right = halves
    draw_curves(left, history)
    draw_misread(right, test, probabilities)
    figure.savefig(path, dpi=130)
    return True


def draw_curves(figure: Any, history: History) -> None:
    """Loss and error over the epochs, on logarithmic scales."""
    epochs = history.column("epoch")
    above, below = figure.subplots(2, 1, sharex=True)
    for prefix, label, color in (("", "trained on (distorted)", "#4c72b0"), ("val_", "held out", "#dd8452")):
        above.plot(epochs, history.column(f"{prefix}loss"), color=color, label=label)
        below.plot(epochs, [100 * value for value in history.column(f"{prefix}accuracy")], color=color)
    above.set_yscale("log")
    above.set_ylabel("cross entropy")
    above.legend(frameon=False)
    below.set_ylabel("accuracy (%)")
    below.set_ylim(90, 100.3)
    below.set_xlabel("epoch")
    for axes in (above, below):
        axes.grid(alpha=0.25, which="both")
        axes.spines[["top", "right"]].set_visible(False)
    above.set_title(
        f"held out: {100 * history[-1]['val_accuracy']:.2f} % right after {len(history)} epochs", loc="left"
    )


def draw_misread(figure: Any, test: tuple[Array, Array], probabilities: Array, rows: int = 3, columns: int = 5) -> None:
    """The misread digits in red, then those read right with least certainty, in grey."""
    scans, labels = test
    read = probabilities.argmax(axis=1)
    # Certainty of the true digit, lowest first; the misread come before all others.
    order = np.lexsort((probabilities[np.arange(len(labels)), labels], read == labels))
    misread = int((read != labels).sum())
    grid = figure.subplots(rows, columns)
    for axes, at in zip(grid.flat, order):
        wrong = read[at] != labels[at]
        axes.imshow(scans[at, 0], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        certainty = f"{100 * probabilities[at].max():.0f} %"
        axes.set_title(
            f"{labels[at]}, read as {read[at]}\n{certainty} sure" if wrong else f"{labels[at]}\n{certainty} sure",
            color="#c44e52" if wrong else "#888888",
            fontsize=9,
        )
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_edgecolor("#c44e52" if wrong else "#cccccc")
    if misread > rows * columns:
        also = f"{rows * columns} of them here"
    else:
        also = "then the least sure of the right ones" if misread else "here the least sure"
    figure.suptitle(f"{misread or 'none'} of {len(labels)} misread, {also}", fontsize=11)


def main() -> None:
    """Trains, or evaluates a saved network, on the device asked for."""
    options = parse()
    with ExitStack() as stack:
        try:
            stack.enter_context(device(options.device))
        except (DeviceNotFoundError, ImportError) as error:
            raise SystemExit(str(error)) from None
        if options.evaluate is None:
            train(options)
        else:
            evaluate(options)


if __name__ == "__main__":
    main()
