"""Trains a GPT on the characters of a text and lets it write.

    python examples/gpt_text.py --text file.txt --steps 500

Without --text it reads this repository's own documentation. The last line is the loss on text held out, in nats per
character.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.optim import AdamW, clip_grad_norm

Array = np.ndarray[Any, Any]
DOCS = Path(__file__).resolve().parent.parent / "docs"


def read(path: Path | None) -> str:
    """The text of a file, or of all pages of the documentation."""
    if path is not None:
        return path.read_text(encoding="utf-8")
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md")))


def batch(ids: Array, rng: np.random.Generator, count: int, length: int) -> tuple[Tensor, Tensor]:
    """``count`` pieces of ``length`` characters, and for each character the next."""
    starts = rng.integers(0, len(ids) - length - 1, count)
    pieces = ids[starts[:, None] + np.arange(length + 1)]
    return nc.tensor(pieces[:, :-1]), nc.tensor(pieces[:, 1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--text", type=Path, help="a text file; the repository's documentation without it")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--length", type=int, default=64, help="characters that the model sees at once")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--write", type=int, default=200, help="characters to write in the end")
    options = parser.parse_args()

    text = read(options.text)
    characters = sorted(set(text))
    number = {character: at for at, character in enumerate(characters)}
    ids = np.array([number[character] for character in text])
    split = len(ids) * 9 // 10
    rng, cross_entropy = np.random.default_rng(0), nn.CrossEntropyLoss()
    with device(options.device):
        nc.manual_seed(0)
        model = nn.GPT(len(characters), options.length, options.layers, n_head=4, n_embd=options.width)
        optimizer = AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)

        def loss_of(part: Array) -> Tensor:
            x, y = batch(part, rng, 16, options.length)
            return cross_entropy(model(x).reshape(-1, len(characters)), y.reshape(-1))

        for step in range(options.steps):
            optimizer.zero_grad()
            loss = loss_of(ids[:split])
            loss.backward()
            clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()
            if (step + 1) % 100 == 0:
                print(f"step {step + 1}: loss {loss.item():.3f}")
        model.eval()
        with nc.no_grad():
            held_out = np.mean([loss_of(ids[split:]).item() for _ in range(10)])
        start = np.array([[number["\n"]]])
        written = model.generate(start, options.write, temperature=0.8, top_k=10).numpy()[0]
    print("".join(characters[at] for at in written))
    print(f"held out loss {held_out:.3f}")


if __name__ == "__main__":
    main()
