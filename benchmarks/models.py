"""The networks whose training steps and inference are timed, on any library with PyTorch's layers, and their batches.

``library`` is ``torch`` or ``netcl``: its ``nn``, ``nn.functional``, ``optim`` and functions of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
WIDTH, HEADS, LAYERS, HIDDEN = 256, 4, 4, 1024
CHARACTERS = 65  # the vocabulary of the character models


@dataclass(frozen=True)
class Job:
    """A network to train: how a library makes it, the batch that a generator draws, the loss and the optimizer."""

    make: Callable[[Any], Any]
    batch: Callable[[np.random.Generator], tuple[tuple[Array, ...], Array]]
    optimizer: str = "SGD"
    loss: str = "cross_entropy"


def model(name: str, library: Any) -> Any:
    """A network of ``JOBS``."""
    return JOBS[name].make(library)


def batch(name: str, size: int | None = None, times: int = 1) -> tuple[tuple[Array, ...], Array]:
    """Inputs and the wanted outputs of the first ``size`` samples (None: all): float32, or int64 for labels. The batch
    of a job has ``times`` as many samples.
    """
    drawn = [JOBS[name].batch(np.random.default_rng(seed)) for seed in range(times)]
    inputs = [np.concatenate(arrays)[:size] for arrays in zip(*[inputs for inputs, _ in drawn])]
    return tuple(inputs), np.concatenate([wanted for _, wanted in drawn])[:size]


def loss(name: str, library: Any, found: Any, wanted: Any) -> Any:
    """The loss of the network's output; classes are in its last dimension, or in the second of pictures."""
    if JOBS[name].loss == "cross_entropy" and found.ndim == 3:
        found, wanted = found.reshape(-1, found.shape[-1]), wanted.reshape(-1)
    return getattr(library.nn.functional, JOBS[name].loss)(found, wanted)


def optimizer(name: str, optim: Any, parameters: Any, **options: Any) -> Any:
    """The optimizer of a job, from the classes of ``optim``; ``options`` are added to its own."""
    own = {
        "SGD": {"lr": 0.01, "momentum": 0.9},
        "Adam": {"lr": 1e-3},
        "AdamW": {"lr": 1e-4},
    }[JOBS[name].optimizer]
    return getattr(optim, JOBS[name].optimizer)(parameters, **own, **options)


# -- images ------------------------------------------------------------------------------------------------------------


def _mlp(library: Any) -> Any:
    n = library.nn
    hidden = (n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU())
    return n.Sequential(*hidden, n.Linear(512, 10))


def _cnn(library: Any) -> Any:
    n = library.nn
    stem = (n.Conv2d(1, 32, 3, padding=1), n.ReLU(), n.Conv2d(32, 64, 3, padding=1), n.ReLU(), n.MaxPool2d(2))
    return n.Sequential(*stem, n.Flatten(), n.Linear(64 * 14 * 14, 10))


def resnet18(library: Any) -> Any:
    """ResNet-18 with the stem for 32 x 32 pictures."""
    n = library.nn
    blocks = [_block(library, 64, 64, 1), _block(library, 64, 64, 1)]
    for ins in (64, 128, 256):
        blocks += [_block(library, ins, 2 * ins, 2), _block(library, 2 * ins, 2 * ins, 1)]
    stem = (n.Conv2d(3, 64, 3, padding=1, bias=False), n.BatchNorm2d(64), n.ReLU())
    return n.Sequential(*stem, *blocks, n.AvgPool2d(4), n.Flatten(), n.Linear(512, 10))


def _block(library: Any, ins: int, outs: int, stride: int) -> Any:
    n = library.nn
    first = n.Conv2d(ins, outs, 3, stride=stride, padding=1, bias=False)
    second = n.Conv2d(outs, outs, 3, padding=1, bias=False)
    main = n.Sequential(first, n.BatchNorm2d(outs), n.ReLU(), second, n.BatchNorm2d(outs))
    return _residual(library, main, ins, outs, stride)


