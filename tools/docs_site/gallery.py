"""Draws the pictures of the site from runs with a seed, and writes docs/pictures with a table of their hashes.

    python tools/docs_site/gallery.py [NAME ...]

``nox -s gallery`` runs it. docs/pictures/pictures.json has for each picture the command, the seed, the device and the
SHA-256 of the file; tests/test_gallery.py compares them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from monorepo import ROOT

import netcl as nc
from netcl import nn, optim
from netcl.data import DataLoader
from netcl.data.readers import example_digits
from netcl.profiling import profile
from netcl.profiling.peaks import measure_peaks
from netcl.profiling.roofline_picture import draw_roofline
from netcl.trainer import Trainer

FOLDER = ROOT / "docs" / "pictures"
TABLE = FOLDER / "pictures.json"
SEED = 0
TEXT = "the quick brown fox jumps over the lazy dog. " * 40
_BLUE, _ORANGE, _GREY = "#2563eb", "#d97706", "#667080"

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e5e7eb"}
)


def digits() -> Any:
    """Loss and accuracy of a convolutional network on the digits, by epoch."""
    nc.manual_seed(SEED)
    images, labels = example_digits()
    held_out = np.arange(len(images)) % 5 == 4
    train = DataLoader((images[~held_out], labels[~held_out]), 64, shuffle=True, seed=SEED)
    test = DataLoader((images[held_out], labels[held_out]), 256)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)),
    )
    history = Trainer(model, optim.AdamW(model.parameters(), lr=2e-3)).fit(train, test, epochs=8, log_every=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
    epochs = [row["epoch"] for row in history]
    for axes, name in ((left, "loss"), (right, "accuracy")):
        axes.plot(epochs, [row[name] for row in history], color=_BLUE, label="training")
        axes.plot(epochs, [row[f"val_{name}"] for row in history], color=_ORANGE, ls="--", label="held out")
        axes.set(xlabel="epoch", title=name)
    left.legend(frameon=False)
    return figure


def _pieces(count: int, length: int, rng: np.random.Generator) -> tuple[list[str], Any, Any]:
    letters = sorted(set(TEXT))
    ids = np.array([letters.index(letter) for letter in TEXT])
    starts = rng.integers(0, len(ids) - length - 1, count)
    pieces = ids[starts[:, None] + np.arange(length + 1)]
    return letters, nc.Tensor.from_host(pieces[:, :-1]), nc.Tensor.from_host(pieces[:, 1:])


def gpt_text() -> Any:
    """Loss of the tutorial's GPT on characters, by step."""
    nc.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    letters, _, _ = _pieces(1, 16, rng)
    model = nn.GPT(len(letters), 16, n_layer=1, n_head=2, n_embd=32)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    losses = []
    for _ in range(150):
        _, x, y = _pieces(16, 16, rng)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, len(letters)), y.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
    axes.plot(losses, color=_BLUE)
    axes.axhline(np.log(len(letters)), color=_GREY, ls=":", lw=1)
    axes.text(150, np.log(len(letters)), "guessing", color=_GREY, ha="right", va="bottom")
    axes.set(xlabel="step", title="nats per character")
    return figure


def attention() -> Any:
    """Draws the weights of a trained layer for the earlier characters of a line."""
    nc.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    length = 24
    letters, _, _ = _pieces(1, length, rng)
    embed, place = nn.Embedding(len(letters), 32), nn.Embedding(length, 32)
    layer, head = nn.MultiheadAttention(32, 1, batch_first=True), nn.Linear(32, len(letters))
    modules = nn.ModuleList([embed, place, layer, head])
    optimizer = optim.AdamW(modules.parameters(), lr=1e-2)
    later = nc.Tensor.from_host(np.triu(np.ones((length, length), bool), 1))
    positions = nc.arange(length)

    def outputs(x: Any) -> tuple[Any, Any]:
        h = embed(x) + place(positions)
        read, weights = layer(h, h, h, attn_mask=later)
        return head(h + read), weights

    for _ in range(200):
        _, x, y = _pieces(16, length, rng)
        optimizer.zero_grad()
        logits, _ = outputs(x)
        nn.functional.cross_entropy(logits.reshape(-1, len(letters)), y.reshape(-1)).backward()
        optimizer.step()
    line = TEXT[:length]
    with nc.no_grad():
        _, weights = outputs(nc.tensor([[letters.index(letter) for letter in line]]))
    figure, axes = plt.subplots(figsize=(4.4, 4.4), layout="constrained")
    axes.imshow(weights.to_host()[0], cmap="Blues")
    axes.grid(visible=False)
    shown = [letter.replace(" ", "\u2423") for letter in line]
    axes.set_xticks(range(length), shown)
    axes.set_yticks(range(length), shown)
    axes.set(xlabel="read from", ylabel="character")
    return figure


