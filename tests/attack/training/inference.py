"""Loops of calls without gradients, with prediction against the same without: all values are equal to the bit.

``inference.numpy``, ``inference.pocl``, ``inference.intel`` and ``inference.gpu``. A loop has parts that each iteration
runs, and events at single iterations: other shapes, errors, writes into weights, steps of training.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from arithmetic.engines import engines
from registry import Run, attack
from shrink import minimal

import netcl as nc
from netcl import nn, optim
from netcl.autograd import enable_grad, inference_mode, no_grad
from netcl.core import Tensor, config
from netcl.core.device import device
from netcl.nn import functional as F
from netcl.runtime import prediction
from netcl.runtime.stream import Stream
from training.predicted import difference

WIDTH, ROWS, LENGTH = 6, 4, 30
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "tanh": nn.Tanh,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "gelu": nn.GELU,
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "batch norm": lambda: nn.BatchNorm1d(WIDTH),
    "dropout": lambda: nn.Dropout(0.3),
    "softmax": lambda: nn.Softmax(-1),
    "identity": nn.Identity,
    "turned": lambda: Turned(),
}
PARTS = (
    "keep", "keep a view", "keep a sum", "read a sum", "read all", "read the first row", "join", "write a cache",
    "write the input", "scale the input", "draw", "call twice", "a number that differs", "select", "argmax", "indices",
    "clone", "version", "wait", "write the result", "another model", "drop", "cast", "half block",
)  # fmt: skip
EVENTS = (
    "rows", "error", "write a weight", "put a weight", "mode", "train", "read", "skip", "load", "other input", "grad",
)  # fmt: skip


class Turned(nn.Module):
    """Multiplies by the transpose of its input, through views."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns x + (x[:, :3] x[:, 3:]^T) x / rows."""
        left, right = x[:, : WIDTH // 2], x[:, WIDTH // 2 :]
        return x + (left @ right.transpose(0, 1)) @ x / x.shape[0]


@dataclass(frozen=True)
class Loop:
    """A loop: the layers of its model, its parts, and events by iteration."""

    seed: int
    layers: tuple[str, ...]
    parts: tuple[str, ...]
    events: tuple[tuple[int, str], ...]
    training: bool
    inference: bool


def drawn(rng: random.Random, of: random.Random | None) -> Loop:
    """Returns a loop; ``of`` draws the network, where there are few of them."""
    of = of or rng
    layers = tuple(of.choice(list(LAYERS)) for _ in range(of.randint(1, 7)))
    parts = tuple(rng.sample(PARTS, rng.randint(1, 6)))
    events = tuple(sorted((rng.randrange(3, LENGTH), rng.choice(EVENTS)) for _ in range(rng.choice((0, 1, 1, 2, 4)))))
    return Loop(rng.randrange(1 << 20), layers, parts, events, rng.random() < 0.5, rng.random() < 0.3)


class Running:
    """A loop while it runs."""

    def __init__(self, loop: Loop) -> None:
        nc.manual_seed(loop.seed)
        self.rng = np.random.default_rng(loop.seed)
        self.loop = loop
        self.model = nn.Sequential(*(LAYERS[name]() for name in loop.layers)).train(loop.training)
        self.other = nn.Linear(WIDTH, WIDTH)
        self.cache = nc.zeros((ROWS, WIDTH))
        self.kept: list[Any] = []
        self.last: Any = None
        self.optimizer: Any = None

    def input(self, rows: int = ROWS) -> Tensor:
        """Returns new numbers of the host on the device."""
        return nc.tensor(self.rng.standard_normal((rows, WIDTH)).astype(np.float32))

    def iteration(self, number: int, events: Sequence[str]) -> None:
        """Runs the parts of the loop once."""
        if "skip" in events:
            return
        for event in events:
            self.event(event)
        x = self.input(2 if "rows" in events else ROWS)
        parts = self.loop.parts
        if "scale the input" in parts:
            x = x * 2 - 1
        if "write the input" in parts:
            x.add_(0.5)
        if "half block" in parts:
            with nc.autocast(dtype="bfloat16"):
                y = self.model(x)
        else:
            y = self.model(x)
        for part in parts:
            y = self.part(part, number, x, y)
        if "read" in events:
            self.kept.append(float(y.float().sum().item()))
        self.last = None if "drop" in parts else y

    def part(self, part: str, number: int, x: Tensor, y: Tensor) -> Tensor:
        """Runs a part; returns what the next one uses as the result."""
        keep = self.kept.append
        if part == "keep":
            keep(y)
        elif part == "keep a view":
            keep(y[1:])
        elif part == "keep a sum":
            keep(y.sum(0))
        elif part == "read a sum":
            keep(y.sum().item())
        elif part == "read all":
            keep(y.numpy())
        elif part == "read the first row":
            keep(y[0].tolist())
        elif part == "join" and self.last is not None and self.last.dtype == y.dtype:
            keep(nc.cat((self.last, y)))
        elif part == "write a cache" and y.shape == self.cache.shape:
            self.cache.mul_(0.5).add_(y)
        elif part == "draw":
            return y + nc.rand(y.shape)
        elif part == "call twice":
            return y + self.model(x)
        elif part == "a number that differs":
            return y * (0.01 * number)
        elif part == "select":
            keep(y[y > 0].sum())
        elif part == "argmax":
            keep(y.argmax(1))
        elif part == "indices":
            keep(y[[0, 1, 0]])
        elif part == "clone":
            return y.clone()
        elif part == "version":
            keep(y._version)
        elif part == "wait":
            Stream().synchronize()
        elif part == "write the result" and y is not x:
            return y.mul_(1.5)
        elif part == "another model":
            return self.other(y.float())
        elif part == "cast":
            keep(y.astype("float16"))
        return y

    def event(self, event: str) -> None:
        """Runs an event of an iteration."""
        weights = [*self.model.parameters(), self.other.weight]
        weight = weights[int(self.rng.integers(len(weights)))]
        if event == "error":
            try:
                self.model(nc.zeros((ROWS, WIDTH + 1))).reshape(5, 7)
            except Exception as error:
                self.kept.append(type(error).__name__)
        elif event == "write a weight":
            weight.mul_(0.5)
        elif event == "put a weight":
            self.other.weight = nn.Parameter(self.other.weight * 2)
        elif event == "mode":
            self.model.train(not self.model.training)
        elif event == "load":
            self.model.load_state_dict(self.model.state_dict())
        elif event == "other input":
            self.kept.append(self.model(self.input(3)))
        elif event in ("train", "grad"):
            with enable_grad():
                loss = F.mse_loss(self.other(self.model(self.input())), self.input())
                loss.backward()
            if event == "train":
                self.optimizer = self.optimizer or optim.SGD(
                    [*self.model.parameters(), *self.other.parameters()], lr=0.1
                )
                self.optimizer.step()
            self.kept.append(self.other.weight.grad.numpy())
            self.other.zero_grad()
            self.model.zero_grad()


def seen(loop: Loop, driver: str, mode: str, run: Run | None = None) -> dict[str, Any]:
    """Returns by name what the user of a loop sees."""
    values: dict[str, Any] = {}
    report = prediction.report()
    before = report.replays
    with config.override(REPLAY=mode), warnings.catch_warnings(), device(engines()[driver].handle):
        warnings.simplefilter("ignore")
        running = Running(loop)
        try:
            with inference_mode() if loop.inference else no_grad():
                for number in range(LENGTH):
                    running.iteration(number, [event for at, event in loop.events if at == number])
        except Exception as error:
            values["error"] = f"{type(error).__name__}: {error}"
        if run is not None:
            run.count("replays", report.replays - before)
            run.count("loops with replays", report.replays > before)
        for number, value in enumerate(running.kept):
            is_tensor = isinstance(value, Tensor)
            values[f"kept {number}"] = [value._version, value.numpy()] if is_tensor else value
        buffers = {
            "cache": running.cache,
            **dict(running.model.named_buffers()),
            **dict(running.model.named_parameters()),
        }
        values.update({name: tensor.numpy() for name, tensor in buffers.items()})
    return values


def attacked(run: Run, driver: str) -> None:
    """Runs loops on a device until the deadline."""
    for rng in run.cases():
        loop = drawn(rng, run.rng(-1 - rng.randrange(24)) if driver != "cpu" else None)
        run.count("loops")
        text = _different(loop, driver, run)
        if text:
            small = _shrunk(loop, driver)
            run.fail(f"on {driver}: {_different(small, driver) or f'not always: {text}'}", reproducer=repr(small))


def _shrunk(loop: Loop, driver: str) -> Loop:
    parts = minimal(loop.parts, lambda some: bool(_different(replace(loop, parts=tuple(some)), driver)))
    few = replace(loop, parts=tuple(parts))
    events = minimal(few.events, lambda some: bool(_different(replace(few, events=tuple(some)), driver)))
    return replace(few, events=tuple(events))


def _different(loop: Loop, driver: str, run: Run | None = None) -> str:
    return difference(seen(loop, driver, "off"), seen(loop, driver, "early", run))


def _needs(driver: str) -> Callable[[], str]:
    return lambda: "" if driver in engines() else f"the OpenCL driver {driver}"


@attack("inference.numpy", least=2.0)
def on_numpy(run: Run) -> None:
    """Loops on NumPy, where they are fastest."""
    attacked(run, "cpu")


@attack("inference.pocl", least=30.0, needs=_needs("pocl"))
def on_pocl(run: Run) -> None:
    """Loops on PoCL."""
    attacked(run, "pocl")


@attack("inference.intel", least=30.0, needs=_needs("intel"))
def on_intel(run: Run) -> None:
    """Loops on Intel's runtime."""
    attacked(run, "intel")


@attack("inference.gpu", least=30.0, needs=_needs("gpu"))
def on_gpu(run: Run) -> None:
    """Loops on a GPU."""
    attacked(run, "gpu")
