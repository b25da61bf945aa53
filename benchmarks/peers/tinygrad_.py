"""tinygrad on an OpenCL driver, each work through its TinyJit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("DEV", "CL")
os.environ.setdefault("TRAINING", "1")  # what its optimizers and batch norms ask for

from bursts import Work
from models import HEADS, HIDDEN, LAYERS, WIDTH, batch, optimizer
from rows import Row, operands
from tinygrad import Device, Tensor, TinyJit, nn

OPS: dict[str, Any] = {
    "matmul": Tensor.matmul,
    "conv2d": lambda x, w, stride, padding, groups: x.conv2d(w, stride=stride, padding=padding, groups=groups),
    "attention": Tensor.scaled_dot_product_attention,
    "max_pool2d": lambda x: x.max_pool2d(2),
    "batch_norm": lambda x, w, b: _normed(x, w, b),
}


def _normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    return x.batchnorm(weight, bias, mean, (variance + 1e-5).rsqrt())


def wait() -> None:
    Device[Device.DEFAULT].synchronize()


def jitted(function: Callable[[], Any]) -> Work:
    """A function without arguments through TinyJit, after the runs that its compiler needs; it does not wait."""
    made = TinyJit(function)
    for _ in range(3):
        made()
    wait()
    return made


def _waiting(function: Callable[[], Any]) -> Work:
    """The work of a function without arguments, which ends when the device has ended."""
    made = jitted(function)

    def run() -> None:
        made()
        wait()

    return run


def row(row: Row) -> Work:
    """The work of a row."""
    given = [Tensor(array).realize() for array in operands(row)]
    if not row.gradients:
        return _waiting(lambda: OPS[row.op](*given, **row.options).realize())
    *inputs, grad = given
    return _waiting(forth_and_back(lambda *values: OPS[row.op](*values, **row.options), inputs, grad))


def forth_and_back(op: Callable[..., Tensor], inputs: list[Tensor], grad: Tensor) -> Callable[[], Any]:
    """A function that computes ``op`` of the inputs and their gradients."""

    def run() -> Any:
        out = op(*inputs)
        return out.realize(*out.gradient(*inputs, gradient=grad))

    return run


class Block:
    """Two convolutions in parallel to a shortcut."""

    def __init__(self, ins: int, outs: int, stride: int) -> None:
        self.main: list[Any] = [
            nn.Conv2d(ins, outs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm(outs), Tensor.relu,
            nn.Conv2d(outs, outs, 3, padding=1, bias=False), nn.BatchNorm(outs),
        ]  # fmt: skip
        plain = stride == 1 and ins == outs
        self.short: list[Any] = (
            [] if plain else [nn.Conv2d(ins, outs, 1, stride=stride, bias=False), nn.BatchNorm(outs)]
        )

    def __call__(self, x: Tensor) -> Tensor:
        return (x.sequential(self.main) + x.sequential(self.short)).relu()


class EncoderLayer:
    """A layer of PyTorch's TransformerEncoder: attention, then two linear layers, each normed behind its sum."""

    def __init__(self) -> None:
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]

    def __call__(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = q.scaled_dot_product_attention(k, v).transpose(1, 2).reshape(n, t, WIDTH)
        x = self.norms[0](x + self.out(seen))
        return self.norms[1](x + self.down(self.up(x).relu()))


def _network(name: str) -> list[Any]:
    if name == "mlp":
        return [nn.Linear(784, 512), Tensor.relu, nn.Linear(512, 512), Tensor.relu, nn.Linear(512, 10)]
    if name == "cnn":
        first, second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        flat = (Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(64 * 14 * 14, 10))
        return [first, Tensor.relu, second, Tensor.relu, *flat]
    if name == "encoder":
        return [EncoderLayer() for _ in range(LAYERS)]
    layers: list[Any] = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm(64), Tensor.relu]
    layers += [Block(64, 64, 1), Block(64, 64, 1)]
    for ins in (64, 128, 256):
        layers += [Block(ins, 2 * ins, 2), Block(2 * ins, 2 * ins, 1)]
    return [*layers, lambda x: x.avg_pool2d(4).flatten(1), nn.Linear(512, 10)]


def step(name: str) -> Work | None:
    """A training step; None for networks that are not written for tinygrad here."""
    if name not in ("mlp", "cnn", "resnet18", "encoder"):
        return None
    (values,), wanted = batch(name)
    return _waiting(training(name, values, wanted))


def training(name: str, values: Any, wanted: Any) -> Callable[[], Any]:
    """A function of a training step of a network on a batch."""
    layers = _network(name)
    x, y = Tensor(values).realize(), Tensor(wanted).realize()
    steps = optimizer(name, nn.optim, nn.state.get_parameters(layers))

    def step() -> Any:
        steps.zero_grad()
        out = x.sequential(layers)
        loss = ((out - y) ** 2).mean() if name == "encoder" else out.sparse_categorical_crossentropy(y)
        loss.backward()
        return loss.realize(*steps.schedule_step())

    return step