def roofline() -> Any:
    """Ops of a training step under the measured limits of the device."""
    nc.manual_seed(SEED)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)
    )
    optimizer, x = optim.SGD(model.parameters(), lr=0.1), nc.randn(32, 3, 32, 32)

    def step() -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    with profile():  # the first launches that are watched take longer
        step()
    with profile() as seen:
        for _ in range(10):
            step()
    return draw_roofline(f"Roofline of {seen.device}", seen.kernels, measure_peaks(seen.queue))


def _program(name: str) -> Any:
    """Imports a program of examples/pytorch with netcl in place of PyTorch."""
    import netcl.torch

    netcl.torch.install()
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/pytorch/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _images(images: np.ndarray[Any, Any], low: float) -> Any:
    figure, all_axes = plt.subplots(2, 8, figsize=(7, 1.9), layout="constrained")
    for axes, image in zip(all_axes.flat, images):
        axes.imshow(image, cmap="gray", vmin=low, vmax=1)
        axes.axis("off")
    return figure


def vae() -> Any:
    """Draws sixteen samples of the variational autoencoder after 600 steps."""
    module = _program("vae")
    made: list[Any] = []
    plain = module.VAE.__init__

    def remember(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        made.append(self)

    module.VAE.__init__ = remember
    sys.argv = ["vae.py", "--steps", "600", "--seed", str(SEED)]
    module.main()
    torch = module.torch
    with torch.no_grad():
        drawn = torch.sigmoid(made[0].decoder(torch.randn(16, 6).to(next(made[0].parameters()).device)))
    return _images(drawn.cpu().numpy(), 0)


def ddpm() -> Any:
    """Draws sixteen samples of the diffusion model after 400 steps."""
    module = _program("ddpm")
    drawn: list[Any] = []
    plain = module.Diffusion.sample

    def sample(self: Any, model: Any, count: int) -> Any:
        drawn.append(plain(self, model, 16))
        return drawn[0][:count]

    module.Diffusion.sample = sample
    sys.argv = ["ddpm.py", "--steps", "400", "--width", "32", "--noise-steps", "50", "--seed", str(SEED)]
    module.main()
    return _images(drawn[0].cpu().numpy()[:, 0], -1)


PICTURES: dict[str, Callable[[], Any]] = {
    "digits": digits,
    "gpt-text": gpt_text,
    "attention": attention,
    "roofline": roofline,
    "vae": vae,
    "ddpm": ddpm,
}


def draw(name: str, file: Path) -> None:
    """Draws a picture to a file: jobs/NAME is drawn by the program of examples/jobs itself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if name in PICTURES:
        figure = PICTURES[name]()
        figure.savefig(file, dpi=110, metadata={"Software": None})
        plt.close(figure)
    else:
        command = [sys.executable, f"examples/{name}.py", "--seed", str(SEED), "--picture", str(file)]
        subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    jobs = [f"jobs/{program.stem}" for program in sorted((ROOT / "examples/jobs").glob("*.py"))]
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.is_file() else {}
    handle = nc.manager.default("auto")
    for name in sys.argv[1:] or [*PICTURES, *jobs]:
        file = FOLDER / f"{name}.png"
        draw(name, file)
        table[name] = {
            "command": f"nox -s gallery -- {name}",
            "seed": SEED,
            "device": f"{handle.device_name} ({handle.platform_name})",
            "netcl": nc.__version__,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        print(f"{name}: {os.path.getsize(file) / 1024:.0f} KB", flush=True)
        TABLE.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
