"""Random training programs: a list of parts that build a network, a loss, an optimizer and events between the steps.

A program runs with netcl or with PyTorch, which the argument ``lib`` stands for; its parts can be removed one by one.
Each layer maps (batch, 12) to (batch, 12), so that a few shapes, and with them kernels, repeat.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["OPTIMIZERS", "Program", "State", "drawn", "netcl_library", "torch_library"]

WIDTH = 12
CLASSES = 5
BATCHES = (4, 6)

# Names and options; the options of all steps are small enough for float32 to stay finite.
OPTIMIZERS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGD": ({"lr": 0.05}, {"lr": 0.05, "momentum": 0.9, "nesterov": True}, {"lr": 0.02, "weight_decay": 0.1}),
    "Momentum": ({"lr": 0.02}, {"lr": 0.02, "nesterov": True}),
    "Adam": ({"lr": 0.01}, {"lr": 0.01, "amsgrad": True}, {"lr": 0.01, "weight_decay": 0.1}),
    "AdamW": ({"lr": 0.01}, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "NAdam": ({"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ({"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1}),
    "Adamax": ({"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1}),
    "Adadelta": ({"lr": 1.0}, {"lr": 0.5, "weight_decay": 0.1}),
    "Adagrad": ({"lr": 0.05}, {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "RMSprop": ({"lr": 0.01}, {"lr": 0.01, "momentum": 0.5}, {"lr": 0.01, "centered": True}),
    "Rprop": ({"lr": 0.01}, {"lr": 0.01, "etas": (0.4, 1.3)}),
    "ASGD": ({"lr": 0.05}, {"lr": 0.05, "t0": 2.0, "lambd": 0.1}),
    "LAMB": ({"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1}),
    "Lion": ({"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1}),
    "Adafactor": ({"lr": 0.05}, {"lr": 0.05, "weight_decay": 0.1}),
    "Muon": ({"lr": 0.02}, {"lr": 0.02, "nesterov": False}),
}
BY_SIGN = ("Lion", "Rprop")  # rounding of a gradient near zero is a whole step
NOT_OF_TORCH = ("Momentum", "LAMB", "Lion", "Muon")  # or in bfloat16 there
RANDOM = ("dropout", "noise")  # layers with random numbers


def _rows(x: Any, *shape: int) -> Any:
    return x.reshape(x.shape[0], *shape)


def _flat(x: Any) -> Any:
    return x.reshape(x.shape[0], WIDTH)


def _in_place(lib: Any, _: Any, x: Any) -> Any:
    y = x * 1.5
    y.mul_(0.5)
    y.add_(x.detach())
    return y


def _in_place_of_view(lib: Any, _: Any, x: Any) -> Any:
    y = x * 1.0
    y[:, 2:7].mul_(0.5)
    y[0] = 0.25
    return y


def _buffer(lib: Any, module: Any, x: Any) -> Any:
    with lib.no_grad():
        module.average.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        module.calls.add_(1.0)
    return x - module.average * 0.5


def _recurrent(name: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]:
    return (
        lambda lib: getattr(lib.nn, name)(4, 4, batch_first=True),
        lambda lib, module, x: _flat(module(_rows(x, 3, 4))[0]),
    )


def _activation(name: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]:
    return (lambda lib: None), (lambda lib, module, x: getattr(lib.F, name)(x))


def _buffered(lib: Any) -> Any:
    module = lib.nn.Module()
    module.register_buffer("average", lib.zeros(WIDTH))
    module.register_buffer("calls", lib.zeros(1))
    return module


def _nothing(lib: Any) -> Any:
    return None


# A module (or None) made by the library, and its call.
LAYERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "linear": (lambda lib: lib.nn.Linear(WIDTH, WIDTH), lambda lib, m, x: m(x)),
    "no bias": (lambda lib: lib.nn.Linear(WIDTH, WIDTH, bias=False), lambda lib, m, x: m(x)),
    "residual": (lambda lib: lib.nn.Linear(WIDTH, WIDTH), lambda lib, m, x: x + lib.F.gelu(m(x))),
    "shared": (lambda lib: lib.nn.Linear(WIDTH, WIDTH), lambda lib, m, x: m(lib.F.relu(m(x)))),
    "bottleneck": (
        lambda lib: lib.nn.Sequential(lib.nn.Linear(WIDTH, 6), lib.nn.Tanh(), lib.nn.Linear(6, WIDTH)),
        lambda lib, m, x: m(x),
    ),
    "conv1d": (lambda lib: lib.nn.Conv1d(3, 3, 3, padding=1), lambda lib, m, x: _flat(m(_rows(x, 3, 4)))),
    "conv2d": (lambda lib: lib.nn.Conv2d(3, 3, 3, padding=1), lambda lib, m, x: _flat(m(_rows(x, 3, 2, 2)))),
    "batch norm": (lambda lib: lib.nn.BatchNorm1d(WIDTH), lambda lib, m, x: m(x)),
    "batch norm 2d": (lambda lib: lib.nn.BatchNorm2d(3), lambda lib, m, x: _flat(m(_rows(x, 3, 2, 2)))),
    "layer norm": (lambda lib: lib.nn.LayerNorm(WIDTH), lambda lib, m, x: m(x)),
    "group norm": (lambda lib: lib.nn.GroupNorm(3, WIDTH), lambda lib, m, x: m(x)),
    "gru": _recurrent("GRU"),
    "lstm": _recurrent("LSTM"),
    "dropout": (lambda lib: lib.nn.Dropout(0.25), lambda lib, m, x: m(x)),
    "noise": (_nothing, lambda lib, m, x: x + lib.rand(x.shape) * 0.1),
    "relu": _activation("relu"),
    "tanh": _activation("tanh"),
    "silu": _activation("silu"),
    "softmax": (_nothing, lambda lib, m, x: lib.F.softmax(x, -1) * 3.0),
    "attention": (
        _nothing,
        lambda lib, m, x: _flat(lib.F.scaled_dot_product_attention(*[_rows(x, 1, 3, 4)] * 3)),
    ),
    "transposed": (_nothing, lambda lib, m, x: _flat(_rows(x, 3, 4).transpose(1, 2))),
    "strided": (_nothing, lambda lib, m, x: lib.cat([x[:, ::2], x[:, 1::2] * 0.7], 1)),
    "chunks": (_nothing, lambda lib, m, x: lib.cat(list(x.chunk(3, 1))[::-1], 1)),
    "cumsum": (_nothing, lambda lib, m, x: x.cumsum(1) * 0.3),
    "masked": (_nothing, lambda lib, m, x: lib.where(x > 0.1, x, x * 0.2)),
    "centred": (_nothing, lambda lib, m, x: x - x.mean(0, keepdim=True)),
    "in place": (_nothing, _in_place),
    "in place of a view": (_nothing, _in_place_of_view),
    "buffer": (_buffered, _buffer),
}


def _cross_entropy(lib: Any, out: Any, target: Any) -> Any:
    return lib.F.cross_entropy(out[:, :CLASSES], target)


def _of_float(name: str) -> Callable[[Any, Any, Any], Any]:
    def loss(lib: Any, out: Any, target: Any) -> Any:
        wanted = (target.to(lib.float_type) * 0.2).reshape(-1, 1).expand(out.shape[0], WIDTH)
        return getattr(lib.F, name)(out, wanted)

    return loss


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross_entropy": _cross_entropy,
    "mse_loss": _of_float("mse_loss"),
    "smooth_l1_loss": _of_float("smooth_l1_loss"),
    "binary_cross_entropy_with_logits": _of_float("binary_cross_entropy_with_logits"),
    "root": lambda lib, out, target: (out.abs().mean() + 0.1).sqrt() + out[:, 0].square().mean(),
    "logsumexp": lambda lib, out, target: out.logsumexp(1).mean(),
}
EVENTS = (
    "lr", "decay", "freeze", "thaw", "no gradient", "model state", "optimizer state", "eval", "train", "scale",
    "batch", "seed", "read", "zero",
)  # fmt: skip
# Of the step: accumulation of two backward passes, gradients of gradients, clipping, and so on.
TRICKS = (
    "accumulate", "penalty", "clip", "keep zeros", "zero outside", "schedule", "two groups", "read late", "decay loss",
    "returns more",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """``parts`` are ("layer", name), ("trick", name) and ("event", step, name, number); all may be removed."""

    parts: tuple[tuple[Any, ...], ...]
    loss: str
    optimizer: str
    option: int
    dtype: str
    seed: int
    steps: int

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        """Returns the parts of a kind, without its name."""
        return [part[1:] for part in self.parts if part[0] == kind]

    def has(self, *tricks: str) -> bool:
        """True if one of the tricks is a part."""
        return any(("trick", trick) in self.parts for trick in tricks)

    @property
    def random(self) -> bool:
        """True if the program draws random numbers."""
        return any(layer in RANDOM for (layer,) in self.of("layer"))


def drawn(rng: random.Random, of: random.Random | None = None) -> Program:
    """Returns a random program; network, loss and step are drawn from ``of`` if that is given."""
    base = rng if of is None else of
    parts: list[tuple[Any, ...]] = [("layer", base.choice(list(LAYERS))) for _ in range(base.randrange(1, 6))]
    parts += [("trick", trick) for trick in TRICKS if base.random() < 0.15]
    loss, dtype = base.choice(list(LOSSES)), base.choice(("float32", "float64"))
    steps = rng.randrange(5, 9)
    for _ in range(rng.randrange(4)):
        parts.append(("event", rng.randrange(1, steps), rng.choice(EVENTS), rng.randrange(8)))
    optimizer = rng.choice(list(OPTIMIZERS))
    option = rng.randrange(len(OPTIMIZERS[optimizer]))
    return Program(tuple(parts), loss, optimizer, option, dtype, rng.getrandbits(20), steps)


# Names that netcl has as PyTorch has them.
_SHARED = (
    "Tensor", "cat", "empty", "enable_grad", "from_numpy", "get_rng_state", "inference_mode", "manual_seed", "matmul",
    "nn", "no_grad", "ones", "optim", "rand_like", "randn", "randn_like", "randperm", "relu", "set_rng_state", "stack",
    "tanh", "tensor", "where",
)  # fmt: skip


@cache
def netcl_library(dtype: str) -> Any:
    """Returns the names of netcl that programs use."""
    import netcl as nc
    from netcl import autograd as ag
    from netcl.autograd.graph import saved_tensors_hooks

    return SimpleNamespace(
        name="netcl", F=nc.nn.functional, grad=ag.grad, float_type=dtype, half="bfloat16", mul=nc.ops.mul,
        zeros=lambda *shape: nc.zeros(shape, dtype=dtype), rand=lambda shape: nc.rand(shape, dtype=dtype),
        clip=nc.nn.utils.clip_grad_norm_, clip_all=lambda optimizer, norm: optimizer.clip_grad_norm(norm),
        autocast=nc.autocast, checkpoint=ag.checkpoint, detect_anomaly=ag.detect_anomaly,
        saved_tensors_hooks=saved_tensors_hooks, GradScaler=nc.GradScaler, cube=_cube(ag.Function),
        elsewhere=lambda values: nc.Tensor.from_host(_other_queue(), values),
        **{name: getattr(nc, name) for name in _SHARED},
    )  # fmt: skip


@cache
def torch_library(dtype: str) -> Any:
    """Returns the names of PyTorch that programs use."""
    import torch
    from torch.utils.checkpoint import checkpoint

    kind, clip = getattr(torch, dtype), torch.nn.utils.clip_grad_norm_
    return SimpleNamespace(
        name="torch", F=torch.nn.functional, grad=torch.autograd.grad, float_type=kind, half=torch.bfloat16,
        mul=torch.mul, zeros=lambda *shape: torch.zeros(shape, dtype=kind),
        rand=lambda shape: torch.rand(shape, dtype=kind), clip=clip,
        clip_all=lambda optimizer, norm: clip([p for group in optimizer.param_groups for p in group["params"]], norm),
        autocast=torch.autocast, checkpoint=partial(checkpoint, use_reentrant=False),
        detect_anomaly=torch.autograd.detect_anomaly, saved_tensors_hooks=torch.autograd.graph.saved_tensors_hooks,
        GradScaler=partial(torch.amp.GradScaler, "cpu"), cube=_cube(torch.autograd.Function), elsewhere=torch.tensor,
        **{name: getattr(torch, name) for name in _SHARED},
    )  # fmt: skip


def _other_queue() -> Any:
    """Returns the queue of a device that is not the active one: NumPy's, or a second one of NumPy."""
    from netcl.core.device import get_active_device, manager

    numpy = manager.default("cpu")
    return _second_queue() if get_active_device().backend == "cpu" else numpy.queue