def _resnet50(library: Any) -> Any:
    n = library.nn
    layers = [n.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), n.BatchNorm2d(64), n.ReLU()]
    layers.append(n.MaxPool2d(3, stride=2, padding=1))
    ins = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            step = stride if number == 0 else 1
            main = n.Sequential(
                *(n.Conv2d(ins, width, 1, bias=False), n.BatchNorm2d(width), n.ReLU()),
                *(n.Conv2d(width, width, 3, stride=step, padding=1, bias=False), n.BatchNorm2d(width), n.ReLU()),
                *(n.Conv2d(width, 4 * width, 1, bias=False), n.BatchNorm2d(4 * width)),
            )
            layers.append(_residual(library, main, ins, 4 * width, step))
            ins = 4 * width
    return n.Sequential(*layers, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(2048, 1000))


def _residual(library: Any, main: Any, ins: int, outs: int, stride: int) -> Any:
    n = library.nn

    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.main = main
            plain = stride == 1 and ins == outs
            short = () if plain else (n.Conv2d(ins, outs, 1, stride=stride, bias=False), n.BatchNorm2d(outs))
            self.short = n.Sequential(*short)

        def forward(self, x: Any) -> Any:
            return library.relu(self.main(x) + self.short(x))

    return Block()


def _unet(library: Any, ins: int = 3, outs: int = 2, timed: bool = False) -> Any:
    """Three levels of 32, 64 and 128 channels; ``timed`` adds an embedding of the second input to the middle."""
    n = library.nn

    def twice(ins: int, outs: int) -> Any:
        first = (n.Conv2d(ins, outs, 3, padding=1, bias=False), n.BatchNorm2d(outs), n.ReLU())
        return n.Sequential(*first, n.Conv2d(outs, outs, 3, padding=1, bias=False), n.BatchNorm2d(outs), n.ReLU())

    class UNet(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.middle = twice(ins, 32), twice(32, 64), twice(64, 128)
            self.up_second, self.up_first = n.ConvTranspose2d(128, 64, 2, 2), n.ConvTranspose2d(64, 32, 2, 2)
            self.back_second, self.back_first = twice(128, 64), twice(64, 32)
            self.pool, self.head = n.MaxPool2d(2), n.Conv2d(32, outs, 1)
            self.time = n.Sequential(n.Embedding(1000, 128), n.Linear(128, 128), n.SiLU(), n.Linear(128, 128))

        def forward(self, x: Any, *times: Any) -> Any:
            first = self.first(x)
            second = self.second(self.pool(first))
            middle = self.middle(self.pool(second))
            if timed:
                middle = middle + self.time(times[0])[:, :, None, None]
            x = self.back_second(library.cat((self.up_second(middle), second), 1))
            return self.head(self.back_first(library.cat((self.up_first(x), first), 1)))

    network = UNet()
    if not timed:
        del network.time
    return network


# -- sequences ---------------------------------------------------------------------------------------------------------


def _encoder(library: Any) -> Any:
    n = library.nn
    layer = n.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
    return n.TransformerEncoder(layer, LAYERS)


def attending(library: Any, width: int, heads: int, causal: bool, approximate: str = "none") -> Any:
    """A block with its norms in front, as in GPT-2 and ViT; ``approximate`` is gelu's."""
    n, functional = library.nn, library.nn.functional

    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = n.LayerNorm(width), n.LayerNorm(width)
            self.qkv, self.proj = n.Linear(width, 3 * width), n.Linear(width, width)
            self.up, self.down = n.Linear(width, 4 * width), n.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            count, steps, _ = x.shape
            q, k, v = (
                part.reshape(count, steps, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.ln_1(x)).chunk(3, dim=-1)
            )
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.proj(mixed.transpose(1, 2).reshape(count, steps, width))
            return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate=approximate))

    return Block()


