"""The networks whose training steps are timed, on any library with PyTorch's layers, and their batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WIDTH, HEADS, LAYERS, HIDDEN = 256, 4, 4, 1024
STEPS = ("mlp", "cnn", "resnet18", "encoder")


def model(name: str, n: Any, relu: Callable[[Any], Any]) -> Any:
    """A network of ``STEPS`` from the layers of ``n``."""
    if name == "mlp":
        hidden = (n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU())
        return n.Sequential(*hidden, n.Linear(512, 10))
    if name == "cnn":
        stem = (n.Conv2d(1, 32, 3, padding=1), n.ReLU(), n.Conv2d(32, 64, 3, padding=1), n.ReLU(), n.MaxPool2d(2))
        return n.Sequential(*stem, n.Flatten(), n.Linear(64 * 14 * 14, 10))
    if name == "encoder":
        layer = n.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
        return n.TransformerEncoder(layer, LAYERS)
    return resnet18(n, relu)


def resnet18(n: Any, relu: Callable[[Any], Any]) -> Any:
    """ResNet-18 with the stem for 32 x 32 pictures."""
    blocks = [_block(n, 64, 64, 1, relu), _block(n, 64, 64, 1, relu)]
    for ins in (64, 128, 256):
        blocks += [_block(n, ins, 2 * ins, 2, relu), _block(n, 2 * ins, 2 * ins, 1, relu)]
    stem = (n.Conv2d(3, 64, 3, padding=1, bias=False), n.BatchNorm2d(64), n.ReLU())
    return n.Sequential(*stem, *blocks, n.AvgPool2d(4), n.Flatten(), n.Linear(512, 10))


def _block(n: Any, ins: int, outs: int, stride: int, relu: Callable[[Any], Any]) -> Any:
    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            first = n.Conv2d(ins, outs, 3, stride=stride, padding=1, bias=False)
            second = n.Conv2d(outs, outs, 3, padding=1, bias=False)
            self.main = n.Sequential(first, n.BatchNorm2d(outs), n.ReLU(), second, n.BatchNorm2d(outs))
            plain = stride == 1 and ins == outs
            short = () if plain else (n.Conv2d(ins, outs, 1, stride=stride, bias=False), n.BatchNorm2d(outs))
            self.short = n.Sequential(*short)

        def forward(self, x: Any) -> Any:
            return relu(self.main(x) + self.short(x))

    return Block()


def batch(name: str) -> tuple[Any, Any]:
    """Inputs and what they should give: float32, and int64 labels or (encoder) float32."""
    rng = np.random.default_rng(0)
    shape = {"mlp": (128, 784), "cnn": (64, 1, 28, 28), "resnet18": (32, 3, 32, 32), "encoder": (8, 128, WIDTH)}[name]
    x = rng.standard_normal(shape).astype(np.float32)
    return x, rng.standard_normal(shape).astype(np.float32) if name == "encoder" else rng.integers(0, 10, shape[0])


def optimizer(name: str, library: Any, parameters: Any) -> Any:
    """Adam for the perceptron, AdamW for the encoder, SGD with momentum for the others."""
    if name == "mlp":
        return library.Adam(parameters, lr=1e-3)
    return library.AdamW(parameters, lr=1e-4) if name == "encoder" else library.SGD(parameters, lr=0.01, momentum=0.9)