@cache
def _second_queue() -> Any:
    from netcl.core.device import CPUQueue

    return CPUQueue("second")


def _cube(function: Any) -> Any:
    class Cube(function):  # type: ignore[misc]
        """A Function of the program."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x * 0.1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * x * 0.3

    return Cube


@dataclass
class State:
    """The objects of a program that runs: network, optimizer, and the step as a function of a batch."""

    program: Program
    lib: Any
    net: Any = None
    optimizer: Any = None
    scheduler: Any = None
    batch: int = BATCHES[0]
    layers: list[tuple[str, Any]] = field(default_factory=list)
    jit: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        lib, program = self.lib, self.program
        rng = np.random.default_rng(program.seed)
        modules = []
        for (name,) in (*program.of("layer"), ("linear",)):
            module = LAYERS[name][0](lib)
            self.layers.append((name, module))
            modules += [module] if module is not None else []
        self.net = lib.nn.ModuleList(modules).to(lib.float_type)
        with lib.no_grad():
            for _, p in sorted(self.net.named_parameters()):
                p.copy_(lib.tensor(rng.uniform(-0.5, 0.5, tuple(p.shape)).astype(program.dtype)))
        options = OPTIMIZERS[program.optimizer][program.option]
        parameters = [p for p in self.net.parameters() if program.optimizer != "Muon" or len(p.shape) == 2]
        groups: Any = parameters
        if program.has("two groups") and len(parameters) > 1:
            groups = [{"params": parameters[:1], "lr": options["lr"] * 0.5}, {"params": parameters[1:]}]
        self.optimizer = getattr(lib.optim, program.optimizer)(groups, **options)
        if program.has("schedule"):
            self.scheduler = lib.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.7)
        self._numbers = rng
        lib.manual_seed(program.seed)
        self.loss = self.jit(self._loss) if self.jit is not None else self._loss

    def data(self) -> tuple[Any, Any]:
        """Returns the next batch."""
        x = self._numbers.standard_normal((self.batch, WIDTH)).astype(self.program.dtype)
        return self.lib.tensor(x), self.lib.tensor(self._numbers.integers(0, CLASSES, self.batch))

    def _loss(self, x: Any, target: Any) -> Any:
        out = x
        for name, module in self.layers:
            out = LAYERS[name][1](self.lib, module, out)
        loss = LOSSES[self.program.loss](self.lib, out, target)
        if self.program.has("decay loss"):
            for p in self.net.parameters():
                loss = loss + p.square().sum() * 0.01
        return loss

    def step(self, x: Any, target: Any) -> Any:
        """Takes a step of the optimizer and returns the loss, or tensors with the loss first."""
        program = self.program
        if not program.has("zero outside"):
            self.optimizer.zero_grad(set_to_none=not program.has("keep zeros"))
        for _ in range(2 if program.has("accumulate") else 1):
            if program.has("penalty"):
                x = x.detach().requires_grad_()
                loss = self.loss(x, target)
                (slope,) = self.lib.grad(loss, [x], create_graph=True)
                loss = loss + slope.square().sum() * 0.1
            else:
                loss = self.loss(x, target)
            loss.backward()
        norm = None
        if program.has("clip"):
            norm = self.lib.clip([p for p in self.net.parameters() if p.grad is not None], 0.5)
        self.optimizer.step()
        if program.has("returns more"):
            return loss, loss.detach() * 2, *([norm] if norm is not None else [])
        return loss

    def event(self, name: str, number: int) -> None:
        """Changes something between two steps."""
        lib, parameters = self.lib, list(self.net.parameters())
        p = parameters[number % len(parameters)]
        group = self.optimizer.param_groups[number % len(self.optimizer.param_groups)]
        if name == "lr":
            group["lr"] = group["lr"] * 0.5
        elif name == "decay" and "weight_decay" in group:
            group["weight_decay"] = 0.05
        elif name in ("freeze", "thaw") and len(parameters) > 2:
            p.requires_grad_(name == "thaw")
        elif name == "no gradient":
            p.grad = None
        elif name == "model state":
            self.net.load_state_dict(copy.deepcopy(self.net.state_dict()))
        elif name == "optimizer state":
            self.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        elif name in ("eval", "train"):
            self.net.train(name == "train")
        elif name == "scale":
            with lib.no_grad():
                p.mul_(0.9)
        elif name == "batch":
            self.batch = BATCHES[number % len(BATCHES)]
        elif name == "seed":
            lib.manual_seed(number)
        elif name == "read":
            p.detach().sum().item()
        elif name == "zero":
            self.optimizer.zero_grad(set_to_none=bool(number % 2))
