"""Random training loops whose steps differ: a list of layers, tricks of every step, and deeds at a place of some steps.

A loop shows what a user can see: values that are read at once, values of tensors that are kept until the end, flags of
tensors, and errors. ``observed`` returns all of it by name, in order.
"""

from __future__ import annotations

import copy
import gc
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from training.programs import BATCHES, CLASSES, LAYERS, LOSSES, OPTIMIZERS, WIDTH, netcl_library

__all__ = ["Loop", "drawn_loop", "observed"]

PLACES = ("begin", "mid", "loss", "back", "end")
# Of a loop on an OpenCL device, where each network has kernels to build.
SMALL = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")
# A step of one of these needs a closure.
WITH_CLOSURE: dict[str, tuple[dict[str, Any], ...]] = {
    "LBFGS": (
        {"lr": 0.3, "max_iter": 4, "history_size": 2},
        {"lr": 0.3, "max_iter": 3, "history_size": 10},
        {"max_iter": 4, "history_size": 2, "line_search_fn": "strong_wolfe"},
        {"max_iter": 5, "history_size": 10, "line_search_fn": "strong_wolfe"},
    ),
}
ALL_OPTIMIZERS = {**OPTIMIZERS, **WITH_CLOSURE}


class UserError(Exception):
    """An error of the program."""


def _checkpointed(loop: State, x: Any) -> Any:
    return loop.lib.checkpoint(lambda y: loop.lib.tanh(y * 0.7) + y, x)


def _by_value(loop: State, x: Any) -> Any:
    return x * 0.9 if float(x.detach().sum().item()) > 0 else x * 1.1


def _no_grad_part(loop: State, x: Any) -> Any:
    with loop.lib.no_grad():
        scale = x.abs().mean() + 1.0
    return x / scale


def _autocast_part(loop: State, x: Any) -> Any:
    with loop.lib.autocast(loop.device_type, dtype=loop.lib.half):
        y = loop.lib.matmul(x, loop.square)
    return y.to(x.dtype)


def _written_rows(loop: State, x: Any) -> Any:
    y = x.clone()
    y[1:3] *= 0.5
    y[:, 0] = y[:, 1]
    y.t().add_(0.01)
    return y


def _restructured(loop: State, x: Any) -> Any:
    y = x * 1.0
    y.unsqueeze_(0)
    y.squeeze_(0)
    return y


def _unbound(loop: State, x: Any) -> Any:
    first, *rest = x.unbind(0)
    return loop.lib.stack([first * 0.5, *rest], 0)


def _embedded(loop: State, x: Any) -> Any:
    return x + loop.table[loop.index[: x.shape[0]]]


def _detached_copy(loop: State, x: Any) -> Any:
    with loop.lib.no_grad():
        loop.static.copy_(x[: BATCHES[0]])
    return x + loop.static.mean() * 0.1


def _out(loop: State, x: Any) -> Any:
    with loop.lib.no_grad():
        loop.lib.mul(x.detach(), 0.5, out=(y := loop.lib.empty(x.shape, dtype=x.dtype)))
    return x + y


def _scaled_constant(loop: State, x: Any) -> Any:
    return x * (1.0 + 0.125 * (loop.number % 2))