def _gpt(library: Any) -> Any:
    """Six layers of 384, as nanoGPT trains on characters."""
    n, width = library.nn, 384

    class GPT(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = n.Embedding(CHARACTERS, width), n.Embedding(256, width)
            self.h = n.Sequential(*(attending(library, width, 6, True) for _ in range(6)))
            self.ln_f, self.head = n.LayerNorm(width), n.Linear(width, CHARACTERS, bias=False)

        def forward(self, ids: Any) -> Any:
            return self.head(self.ln_f(self.h(self.wte(ids) + self.wpe.weight[: ids.shape[1]])))

    return GPT()


def _vit(library: Any) -> Any:
    """ViT-tiny: 12 layers of 192, patches of 16 x 16, the mean of the patches for the classes."""
    n, width = library.nn, 192

    class ViT(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.places = n.Conv2d(3, width, 16, stride=16), n.Embedding(196, width)
            self.h = n.Sequential(*(attending(library, width, 3, False) for _ in range(12)))
            self.norm, self.head = n.LayerNorm(width), n.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places.weight
            return self.head(self.norm(self.h(x)).mean(1))

    return ViT()


def _recurrent(library: Any, kind: str, characters: int, width: int, layers: int, classes: int, last: bool) -> Any:
    """An embedding, a recurrent net, and a linear layer on each of its outputs, with ``last`` on their mean."""
    n = library.nn

    class Recurrent(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = n.Embedding(characters, width)
            self.net = getattr(n, kind)(width, width, layers, batch_first=True)
            self.head = n.Linear(width, classes)

        def forward(self, ids: Any) -> Any:
            found = self.net(self.embedding(ids))[0]
            return self.head(found.mean(1) if last else found)

    return Recurrent()


# -- batches -----------------------------------------------------------------------------------------------------------


def _pictures(*shape: int, classes: int = 10) -> Callable[[np.random.Generator], tuple[tuple[Array, ...], Array]]:
    def batch(rng: np.random.Generator) -> tuple[tuple[Array, ...], Array]:
        x = rng.standard_normal(shape).astype(np.float32)
        return (x,), rng.integers(0, classes, shape[0])

    return batch


def _characters(
    count: int, steps: int, vocabulary: int, classes: int = 0
) -> Callable[[np.random.Generator], tuple[tuple[Array, ...], Array]]:
    """Texts and their next characters, or a class of ``classes`` for each."""

    def batch(rng: np.random.Generator) -> tuple[tuple[Array, ...], Array]:
        ids = rng.integers(0, vocabulary, (count, steps + 1))
        return (ids[:, :-1].copy(),), rng.integers(0, classes, count) if classes else ids[:, 1:].copy()

    return batch


def _sequences(rng: np.random.Generator) -> tuple[tuple[Array, ...], Array]:
    x, y = (rng.standard_normal((8, 128, WIDTH)).astype(np.float32) for _ in range(2))
    return (x,), y


def _segments(rng: np.random.Generator) -> tuple[tuple[Array, ...], Array]:
    return (rng.standard_normal((8, 3, 64, 64)).astype(np.float32),), rng.integers(0, 2, (8, 64, 64))


def _noisy(rng: np.random.Generator) -> tuple[tuple[Array, ...], Array]:
    noise = rng.standard_normal((16, 1, 32, 32)).astype(np.float32)
    return (rng.standard_normal((16, 1, 32, 32)).astype(np.float32) + noise, rng.integers(0, 1000, 16)), noise


JOBS = {
    "mlp": Job(_mlp, _pictures(128, 784), "Adam"),
    "cnn": Job(_cnn, _pictures(64, 1, 28, 28)),
    "resnet18": Job(resnet18, _pictures(32, 3, 32, 32)),
    "encoder": Job(_encoder, _sequences, "AdamW", "mse_loss"),
    "gpt": Job(_gpt, _characters(8, 256, CHARACTERS), "AdamW"),
    "resnet50": Job(_resnet50, _pictures(4, 3, 224, 224, classes=1000)),
    "lstm": Job(
        lambda library: _recurrent(library, "LSTM", CHARACTERS, 256, 2, CHARACTERS, False),
        _characters(32, 64, CHARACTERS),
        "Adam",
    ),
    "gru": Job(
        lambda library: _recurrent(library, "GRU", 10000, 128, 1, 2, True), _characters(32, 100, 10000, 2), "Adam"
    ),
    "vit": Job(_vit, _pictures(8, 3, 224, 224, classes=1000), "AdamW"),
    "unet": Job(_unet, _segments, "Adam"),
    "ddpm": Job(lambda library: _unet(library, 1, 1, timed=True), _noisy, "Adam", "mse_loss"),
}