def _annealed(loop: State, x: Any) -> Any:
    number, kind = 0.75 + 0.01 * loop.number, loop.loop.seed % 6
    if kind == 0:
        return x * number + (number - x) * 0.1
    if kind == 1:
        return x / number + (loop.number // 3) * 0.1
    if kind == 2:
        return number * x - loop.number
    if kind == 3:
        return x + number * 0.5 if loop.number > 5 else x + 0.5  # constant at first
    if kind == 4:
        return 0.1 / (x * x + number) + x
    y = x.clone()
    y *= number
    return y.sub_(number * 0.1)


def _by_a_read(loop: State, x: Any) -> Any:
    return x / (1.0 + float(x.detach().abs().max().item()))


def _listed(loop: State, x: Any) -> Any:
    columns, kind = [*range(1, WIDTH), 0], loop.loop.seed % 5
    if kind == 0:
        return x[:, columns]
    if kind == 1:
        return x[:, np.array(columns)] + x[[0, -1, 0]].mean(0)
    if kind == 2:
        return x + x[:, [True, False] * (WIDTH // 2)].mean() + x[[0, 1], [2, -1]].sum()
    if kind == 3:
        if loop.mask is None:
            loop.mask = loop.lib.tensor([True, False, True] * (WIDTH // 3))
        if loop.number % 7 == 6:
            loop.mask[loop.number % 2 + 1] = loop.number % 3 == 0
        return x + x[:, loop.mask].sum(1, keepdim=True) * 0.1
    y = x.clone()
    y[:, [0, 2]] = 0.5
    y[[1, 0]] = y[[0, 1]] * 0.5
    return y


def _left_views(loop: State, x: Any) -> Any:
    kind = loop.loop.seed
    if loop.left and loop.number % 3 == kind % 3:
        if kind % 2:
            with loop.lib.no_grad():
                loop.left[0].mul_(0.5)
        for number, view in enumerate(loop.left):
            loop.read(f"left {number}", view)
    y = x * 1.5 if kind % 7 else x.detach() * 1.5
    first, second = y.chunk(2, 1) if kind % 4 else (y.t(), y[1:, ::2])
    loop.left = [first, second, *([y] if kind % 5 < 2 else ())]
    return x + first.mean() - second.sum() * 0.01


def _penalty_inside(loop: State, x: Any) -> Any:
    y = x.detach().requires_grad_()
    (slope,) = loop.lib.grad((loop.lib.tanh(y) * x).sum(), [y], create_graph=True)
    return x + slope * 0.1


def _inner_backward(loop: State, x: Any) -> Any:
    y = x.detach().requires_grad_()
    loop.lib.tanh(y).sum().backward()
    return x + y.grad * 0.1


def _read_and_written(loop: State, x: Any) -> Any:
    y, kind = (x.detach() * 1.5).to(loop.lib.float_type), loop.loop.seed % 4
    view = (y, y[1:], y.t(), y.view(-1))[kind]
    loop.see("before a write", np.array((view if loop.loop.seed % 3 else y).numpy()))  # the tensor itself, no alias
    (y if loop.loop.seed % 5 else view).mul_(0.5)
    loop.see("after a write", np.array((y if loop.loop.seed % 7 else view).numpy()))
    return x + (y * 0.1).to(x.dtype)


def _carried(loop: State, x: Any) -> Any:
    loop.hidden = loop.lib.tanh(x + (0.0 if loop.hidden is None else loop.hidden.detach().mean(0)))
    return loop.hidden


def _queued(loop: State, x: Any) -> Any:
    loop.queue[loop.number % len(loop.queue)] = x.detach().mean(0)
    return x + loop.queue.mean(0) * 0.1


OWN_LAYERS: dict[str, Callable[[State, Any], Any]] = {
    "cube": lambda loop, x: loop.lib.cube.apply(x),
    "checkpoint": _checkpointed,
    "by value": _by_value,
    "no grad": _no_grad_part,
    "autocast": _autocast_part,
    "written rows": _written_rows,
    "restructured": _restructured,
    "unbound": _unbound,
    "embedded": _embedded,
    "static copy": _detached_copy,
    "out": _out,
    "alternating": _scaled_constant,
    "annealed": _annealed,
    "by a read": _by_a_read,
    "listed": _listed,
    "left views": _left_views,
    "penalty inside": _penalty_inside,
    "inner backward": _inner_backward,
    "dropout op": lambda loop, x: loop.lib.F.dropout(x, 0.3, training=loop.net.training),
    "normal": lambda loop, x: x + loop.lib.randn(x.shape, dtype=x.dtype) * 0.1,
    "noise like": lambda loop, x: x + (loop.lib.randn_like(x) if loop.loop.seed % 2 else loop.lib.rand_like(x)) * 0.1,
    "carried": _carried,
    "queued": _queued,
    "expanded": lambda loop, x: x + x.mean(0, keepdim=True).expand(x.shape[0], WIDTH),
    "flat write": lambda loop, x: x.clone().flatten().mul_(1.5).view(x.shape[0], WIDTH),
    "detach sum": lambda loop, x: x + x.detach().mean(),
    "host constant": lambda loop, x: x + loop.lib.tensor([0.5] * WIDTH, dtype=x.dtype),
    "array index": lambda loop, x: x[:, loop.lib.tensor(np.arange(WIDTH)[::-1].copy())],
    "mask": lambda loop, x: x * (x > 0).to(x.dtype) + 0.1 * x,
    "sorted": lambda loop, x: x.sort(1)[0] if isinstance(x.sort(1), tuple) else x,
    "topk": lambda loop, x: x + x.topk(3, dim=1)[0].mean(),
    "setitem value": lambda loop, x: _set_value(x),
    "read and written": _read_and_written,
    "max": lambda loop, x: x - x.max(1, keepdim=True)[0],
}


def _set_value(x: Any) -> Any:
    y = x.clone()
    y[0, 0] = x[0, 1] * 2
    y[y < -1.0] = -1.0
    return y


TRICKS = (
    "accumulate", "penalty", "clip", "clip value", "clip device", "keep zeros", "zero at end", "zero by module",
    "zero by hand", "schedule", "two groups", "losses", "losses detached", "outputs", "ema", "evaluate", "gan",
    "two models", "autocast", "retain", "data by index", "data in place", "same data", "grad norm", "grad function",
    "item", "item at end", "scaler", "sum of losses", "metrics", "frozen first", "steps twice", "backward in pieces",
    "keep out", "no zero", "data of host", "data on host", "closure", "data in closure",
    "early read", "running sum", "slow weights", "same parameters", "hook elsewhere",
    "other device",
)  # fmt: skip


# What a loop does with gradients by itself, between its backward pass and its step.
WITH_GRADIENTS: dict[str, Callable[[State, list[Any]], None]] = {
    "halved": lambda s, leaves: [p.grad.mul_(0.5) for p in leaves] and None,
    "decayed": lambda s, leaves: [p.grad.add_(p.detach(), alpha=0.01) for p in leaves] and None,
    "norm read": lambda s, leaves: s.see("norm", sum(p.grad.square().sum() for p in leaves).item()),
    "norm kept": lambda s, leaves: s.see("norm", sum(p.grad.square().sum() for p in leaves)),
    "clipped": lambda s, leaves: _clipped(s, leaves),
    "read twice": lambda s, leaves: _read_twice(s, leaves),
    "one held": lambda s, leaves: _held(s, leaves),
    "views": lambda s, leaves: _views_of_gradients(s, leaves),
    "zero rows": lambda s, leaves: [p.grad[:1].zero_() for p in leaves if p.grad.shape] and None,
    "data": lambda s, leaves: [p.grad.data.mul_(0.9) for p in leaves] and None,
    "branch": lambda s, leaves: [p.grad.mul_(0.5) for p in leaves if p.grad.abs().max().item() > 0.1] and None,
    "set": lambda s, leaves: [setattr(p, "grad", p.grad * 0.5) for p in leaves] and None,
    "set held": lambda s, leaves: _set_held(s, leaves),
    "set to none": lambda s, leaves: setattr(leaves[s.loop.seed % len(leaves)], "grad", None),
    "set two": lambda s, leaves: _set_two(s, leaves),
    "noisy": lambda s, leaves: [p.grad.add_(s.lib.randn_like(p.grad), alpha=0.01) for p in leaves] and None,
    "used again": lambda s, leaves: s.see("dot", sum((p.grad * p.detach()).sum() for p in leaves)),
}


def _clipped(s: State, leaves: list[Any]) -> None:
    norm = s.lib.stack([p.grad.norm() for p in leaves]).norm()
    for p in leaves:
        p.grad.mul_((0.5 / (norm + 1e-6)).clamp(max=1.0))
    s.see("norm", norm.item() if s.loop.seed % 2 else norm)


def _read_twice(s: State, leaves: list[Any]) -> None:
    p = leaves[s.loop.seed % len(leaves)]
    grad = p.grad if s.loop.seed % 3 else p.grad.detach()
    s.read("gradient", grad)
    p.grad.mul_(0.5)
    s.read("gradient", grad if s.loop.seed % 5 else p.grad)
    s.see("the same", p.grad is grad)


def _held(s: State, leaves: list[Any]) -> None:
    s.gradient = leaves[s.number % len(leaves) if s.loop.seed % 3 == 0 else 0].grad
    s.see("kept", s.gradient)


def _set_held(s: State, leaves: list[Any]) -> None:
    p = leaves[s.loop.seed % len(leaves)]
    before = p.grad if s.loop.seed % 3 else s.gradient
    s.gradient = p.grad = p.detach() * 0.1 + (p.grad if before is None or before.shape != p.shape else before)
    if s.loop.seed % 5 == 0:
        s.read("set", s.gradient)
    if s.loop.seed % 7 == 0:
        p.grad.mul_(0.5)


def _set_two(s: State, leaves: list[Any]) -> None:
    p = leaves[s.loop.seed % len(leaves)]
    p.grad = (p.detach() * 0.1, p.grad.detach(), s.lib.ones(p.shape, dtype=p.dtype), p.grad.clone())[s.loop.seed % 4]
    if s.loop.seed % 3 == 0:
        p.grad = p.grad.clone() if s.loop.seed % 5 else None


def _views_of_gradients(s: State, leaves: list[Any]) -> None:
    p = leaves[s.loop.seed % len(leaves)]
    view = (p.grad.t() if len(p.grad.shape) == 2 else p.grad, p.grad.detach(), p.grad.view(-1)[:2])[s.loop.seed % 3]
    if s.loop.seed % 4 == 0:
        s.read("view of a gradient", view)
    if s.loop.seed % 5 == 0:
        view.mul_(0.5)
    if s.loop.seed % 7 == 0:
        s.gradient = view
    s.see("view's sum", view.sum())


@dataclass(frozen=True)
class Loop:
    """``parts`` are ("layer", name), ("trick", name), ("gradients", name), ("deed", step, place, name, number); all may
    be removed.
    """

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


def drawn_loop(rng: random.Random, of: random.Random | None = None) -> Loop:
    """Returns a random loop; network, loss and optimizer are drawn from ``of`` if that is given."""
    base = rng if of is None else of
    names = [*LAYERS, *OWN_LAYERS]
    layers = [base.choice(names) for _ in range(base.randrange(1, 5))]
    if base.random() < 0.05:
        layers.append("read and written")
    parts: list[tuple[Any, ...]] = [("layer", name) for name in layers]
    chance = base.choice((0.02, 0.05, 0.1))
    parts += [("trick", trick) for trick in TRICKS if base.random() < chance]
    if base.random() < 0.1:
        parts.append(("trick", "early read"))
    if base.random() < 0.3:
        parts += [("gradients", base.choice(list(WITH_GRADIENTS))) for _ in range(base.choice((1, 1, 2)))]
    loss, dtype = base.choice(list(LOSSES)), base.choice(("float32", "float32", "float64"))
    optimizer = base.choice(list(OPTIMIZERS) if of is None else SMALL)
    if base.random() < 0.1:
        optimizer = base.choice(list(WITH_CLOSURE))
    elif base.random() < 0.1:
        parts.append(("trick", "closure"))
    option = base.randrange(len(ALL_OPTIMIZERS[optimizer]))
    steps = rng.randrange(8, 16) if rng.random() < 0.8 else rng.randrange(30, 50)
    deeds = []
    for _ in range(rng.choice((0, 1, 2, 3, 5, 8))):
        name, place, number = rng.choice(list(DEEDS)), rng.choice(PLACES), rng.randrange(60)
        first = rng.randrange(4 if rng.random() < 0.8 else 1, steps)
        every = rng.choice((0, 0, 0, 0, 0, 1, 2, 3))  # 0: once, else the steps from one to the next
        if rng.random() < 0.25:
            first, every = 0, 1
        deeds += [("deed", at, place, name, number) for at in range(first, steps if every else first + 1, every or 1)]
    if rng.random() < 0.35:  # values are read in each step, so that it is computed in parts
        for _ in range(rng.randrange(1, 3)):
            name, place, number = rng.choice(READS), rng.choice(PLACES), rng.randrange(60)
            deeds += [("deed", at, place, name, number) for at in range(steps)]
    return Loop((*parts, *deeds), loss, optimizer, option, dtype, rng.getrandbits(20), steps)


@dataclass
class State:
    """The objects of a loop that runs."""

    loop: Loop
    lib: Any
    found: dict[str, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    handles: list[Any] = field(default_factory=list)
    extra: list[Any] = field(default_factory=list)
    batch: int = BATCHES[0]
    number: int = 0
    x: Any = None
    loss: Any = None
    skip: str = ""
    out: Any = None
    gradient: Any = None  # that the loop refers to from one step to the next
    hidden: Any = None  # of a recurrent loop
    mask: Any = None
    left: list[Any] = field(default_factory=list)  # views that a step leaves to the next one
    total: Any = 0.0
    saved: Any = None
    around: Any = None  # makes the context of the forward pass of this step

    def __post_init__(self) -> None:
        loop = self.loop
        self.rng = np.random.default_rng(loop.seed)
        self.lib.manual_seed(loop.seed)
        self.tricks = {name for (name,) in loop.of("trick")}
        if loop.optimizer in WITH_CLOSURE:
            self.tricks = self.tricks - {"two groups", "two models"} | {"closure"}
        if "closure" in self.tricks:  # a scaler takes none
            self.tricks = self.tricks - {"scaler"}
        self.device_type = "cpu"
        self.net, self.layers = self._network([name for (name,) in loop.of("layer")] + ["linear"])
        self.optimizer = self._optimizer(self.net)
        self.scheduler = (
            self.lib.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.7) if "schedule" in self.tricks else None
        )
        self.scaler = self.lib.GradScaler(init_scale=8.0, growth_interval=3) if "scaler" in self.tricks else None
        self.second = self.second_optimizer = None
        if self.tricks & {"gan", "two models"}:
            self.second, _ = self._network(["linear"])
            if "gan" in self.tricks:
                self.second_optimizer = self._optimizer(self.second)
            else:
                parameters = [p for p in self.second.parameters() if loop.optimizer != "Muon" or len(p.shape) == 2]
                self.optimizer.add_param_group({"params": parameters})
        self.other = self._optimizer(self.net) if "same parameters" in self.tricks else None
        self.far = self.far_optimizer = None
        if "other device" in self.tricks:
            self.far = self.lib.nn.Parameter(self.lib.elsewhere(self._values(WIDTH, WIDTH)))
            name, option = (loop.optimizer, loop.option) if loop.optimizer not in WITH_CLOSURE else ("SGD", 0)
            self.far_optimizer = getattr(self.lib.optim, name)([self.far], **ALL_OPTIMIZERS[name][option])
        self.slow = [p.detach().clone() for p in self.net.parameters()] if "slow weights" in self.tricks else []
        self.ema = [p.detach().clone() for p in self.net.parameters()] if "ema" in self.tricks else None
        self.square = self._tensor(self.rng.uniform(-0.3, 0.3, (WIDTH, WIDTH)))
        self.table = self._tensor(self.rng.uniform(-0.3, 0.3, (CLASSES, WIDTH)))
        self.index = self.lib.tensor(self.rng.integers(0, CLASSES, max(BATCHES)))
        self.static = self._tensor(np.zeros((BATCHES[0], WIDTH)))
        self.queue = self._tensor(np.zeros((3, WIDTH)))
        self.elsewhere = self.lib.nn.Parameter(self._tensor(np.zeros(2)))
        if "hook elsewhere" in self.tricks:
            self.handles.append(self.elsewhere.register_hook(lambda grad: grad * 0.5))
        self.all_data = self._tensor(self.rng.standard_normal((4 * max(BATCHES), WIDTH)))
        self.all_targets = self.lib.tensor(self.rng.integers(0, CLASSES, 4 * max(BATCHES)))
        self.host = self.rng.standard_normal((max(BATCHES), WIDTH)).astype(loop.dtype)
        self.shares = (
            getattr(self.square, "backend", "cpu") == "cpu"
        )  # else writes into an array race with queued kernels
        if "frozen first" in self.tricks:
            next(iter(self.net.parameters())).requires_grad_(False)
        self.pieces = [(at, place, name, number) for at, place, name, number in loop.of("deed")]

    def _values(self, *shape: int) -> Any:
        return self.rng.uniform(-0.5, 0.5, shape).astype(self.loop.dtype)

    def _tensor(self, array: Any) -> Any:
        return self.lib.tensor(np.asarray(array).astype(self.loop.dtype))

    def _network(self, names: list[str]) -> tuple[Any, list[tuple[str, Any]]]:
        layers, modules = [], []
        for name in names:
            module = LAYERS[name][0](self.lib) if name in LAYERS else None
            layers.append((name, module))
            modules += [module] if module is not None else []
        net = self.lib.nn.ModuleList(modules).to(self.lib.float_type)
        with self.lib.no_grad():
            for _, p in sorted(net.named_parameters()):
                p.copy_(self._tensor(self.rng.uniform(-0.5, 0.5, tuple(p.shape))))
        return net, layers

    def _optimizer(self, net: Any) -> Any:
        name, option = self.loop.optimizer, self.loop.option
        options = ALL_OPTIMIZERS[name][option]
        parameters = [p for p in net.parameters() if name != "Muon" or len(p.shape) == 2]
        groups: Any = parameters
        if "two groups" in self.tricks and len(parameters) > 1:
            groups = [{"params": parameters[:1], "lr": options["lr"] * 0.5}, {"params": parameters[1:]}]
        return getattr(self.lib.optim, name)(groups, **options)

    # -- what is seen --------------------------------------------------------------------------------------------------

    def see(self, name: str, value: Any) -> None:
        """Notes a value now; a tensor is read at the end."""
        self.found[f"{len(self.found)} step {self.number} {name}"] = value

    def read(self, name: str, tensor: Any) -> None:
        """Notes the values and the flags of a tensor now."""
        self.see(name, _array(tensor))

    def flags(self, name: str, tensor: Any) -> None:
        """Notes what a tensor says of itself."""
        self.see(name, _flags(tensor))

    # -- the step ------------------------------------------------------------------------------------------------------

    def data(self) -> tuple[Any, Any]:
        """Returns the next batch."""
        n, rng, tricks = self.batch, self.rng, self.tricks
        if "same data" in self.tricks:
            return self.all_data[:n], self.all_targets[:n]
        if "data by index" in self.tricks:
            at = self.number % 3 * n
            return self.all_data[at : at + n], self.all_targets[at : at + n]
        x, target = rng.standard_normal((n, WIDTH)).astype(self.loop.dtype), rng.integers(0, CLASSES, n)
        if "data of host" in tricks:
            return self.lib.from_numpy(x), self.lib.from_numpy(target)
        if "data on host" in tricks and self.shares:
            self.host[:n] = x
            return self.lib.from_numpy(self.host[:n]), self.lib.tensor(target)
        if "data in place" in self.tricks and n == BATCHES[0]:
            self.static.copy_(self.lib.tensor(x))
            return self.static, self.lib.tensor(target)
        return self.lib.tensor(x), self.lib.tensor(target)

    def deeds(self, place: str) -> None:
        """Does what the loop does at this place of this step."""
        for at, where, name, number in self.pieces:
            if at == self.number and where == place:
                DEEDS[name](self, number)

    def forward(self, x: Any, deeds: bool = True) -> Any:
        """Returns the output of the network."""
        if deeds:
            self.x = x
        for at, (name, module) in enumerate(self.layers):
            x = LAYERS[name][1](self.lib, module, x) if name in LAYERS else OWN_LAYERS[name](self, x)
            if deeds:
                self.x = x
                if at == (len(self.layers) - 1) // 2:
                    self.deeds("mid")
                    x = self.x
        for p in self.extra:
            x = x + p
        return x

    def zero(self) -> None:
        """Clears the gradients in the way of this loop."""
        if "no zero" in self.tricks:
            return
        if "zero by module" in self.tricks:
            self.net.zero_grad()
        elif "zero by hand" in self.tricks:
            for p in self.net.parameters():
                p.grad = None
        else:
            self.optimizer.zero_grad(set_to_none="keep zeros" not in self.tricks)
        if self.second is not None:
            self.second.zero_grad()

    def backward(self, loss: Any) -> None:
        """Runs the backward pass in the way of this loop."""
        tricks = self.tricks
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        if "grad function" in tricks:
            parameters = [p for p in self.net.parameters() if p.requires_grad]
            for p, grad in zip(parameters, self.lib.grad(loss, parameters, allow_unused=True)):
                p.grad = grad
        elif "retain" in tricks:
            loss.backward(retain_graph=True)
            loss.backward()
        elif "backward in pieces" in tricks:
            (loss * 0.5).backward(retain_graph=True)
            (loss * loss).backward()
        else:
            loss.backward()

    def gradients(self, x: Any, target: Any) -> Any:
        """Computes the loss and the gradients, and returns the loss."""
        tricks, net = self.tricks, self.net
        if "zero at end" not in tricks:
            self.zero()
        for _ in range(2 if "accumulate" in tricks else 1):
            with ExitStack() as stack:
                if self.around is not None:
                    stack.enter_context(self.around())
                if "autocast" in tricks:
                    stack.enter_context(self.lib.autocast(self.device_type, dtype=self.lib.half))
                self.out = out = self.forward(x)
                if self.second is not None and "two models" in tricks:
                    out = out + next(iter(self.second))(x)
                loss = LOSSES[self.loop.loss](self.lib, out, target)
            if "penalty" in tricks:
                y = x.detach().requires_grad_()
                (slope,) = self.lib.grad(self.forward(y, False).sum(), [y], create_graph=True)
                loss = loss + slope.square().sum() * 0.1
            if "sum of losses" in tricks:
                loss = sum([loss * 0.25 for _ in range(4)])
            self.x, self.loss = out, loss
            if "item" in tricks:
                self.see("loss", loss.item())
            self.deeds("loss")
            self.backward(self.loss)
        if "gan" in tricks:
            fake = next(iter(self.second))(out.detach())
            self.second_optimizer.zero_grad()
            fake.square().mean().backward()
            self.second_optimizer.step(*[lambda: fake.sum()] * (self.loop.optimizer in WITH_CLOSURE))
        self.deeds("back")
        for (name,) in self.loop.of("gradients"):
            leaves = [p for p in net.parameters() if p.grad is not None]
            if leaves:
                WITH_GRADIENTS[name](self, leaves)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if "clip" in tricks:
            self.see("norm", self.lib.clip(net.parameters(), 0.5))
        if "clip device" in tricks:
            self.see("norm", self.lib.clip_all(self.optimizer, 0.5))
        if "clip value" in tricks:
            self.lib.nn.utils.clip_grad_value_(net.parameters(), 0.1)
        if "grad norm" in tricks:
            self.see("norms", [p.grad.norm() for p in net.parameters() if p.grad is not None])
        return loss

    def closure(self, x: Any, target: Any) -> Callable[[], Any]:
        """Returns the closure of a step, which may take other data each time."""

        def computed() -> Any:
            return self.gradients(*(self.data() if "data in closure" in self.tricks else (x, target)))

        return computed

    def step(self) -> None:
        """Takes a step of the loop."""
        tricks, net = self.tricks, self.net
        self.deeds("begin")
        x, target = self.data()
        if "early read" in tricks:  # while the gradients of the last step are there
            self.see("early", self.lib.matmul(x * 2.0, x.t()).tanh().sum().item())
            for p in net.parameters():
                self.read("old gradient", p.grad)
        times = 0 if self.skip == "step" else 2 if "steps twice" in tricks else 1
        order = self.loop.seed % 3 if self.far is not None else -1
        if order in (0, 1):
            self.far_backward()
        if order == 0:
            self.far_optimizer.step()
        if "closure" in tricks:
            for _ in range(times):
                self.see("returned", self.optimizer.step(self.closure(x, target)))
        else:
            self.gradients(x, target)
            if self.scaler is not None and self.skip != "step":
                self.scaler.step(self.optimizer)
                self.scaler.update()
            elif self.skip != "step":
                for _ in range(times):
                    self.optimizer.step()
        if order == 2:
            self.far_backward()
        if order in (1, 2):
            self.far_optimizer.step()
        out, loss = self.out, self.loss
        self.skip, self.around = "", None
        if self.gradient is not None:
            self.see("a gradient", [p.grad is self.gradient for p in net.parameters()])
            if self.loop.seed % 4 == 3:
                self.gradient.mul_(0.5)
        if self.scheduler is not None:
            self.scheduler.step()
        if loss is None:
            return
        if "item at end" in tricks:
            self.see("loss", loss.item())
        if "losses" in tricks:
            self.see("loss", loss)
        if "losses detached" in tricks:
            self.see("loss", loss.detach())
        if "outputs" in tricks:
            self.see("out", out.detach())
        if "keep out" in tricks:
            self.see("out", out)
        if "running sum" in tricks:
            self.total = self.total + loss.detach()
            if self.number % 5 == 4:
                self.see("total", self.total.item())
                self.total = 0.0
        if self.slow and self.number % 3 == 2:
            for slow, p in zip(self.slow, net.parameters()):
                slow += 0.5 * (p.detach() - slow)
                p.data.copy_(slow)
        if self.other is not None:
            self.other.step(*[lambda: self.square.sum()] * (self.loop.optimizer in WITH_CLOSURE))
        if "metrics" in tricks:
            self.see("right", (out.argmax(1) == target).sum())
        if self.ema is not None:
            with self.lib.no_grad():
                for mean, p in zip(self.ema, net.parameters()):
                    mean.mul_(0.9).add_(p, alpha=0.1)
        if "evaluate" in tricks and self.number % 2:
            self.evaluate()
        if "zero at end" in tricks:
            self.zero()
        self.deeds("end")

    def far_backward(self) -> None:
        """Computes the gradient of the network on another device."""
        self.far_optimizer.zero_grad()
        total = self.lib.tanh(self.far * self.lib.elsewhere(self._values(WIDTH, WIDTH))).sum()
        total.backward()
        self.see("far", total.item() if self.loop.seed % 2 else total)

    def evaluate(self) -> None:
        """Runs the network in evaluation mode."""
        training = self.net.training
        self.net.eval()
        try:
            with self.lib.no_grad():
                self.see("evaluated", self.forward(self.all_data[: self.batch], deeds=False))
        finally:
            self.net.train(training)

    def parameter(self, number: int) -> Any:
        """Returns one of the parameters."""
        parameters = list(self.net.parameters())
        return parameters[number % len(parameters)]


# -- deeds -------------------------------------------------------------------------------------------------------------


def _write_kept(s: State, n: int) -> None:
    if s.kept:
        with s.lib.no_grad():
            s.kept[n % len(s.kept)].mul_(0.5)


def _write_kept_view(s: State, n: int) -> None:
    if s.kept:
        with s.lib.no_grad():
            s.kept[n % len(s.kept)].reshape(-1)[:1].add_(1.0)


def _use_kept(s: State, n: int) -> None:
    if s.kept and s.kept[n % len(s.kept)].dtype == s.lib.float_type:
        s.x = s.x + s.kept[n % len(s.kept)].detach().mean()


def _use_kept_graph(s: State, n: int) -> None:
    if s.kept and s.kept[n % len(s.kept)].dtype == s.lib.float_type:
        s.loss = s.loss + s.kept[n % len(s.kept)].sum() * 0.1


def _keep(value: Callable[[State, int], Any]) -> Callable[[State, int], None]:
    def keep(s: State, n: int) -> None:
        tensor = value(s, n)
        if tensor is not None:
            s.kept.append(tensor)
            s.see("kept", tensor)

    return keep


def _hook_parameter(s: State, n: int) -> None:
    s.handles.append(s.parameter(n).register_hook(lambda grad: grad * 0.5))


def _hook_after(s: State, n: int) -> None:
    def halved(p: Any) -> None:
        p.grad.mul_(0.5)

    s.handles.append(s.parameter(n).register_post_accumulate_grad_hook(halved))


def _hook_value(s: State, n: int) -> None:
    if s.x.requires_grad:
        s.x.register_hook(lambda grad: grad * 2.0)


def _hook_seen(s: State, n: int) -> None:
    if s.x.requires_grad:
        s.x.register_hook(lambda grad: s.see("gradient in a hook", grad))


def _retain(s: State, n: int) -> None:
    if s.x.requires_grad:
        s.x.retain_grad()
        s.see("retained", s.x)


def _module(s: State, n: int) -> Any:
    modules = list(s.net)
    return modules[n % len(modules)]


def _hook_module(s: State, n: int) -> None:
    module = _module(s, n)

    def changed(module: Any, inputs: Any, output: Any) -> Any:
        return output * 0.5 if isinstance(output, s.lib.Tensor) else None

    if n % 3 == 0:
        s.handles.append(module.register_forward_hook(changed))
    elif n % 3 == 1:
        s.handles.append(module.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2.0, *inputs[1:])))
    else:
        s.handles.append(
            module.register_full_backward_hook(lambda module, given, out: tuple(g and g * 2.0 for g in given))
            if n % 2
            else module.register_full_backward_hook(lambda module, given, out: None)
        )


def _remove_hooks(s: State, n: int) -> None:
    for handle in s.handles:
        handle.remove()
    s.handles.clear()


def _raise(s: State, n: int) -> None:
    raise UserError(f"by the program {n}")


def _wrong_shape(s: State, n: int) -> None:
    s.lib.matmul(s.x, s.x) if n % 2 else s.x.reshape(7, 5)


def _set_grad(s: State, n: int) -> None:
    p = s.parameter(n)
    if n % 4 == 0:
        p.grad = None
    elif n % 4 == 1:
        p.grad = s.lib.ones(p.shape, dtype=p.dtype)
    elif n % 4 == 2 and p.grad is not None:
        p.grad.mul_(0.5)
    elif p.grad is not None:
        p.grad = p.grad * 2.0


def _zero_one(s: State, n: int) -> None:
    p = s.parameter(n)
    if p.grad is not None:
        p.grad.zero_()


def _write_weights(s: State, n: int) -> None:
    p = s.parameter(n)
    kind = n % 8
    if kind == 0:
        p.data.mul_(0.9)
    elif kind == 1:
        p.data = p.data * 0.9
    elif kind == 2:
        s.net.load_state_dict({name: value * 0.9 for name, value in s.net.state_dict().items()})
    elif kind == 3:
        with s.lib.no_grad():
            p.copy_(p.detach() * 0.5)
    elif kind == 4:
        with s.lib.no_grad():
            p[0] = 0.25
    elif kind == 5:
        with s.lib.no_grad():
            p.view(-1)[0].fill_(0.5)
    elif kind == 6:
        p.detach().add_(0.01)
    else:
        s.net.load_state_dict(copy.deepcopy(s.net.state_dict()))


def _write_weights_in_graph(s: State, n: int) -> None:
    s.parameter(n).mul_(0.5)  # an error: a leaf that requires grad


def _saved_overwritten(s: State, n: int) -> None:
    with s.lib.no_grad():
        s.x.add_(1.0)  # may make the backward pass raise


def _options(s: State, n: int) -> None:
    group = s.optimizer.param_groups[n % len(s.optimizer.param_groups)]
    if n % 3 == 0:
        group["lr"] = group["lr"] * 0.5
    elif n % 3 == 1 and "weight_decay" in group:
        group["weight_decay"] = 0.05
    elif "momentum" in group:
        group["momentum"] = 0.5


def _optimizer_state(s: State, n: int) -> None:
    if n % 2:
        s.optimizer.load_state_dict(copy.deepcopy(s.optimizer.state_dict()))
    else:
        for number, values in s.optimizer.state_dict()["state"].items():
            for key, value in sorted(values.items()):
                s.see(f"state {number} {key}", value)


def _new_optimizer(s: State, n: int) -> None:
    s.optimizer = s._optimizer(s.net)
    if s.scheduler is not None:
        s.scheduler = s.lib.optim.lr_scheduler.StepLR(s.optimizer, 3, 0.7)


def _save_and_load(s: State, n: int) -> None:
    if n % 2 or s.saved is None:
        s.saved = copy.deepcopy((s.net.state_dict(), s.optimizer.state_dict()))
    else:
        s.net.load_state_dict(s.saved[0])
        s.optimizer.load_state_dict(s.saved[1])


def _new_parameter(s: State, n: int) -> None:
    p = s.lib.nn.Parameter(s._tensor(s.rng.uniform(-0.3, 0.3, (1, WIDTH))))
    s.extra.append(p)
    if s.loop.optimizer != "Muon":
        s.optimizer.add_param_group({"params": [p]})


def _draw(s: State, n: int) -> None:
    s.see("drawn", s.lib.randn((3,)) if n % 2 else s.lib.rand((2, 2)))
    if n % 5 == 0:
        s.see("permutation", s.lib.randperm(5))


def _seed(s: State, n: int) -> None:
    if n % 3 == 0:
        s.lib.manual_seed(n)
    elif n % 3 == 1:
        s.state = s.lib.get_rng_state()
    elif getattr(s, "state", None) is not None:
        s.lib.set_rng_state(s.state)


def _more_backward(s: State, n: int) -> None:
    if s.loss is not None and s.loss.requires_grad:
        if n % 4 == 0:
            s.loss.backward(retain_graph=True)
        elif n % 4 == 1:
            (s.loss * 2.0).backward()  # a second pass may raise
        elif n % 4 == 2:
            s.see("grad()", s.lib.grad(s.loss, [s.parameter(n)], retain_graph=True, allow_unused=True))
        else:
            s.loss.backward(inputs=[s.parameter(n)], retain_graph=True)


def _flags_of_all(s: State, n: int) -> None:
    s.flags("x", s.x) if s.x is not None else None
    s.flags("loss", s.loss) if s.loss is not None else None
    for p in s.net.parameters():
        s.flags("p", p)
        if p.grad is not None:
            s.flags("grad", p.grad)
    for tensor in s.kept:
        s.flags("kept", tensor)


def _version(s: State, n: int) -> None:
    s.see("versions", [s.parameter(n)._version, s.x._version if s.x is not None else 0])


def _identity(s: State, n: int) -> None:
    s.see("identity", [any(p.grad is kept for kept in s.kept) for p in s.net.parameters()])
    s.see("none", [p.grad is None for p in s.net.parameters()])


def _read_kept(s: State, n: int) -> None:
    if s.kept:
        s.read("kept", s.kept[n % len(s.kept)])


def _host_array(s: State, n: int) -> None:
    s.see("array", s.parameter(n).detach().numpy())


def _host_data(s: State, n: int) -> None:
    if not s.shares:
        return
    data = s.lib.from_numpy(s.host[: s.batch])
    s.x = s.x + data * 0.1 if s.x is not None and tuple(s.x.shape) == tuple(data.shape) else s.x
    s.host *= 0.5


def _double(s: State, n: int) -> None:
    other = copy.deepcopy(s.net)
    s.see("copied", list(other.parameters()))


def _mode(s: State, n: int) -> None:
    s.net.train(bool(n % 2))


def _freeze(s: State, n: int) -> None:
    s.parameter(n // 2).requires_grad_(bool(n % 2))


def _batch(s: State, n: int) -> None:
    s.batch = BATCHES[n % len(BATCHES)]


def _zero(s: State, n: int) -> None:
    s.optimizer.zero_grad(set_to_none=bool(n % 2))


def _skip(s: State, n: int) -> None:
    s.skip = "step"


def _extra_step(s: State, n: int) -> None:
    s.optimizer.step(*[s.square.sum] * (s.loop.optimizer in WITH_CLOSURE))


def _closure(s: State, n: int) -> None:
    def closure() -> Any:
        s.optimizer.zero_grad()
        loss = next(iter(s.net)).weight.square().sum() if hasattr(next(iter(s.net)), "weight") else s.square.sum()
        if loss.requires_grad:
            loss.backward()
        return loss

    s.see("closure", s.optimizer.step(closure))


def _change_x(s: State, n: int) -> None:
    if s.x is None:
        return
    s.x = (s.x * 0.5, s.x + 0.0, s.x.clone().mul_(2.0), s.x.detach(), s.lib.relu(s.x))[n % 5]


def _write_x(s: State, n: int) -> None:
    if s.x is None:
        return
    if n % 3 == 0:
        s.x.mul_(0.5)
    elif n % 3 == 1:
        s.x[0] = 0.1
    else:
        s.x.view(-1)[:2].add_(0.5)


def _change_loss(s: State, n: int) -> None:
    if s.loss is not None:
        s.loss = s.loss * 2.0 if n % 2 else s.loss + s.parameter(n).square().sum() * 0.01


def _anomaly(s: State, n: int) -> None:
    with s.lib.detect_anomaly():
        (s.parameter(n) * 2.0).sum().backward() if s.parameter(n).requires_grad else None


def _inference(s: State, n: int) -> None:
    with s.lib.inference_mode() if n % 2 else s.lib.no_grad():
        s.see("inference", s.forward(s.all_data[: s.batch], deeds=False).sum())


def _set_buffer(s: State, n: int) -> None:
    for buffer in s.net.buffers():
        if buffer.dtype == s.lib.float_type:
            buffer.mul_(0.5)


def _thread(s: State, n: int) -> None:
    import threading

    tensor = s.loss if s.loss is not None else s.parameter(n)
    other = threading.Thread(target=lambda: s.read("in a thread", tensor))
    other.start()
    other.join()


def _shown(s: State, n: int) -> None:
    s.see("text", repr(s.loss if n % 2 else s.x))


def _around(s: State, n: int) -> None:
    def pack(x: Any) -> Any:
        s.see("packed", tuple(x.shape))
        return x

    s.around = (
        lambda: s.lib.saved_tensors_hooks(pack, lambda x: x), s.lib.detect_anomaly, s.lib.no_grad,
        lambda: s.lib.autocast(s.device_type, dtype=s.lib.half), s.lib.enable_grad, s.lib.inference_mode,
    )[n % 6]  # fmt: skip


def _storage(s: State, n: int) -> None:
    tensor = (s.x, s.loss, s.parameter(n), s.parameter(n).grad, *s.kept)[n % (4 + len(s.kept))]
    if tensor is None:
        return
    if n % 3 == 0:
        s.see("storage", [tensor.untyped_storage().nbytes(), tensor.storage_offset(), tuple(tensor.stride())])
    elif n % 3 == 1:
        s.see("same storage", [tensor.data_ptr() == other.data_ptr() for other in (s.parameter(n), *s.kept)])
    else:
        s.kept.append(tensor.detach().as_strided((2,), (1,), 0))
        s.see("strided", s.kept[-1])


def _read_flags(s: State, n: int) -> None:
    if s.x is not None:
        part = (s.x.t(), s.x[:, ::2], s.x[1:], s.x.detach(), s.x.reshape(-1))[n % 5]
        s.see("read", part.sum().item())
        s.flags("part", part)


def _hand_update(s: State, n: int) -> None:
    with s.lib.no_grad():
        for p in s.net.parameters():
            if p.grad is not None:
                p.sub_(p.grad * 0.01)


def _value_branch(s: State, n: int) -> None:
    if s.loss is not None and s.loss > 1.0:
        s.see("branch", True)
        s.loss = s.loss * 0.5


DEEDS: dict[str, Callable[[State, int], None]] = {
    "read x": lambda s, n: s.read("x", s.x) if s.x is not None else None,
    "read loss": lambda s, n: s.see("loss", s.loss.item()) if s.loss is not None else None,
    "read parameter": lambda s, n: s.read("parameter", s.parameter(n)),
    "read grad": lambda s, n: s.read("grad", s.parameter(n).grad) if s.parameter(n).grad is not None else None,
    "read sum": lambda s, n: s.see("sum", s.parameter(n).detach().sum().item()),
    "keep x": _keep(lambda s, n: s.x),
    "keep view": _keep(lambda s, n: s.x[:1] if s.x is not None else None),
    "keep detached": _keep(lambda s, n: s.x.detach() if s.x is not None else None),
    "keep loss": _keep(lambda s, n: s.loss),
    "keep loss detached": _keep(lambda s, n: None if s.loss is None else s.loss.detach()),
    "keep grad": _keep(lambda s, n: s.parameter(n).grad),
    "keep view of grad": _keep(lambda s, n: s.parameter(n).grad[:1] if s.parameter(n).grad is not None else None),
    "keep data": _keep(lambda s, n: s.parameter(n).data),
    "keep parameter detached": _keep(lambda s, n: s.parameter(n).detach()),
    "keep view of parameter": _keep(lambda s, n: s.parameter(n).detach()[:1]),
    "keep clone": _keep(lambda s, n: s.parameter(n).detach().clone()),
    "keep square": _keep(lambda s, n: s.parameter(n) * 2.0),
    "keep mean": _keep(lambda s, n: s.x.mean() if s.x is not None else None),
    "drop kept": lambda s, n: s.kept.clear(),
    "write kept": _write_kept,
    "read kept": _read_kept,
    "write kept view": _write_kept_view,
    "use kept": lambda s, n: _use_kept(s, n) if s.x is not None else None,
    "use kept graph": lambda s, n: _use_kept_graph(s, n) if s.loss is not None else None,
    "hook parameter": _hook_parameter,
    "hook after": _hook_after,
    "hook value": lambda s, n: _hook_value(s, n) if s.x is not None else None,
    "hook seen": lambda s, n: _hook_seen(s, n) if s.x is not None else None,
    "retain grad": lambda s, n: _retain(s, n) if s.x is not None else None,
    "hook module": _hook_module,
    "remove hooks": _remove_hooks,
    "raise": _raise,
    "wrong shape": lambda s, n: _wrong_shape(s, n) if s.x is not None else None,
    "set grad": _set_grad,
    "zero one": _zero_one,
    "write weights": _write_weights,
    "write weights in graph": _write_weights_in_graph,
    "overwrite saved": lambda s, n: _saved_overwritten(s, n) if s.x is not None else None,
    "options": _options,
    "optimizer state": _optimizer_state,
    "new parameter": _new_parameter,
    "new optimizer": _new_optimizer,
    "save and load": _save_and_load,
    "draw": _draw,
    "seed": _seed,
    "more backward": _more_backward,
    "flags": _flags_of_all,
    "version": _version,
    "identity": _identity,
    "host array": _host_array,
    "host data": _host_data,
    "deep copy": _double,
    "mode": _mode,
    "freeze": _freeze,
    "batch": _batch,
    "zero": _zero,
    "skip step": _skip,
    "extra step": _extra_step,
    "closure": _closure,
    "change x": _change_x,
    "write x": _write_x,
    "change loss": _change_loss,
    "anomaly": _anomaly,
    "inference": _inference,
    "write buffer": _set_buffer,
    "thread": _thread,
    "text": lambda s, n: _shown(s, n) if (s.loss if n % 2 else s.x) is not None else None,
    "branch": _value_branch,
    "around": _around,
    "storage": _storage,
    "read flags": _read_flags,
    "hand update": _hand_update,
    "collect": lambda s, n: gc.collect() and None,
    "evaluate": lambda s, n: s.evaluate(),
}
READS = ("read x", "read loss", "read parameter", "read sum", "read flags", "text", "thread", "branch", "read kept")
DRAWING = ("dropout", "noise", "dropout op", "normal", "draw", "seed", "noise like", "noisy")


def _array(tensor: Any) -> Any:
    if tensor is None:
        return None
    try:
        tensor = tensor.detach()
        return np.array((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _flags(tensor: Any) -> str:
    function = tensor.grad_fn
    return (
        f"{tuple(tensor.shape)} {tuple(tensor.stride())} {tensor.dtype} {tensor.is_contiguous()} {tensor.is_leaf} "
        f"{tensor.requires_grad} {type(function).__name__} {getattr(function, 'name', lambda: '')()} "
        f"{tensor._is_view()} {tensor.retains_grad} {tensor._version}"
    )


def _plain(lib: Any, value: Any) -> Any:
    if isinstance(value, lib.Tensor):
        flags = _flags(value) if lib.name == "netcl" else ""
        return [flags, _array(value), _array(value.grad) if value.is_leaf or value.retains_grad else None]
    if isinstance(value, (list, tuple)):
        return [_plain(lib, each) for each in value]
    return value


def observed(loop: Loop, draws: bool = True, library: Callable[[str], Any] = netcl_library) -> dict[str, Any]:
    """Returns all that a user of the loop sees, by name; ``draws``: the next random number too."""
    s = State(loop, library(loop.dtype))
    for s.number in range(loop.steps):
        try:
            s.step()
        except Exception as error:
            s.see("error", f"{type(error).__name__}: {error}")
    _remove_hooks(s, 0)
    for name, p in s.net.named_parameters():
        s.see(f"parameter {name}", p)
        s.see(f"gradient {name}", p.grad)
        if s.lib.name == "netcl":
            s.see(f"version {name}", p._version)
    for name, p in s.net.named_buffers():
        s.see(f"buffer {name}", p)
    for optimizer in (s.optimizer, s.second_optimizer):
        if optimizer is not None:
            for number, values in optimizer.state_dict()["state"].items():
                for key, value in sorted(values.items()):
                    s.see(f"state {number} {key}", value)
    s.see("extra", [*s.extra, *(s.ema or ())])
    s.see("static", s.static)
    if draws:
        s.see("next number", s.lib.rand((2,)))
    return {name: _plain(s.lib, value) for name, value in s.found.items()}
