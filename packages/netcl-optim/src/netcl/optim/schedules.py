"""Learning-rate schedules: each is a closed form of the epoch and belongs to one optimizer."""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from netcl.core.errors import from_here
from netcl.optim.optimizer import Optimizer, require

# Attributes that PyTorch's schedules save in addition, as they are between two steps.
_FLAGS = {"_is_initial": False, "_get_lr_called_within_step": False}


class Scheduler:
    """Sets the learning rate of each group to ``lr_at(epoch, base)``, first for epoch 0 when it is created, then at
    each ``step()``.

    ``base`` is the group's learning rate when its first schedule was created (``initial_lr``). An epoch is the time
    between two steps. A subclass may define ``get_lr()`` instead, as for PyTorch, which returns the learning rates of
    all groups and may read ``last_epoch``, ``base_lrs`` and ``optimizer``.
    """

    # Attributes that are not part of state_dict.
    _unsaved: tuple[str, ...] = ("optimizer",)
    # True if a step overwrites a rate that the program or another schedule has set since the step before; otherwise
    # the step multiplies that rate by its factor, so that several schedules of one optimizer combine.
    absolute: ClassVar[bool] = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"expected an Optimizer, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            require("initial_lr" in group, "to continue at last_epoch, every group needs its initial_lr")
        self.base_lrs: list[float] = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: float = last_epoch
        self.step(None if last_epoch == -1 else last_epoch + 1)

    def lr_at(self, epoch: float, base: float) -> float:
        """Returns the learning rate in ``epoch`` of a group with the initial rate ``base``."""
        raise TypeError(f"{type(self).__name__} has no formula")

    def lrs_at(self, epoch: float) -> list[float]:
        """Returns the learning rates of all groups in ``epoch``."""
        return [self.lr_at(epoch, base) for base in self.base_lrs]

    def get_lr(self) -> list[float]:
        """Returns the learning rates of all groups in the current epoch."""
        return self.lrs_at(self.last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Advances to the next epoch, or to ``epoch``."""
        previous, self.last_epoch = self.last_epoch, self.last_epoch + 1 if epoch is None else epoch
        lrs = self.get_lr()
        if epoch is None and not self.absolute and type(self).get_lr is Scheduler.get_lr:
            before = self.base_lrs if previous < 0 else self.lrs_at(previous)
            current = self.get_last_lr()
            lrs = [lr if now == old else self.combined(now, old, lr) for now, old, lr in zip(current, before, lrs)]
        self._set_lrs(lrs)

    def combined(self, current: float, before: float, after: float) -> float:
        """Returns the rate after ``current``, of another schedule, if this schedule's rate goes from ``before`` to
        ``after``.
        """
        return current * after / before if before else after

    def get_last_lr(self) -> list[float]:
        """Returns the current learning rates of the groups."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the schedule as plain values, under PyTorch's names, the private ones included."""
        return {**self._state(), "_step_count": int(self.last_epoch) + 1, "_last_lr": self.get_last_lr(), **_FLAGS}

    def _state(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in self._unsaved}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state, also one of PyTorch's schedule of this name, and sets the learning rates accordingly.

        Raises ValueError for a state of another kind of schedule.
        """
        state_dict = self._of_before(state_dict)
        own = set(self._state())
        stored = {key for key in state_dict if (key in own or not key.startswith("_")) and key not in self._unsaved}
        require(own == stored, f"a {type(self).__name__} keeps {sorted(own)}, the state {sorted(stored)}")
        values = {key: state_dict[key] for key in own}
        vars(self).update({key: list(v) if isinstance(v, (list, tuple)) else v for key, v in values.items()})
        if type(self).get_lr is Scheduler.get_lr:
            self._set_after_load()
        else:  # its formula may go on from the rates of the optimizer
            self._set_lrs(state_dict.get("_last_lr", self.get_last_lr()))

    def _of_before(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a state with the names of today, from one that an earlier netcl has written under others."""
        return state_dict

    def _set_lrs(self, lrs: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs):
            group["lr"] = lr

    def _set_after_load(self) -> None:
        self.step(self.last_epoch)


class _ByFunctions(Scheduler):
    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Callable[[int], float]] = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        require(len(self.lr_lambdas) == count, f"{len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)


class LambdaLR(_ByFunctions):
    """lr = base * f(epoch), with one function, or one per group; functions are not part of the state."""

    absolute = True

    def lrs_at(self, epoch: float) -> list[float]:
        return [base * float(f(int(epoch))) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class StepLR(Scheduler):
    """lr = base * gamma^(epoch // step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        require(step_size > 0, f"expected step_size of at least 1, got {step_size}")
        self.step_size: int = step_size
        self.gamma: float = gamma
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return float(base * self.gamma ** (epoch // self.step_size))


class MultiStepLR(Scheduler):
    """lr = base * gamma^(number of milestones reached)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: list[int] = sorted(milestones)
        self.gamma: float = gamma
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return float(base * self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(Scheduler):
    """lr = base * gamma^epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return float(base * self.gamma**epoch)


class ConstantLR(Scheduler):
    """lr = base * factor before ``total_iters``, then base."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.factor: float = factor
        self.total_iters: int = total_iters
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return base * self.factor if epoch < self.total_iters else base


class LinearLR(Scheduler):
    """lr = base * a factor that changes linearly from ``start_factor`` to ``end_factor`` at ``total_iters`` and stays
    constant afterwards.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        require(0 < start_factor <= 1 and 0 <= end_factor <= 1, "start_factor is in (0, 1], end_factor in [0, 1]")
        self.start_factor: float = start_factor
        self.end_factor: float = end_factor
        self.total_iters: int = total_iters
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        done = min(epoch, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class PolynomialLR(Scheduler):
    """lr = base * (1 - epoch / total_iters)^power, zero from ``total_iters`` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        require(total_iters > 0, f"expected total_iters of at least 1, got {total_iters}")
        self.total_iters: int = total_iters
        self.power: float = power
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return float(base * (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(Scheduler):
    """lr = eta_min + (base - eta_min) (1 + cos(pi epoch / T_max)) / 2 (Loshchilov and Hutter 2016)."""

    def __init__(self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        require(T_max > 0, f"expected T_max above 0, got {T_max}")
        self.T_max: float = T_max
        self.eta_min: float = eta_min
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        return cosine(base, self.eta_min, epoch / self.T_max)

    def combined(self, current: float, before: float, after: float) -> float:
        if before == self.eta_min:
            return after
        return self.eta_min + (current - self.eta_min) * (after - self.eta_min) / (before - self.eta_min)


class CosineAnnealingWarmRestarts(Scheduler):
    """Cosine annealing over T_0 epochs, restarted with a period ``T_mult`` times as long, and so on (Loshchilov and
    Hutter 2016).
    """

    absolute = True

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        require(T_0 > 0 and T_mult >= 1, f"expected T_0 and T_mult of at least 1, got {T_0} and {T_mult}")
        self.T_0 = T_0
        self.T_mult: int = T_mult
        self.eta_min: float = eta_min
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        start, length = 0.0, float(self.T_0)
        if self.T_mult == 1:
            start = epoch // length * length
        while epoch >= start + length:
            start, length = start + length, length * self.T_mult
        return cosine(base, self.eta_min, (epoch - start) / length)


class WarmupCosine(Scheduler):
    """Linear warmup to base over ``warmup_epochs``, then a cosine down to ``min_lr``, reached at ``max_epochs`` and
    kept.

    epoch e < w: base (e + 1) / (w + 1); after: min_lr + (base - min_lr) (1 + cos(pi (e - w) / (max_epochs - w))) / 2.
    """

    absolute = True

    def __init__(
        self,
        optimizer: Optimizer,
        max_epochs: int,
        warmup_epochs: int = 5,
        min_lr: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        require(
            0 <= warmup_epochs < max_epochs,
            f"expected warmup_epochs in [0, max_epochs = {max_epochs}), got {warmup_epochs}",
        )
        self.max_epochs: int = max_epochs
        self.warmup_epochs: int = warmup_epochs
        self.min_lr: float = min_lr
        super().__init__(optimizer, last_epoch)

    def lr_at(self, epoch: float, base: float) -> float:
        if epoch < self.warmup_epochs:
            return base * (epoch + 1) / (self.warmup_epochs + 1)
        return cosine(
            base, self.min_lr, min(1.0, (epoch - self.warmup_epochs) / (self.max_epochs - self.warmup_epochs))
        )


class OneCycleLR(Scheduler):
    """From max_lr / div_factor up to ``max_lr`` over ``pct_start`` of the steps, then down to the initial rate divided
    by ``final_div_factor`` (Smith 2018).

    Call ``step`` once per batch. ``cycle_momentum`` changes momentum, or betas[0], in the opposite direction between
    ``max_momentum`` and ``base_momentum``.
    """

    absolute = True

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            require(bool(epochs and steps_per_epoch), "give total_steps, or epochs and steps_per_epoch")
            total_steps = int(epochs or 0) * int(steps_per_epoch or 0)
        require(total_steps > 0 and 0 <= pct_start <= 1, "total_steps is at least 1 and pct_start in [0, 1]")
        require_one_of("anneal_strategy", anneal_strategy, ("cos", "linear"))
        groups = optimizer.param_groups
        peaks = per_group("max_lr", max_lr, optimizer)
        lows = per_group("base_momentum", base_momentum, optimizer)
        highs = per_group("max_momentum", max_momentum, optimizer)
        self.total_steps: int = total_steps
        up = float(pct_start * total_steps) - 1
        self._schedule_phases: list[dict[str, Any]] = _phases([up, 2 * up] if three_phase else [up], total_steps - 1)
        self._anneal_func_type: str = anneal_strategy
        self.cycle_momentum: bool = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = "betas" in optimizer.defaults
            require(all("momentum" in g or "betas" in g for g in groups), "cycle_momentum needs momentum or betas")
        for group, peak, low, high in zip(groups, peaks, lows, highs):
            start = peak / div_factor
            own = {"initial_lr": start, "max_lr": peak, "min_lr": start / final_div_factor}
            own.update({"max_momentum": high, "base_momentum": low} if cycle_momentum else {})
            if last_epoch == -1:
                group.update({"lr": start, **own})
            else:
                group.update({key: value for key, value in own.items() if key not in ("initial_lr", *group)})
        super().__init__(optimizer, last_epoch)

    def _value(self, epoch: float, group: Mapping[str, Any], what: str) -> float:
        """Returns the "lr" or the "momentum" of a group at ``epoch``, between values of the group; the last one is
        reached at the last step, and the step after it, which nothing is updated by, goes on along the last phase, as
        in PyTorch, but not below 0.
        """
        start, phase = 0.0, self._schedule_phases[0]
        for following in self._schedule_phases[1:]:
            if epoch <= phase["end_step"]:
                break
            start, phase = phase["end_step"], following
        end = phase["end_step"]
        first, last = float(group[phase[f"start_{what}"]]), float(group[phase[f"end_{what}"]])
        done = (epoch - start) / (end - start) if end != start else 1.0
        if self._anneal_func_type == "linear":
            return max(0.0, first + (last - first) * done)
        return cosine(first, last, done)

    def lrs_at(self, epoch: float) -> list[float]:
        require(epoch <= self.total_steps, f"OneCycleLR was made for {self.total_steps} steps; epoch {epoch} is beyond")
        return [self._value(epoch, group, "lr") for group in self.optimizer.param_groups]

    def step(self, epoch: float | None = None) -> None:
        super().step(epoch)
        if not self.cycle_momentum:
            return
        for group in self.optimizer.param_groups:
            _set_momentum(group, self._value(self.last_epoch, group, "momentum"))

    def _of_before(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        if "ends" not in state_dict:
            return state_dict
        state = {key: state_dict[key] for key in ("total_steps", "cycle_momentum", "base_lrs", "last_epoch")}
        *ends, last = state_dict["ends"]
        for group, base, peak in zip(self.optimizer.param_groups, state["base_lrs"], state_dict["max_lrs"]):
            group.update({"initial_lr": base, "max_lr": peak, "min_lr": base / state_dict["final_div_factor"]})
            if state["cycle_momentum"]:
                group.update({key: state_dict[key] for key in ("max_momentum", "base_momentum")})
                state["use_beta1"] = "betas" in self.optimizer.defaults
        return {**state, "_schedule_phases": _phases(ends, last), "_anneal_func_type": state_dict["anneal_strategy"]}


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _phases(ends: Sequence[float], last: float) -> list[dict[str, Any]]:
    """Returns the phases of OneCycleLR, with the names of the options of a group between which each goes: up, down, and
    with a third one on to the end.
    """
    rates, momenta = ["initial_lr", "max_lr", "min_lr"], ["max_momentum", "base_momentum", "max_momentum"]
    if len(ends) == 2:
        rates.insert(2, "initial_lr")
        momenta.append("max_momentum")
    return [
        {
            "end_step": end,
            "start_lr": rates[at],
            "end_lr": rates[at + 1],
            "start_momentum": momenta[at],
            "end_momentum": momenta[at + 1],
        }
        for at, end in enumerate([*ends, last])
    ]


class SequentialLR(Scheduler):
    """Schedules one after another: ``milestones`` are the epochs at which the next one starts, counting from its own
    epoch 0.
    """

    _unsaved = ("optimizer", "schedulers")

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Scheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self.schedulers: list[Scheduler] = list(schedulers)
        self.milestones: list[int] = list(milestones)
        require(
            len(self.milestones) == len(self.schedulers) - 1,
            f"expected {len(self.schedulers) - 1} milestones for {len(self.schedulers)} schedules, "
            f"got {len(self.milestones)}",
        )
        require(all(s.optimizer is optimizer for s in self.schedulers), "all schedules belong to one optimizer")
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        at = bisect_right(self.milestones, self.last_epoch)
        self.schedulers[at].step(self.last_epoch - (self.milestones[at - 1] if at else 0))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "schedulers": [scheduler.state_dict() for scheduler in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        states = _saved(state_dict, "schedulers")
        require(len(states) == len(self.schedulers), f"{len(states)} states for {len(self.schedulers)} schedules")
        for scheduler, state in zip(self.schedulers, states):
            scheduler.load_state_dict(state)
        self.last_epoch: float = state_dict["last_epoch"]
        self.milestones = list(_saved(state_dict, "milestones"))
        self.base_lrs: list[float] = list(state_dict.get("base_lrs", self.base_lrs))
        self.step(self.last_epoch)


class MultiplicativeLR(_ByFunctions):
    """lr = the rate before times f(epoch), with one function, or one per group; functions are not part of the state."""

    lrs: list[float]

    def lrs_at(self, epoch: float) -> list[float]:
        factors = [math.prod(float(f(at)) for at in range(1, int(epoch) + 1)) for f in self.lr_lambdas]
        return [base * factor for base, factor in zip(self.base_lrs, factors)]

    def step(self, epoch: float | None = None) -> None:
        previous = self.last_epoch
        self.last_epoch = previous + 1 if epoch is None else epoch
        if epoch is not None:
            self.lrs = self.lrs_at(epoch)
        elif previous < 0:
            self.lrs = self.get_last_lr()
        else:
            factors = [float(f(int(self.last_epoch))) for f in self.lr_lambdas]
            self.lrs = [lr * factor for lr, factor in zip(self.get_last_lr(), factors)]
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr

    def _set_after_load(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr


# The modes of CyclicLR: a function of the cycle or of the epoch scales the height.
_SCALE_MODES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class CyclicLR(Scheduler):
    """The rate goes from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and back in ``step_size_down`` (None: as
    many), again and again (Smith 2017).

    ``mode`` scales the height of cycle c: "triangular" by 1, "triangular2" by 1/2^(c - 1), "exp_range" by
    gamma^epoch; ``scale_fn`` scales it by a function of the cycle or, with ``scale_mode="iterations"``, of the epoch.
    With ``cycle_momentum`` the momentum, or beta1, goes from ``max_momentum`` to ``base_momentum`` meanwhile.
    """

    _unsaved = ("optimizer", "_custom")
    absolute = True

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None:
            require_one_of("mode", mode, _SCALE_MODES)
        require_one_of("scale_mode", scale_mode, ("cycle", "iterations"))
        starts = per_group("base_lr", base_lr, optimizer)
        self.max_lrs: list[float] = per_group("max_lr", max_lr, optimizer)
        up, down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        require(up > 0 and down >= 0, "step_size_up is above 0, step_size_down at least 0")
        self.total_size: float = up + down
        self.step_ratio: float = up / self.total_size
        self.mode: str = mode
        self.gamma: float = gamma
        self._custom: Callable[[float], float] | None = scale_fn
        self.scale_mode: str = scale_mode if scale_fn is not None else _SCALE_MODES[mode]
        self.cycle_momentum: bool = cycle_momentum
        if cycle_momentum:
            known = optimizer.defaults.keys() & {"momentum", "betas"}
            require(bool(known), f"{type(optimizer).__name__} has no momentum; write cycle_momentum=False")
            self.use_beta1: bool = "betas" in known
            self.base_momentums: list[float] = per_group("base_momentum", base_momentum, optimizer)
            self.max_momentums: list[float] = per_group("max_momentum", max_momentum, optimizer)
            for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums):
                group.update({"max_momentum": high, "base_momentum": low})
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, starts):
                group["lr"] = lr
        super().__init__(optimizer, last_epoch)
        self.base_lrs = starts
        self.step(self.last_epoch)

    def _height(self, epoch: float) -> float:
        """Returns the part of the way from the base to the maximum."""
        cycle = math.floor(1 + epoch / self.total_size)
        done, peak = 1.0 + epoch / self.total_size - cycle, self.step_ratio
        part = done / peak if done <= peak else (done - 1) / (peak - 1)
        return part * self.scale_fn(cycle if self.scale_mode == "cycle" else epoch)

    def scale_fn(self, x: float) -> float:
        """Returns the factor of the height in a cycle, counted from 1, or in an epoch."""
        if self._custom is not None:
            return self._custom(x)
        return 1.0 if self.mode == "triangular" else 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the schedule under PyTorch's names. Of ``scale_fn``, an object's attributes are a part
        of it, and a function is not.
        """
        own = None if self._custom is None or inspect.isroutine(self._custom) else dict(vars(self._custom))
        return {**super().state_dict(), "_scale_fn_custom": own}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state, also one of PyTorch's; raises ValueError for one of another kind of schedule."""
        if self._custom is not None and (own := state_dict.get("_scale_fn_custom")) is not None:
            vars(self._custom).update(own)
        super().load_state_dict(state_dict)

    def _of_before(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        if "step_size_up" not in state_dict:
            return state_dict
        state = {key: value for key, value in state_dict.items() if not key.startswith("step_size")}
        up, total = state_dict["step_size_up"], state_dict["step_size_up"] + state_dict["step_size_down"]
        if state["cycle_momentum"]:
            state["use_beta1"] = "betas" in self.optimizer.defaults
        else:
            del state["base_momentums"], state["max_momentums"]
        return {**state, "total_size": total, "step_ratio": up / total}

    def lrs_at(self, epoch: float) -> list[float]:
        height = self._height(epoch)
        return [base + (peak - base) * height for base, peak in zip(self.base_lrs, self.max_lrs)]

    def step(self, epoch: float | None = None) -> None:
        super().step(epoch)
        if not self.cycle_momentum:
            return
        height = self._height(self.last_epoch)
        for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
            _set_momentum(group, high - (high - low) * height)


class SWALR(Scheduler):
    """The rate goes from its current value to ``swa_lr`` in ``anneal_epochs`` steps, along a cosine wave or a line
    ("linear"), and stays there.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        require_one_of("anneal_strategy", anneal_strategy, ("cos", "linear"))
        require(anneal_epochs >= 0, f"expected anneal_epochs of at least 0, got {anneal_epochs}")
        self._anneal_strategy: str = anneal_strategy
        self.anneal_epochs: int = anneal_epochs
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", swa_lr, optimizer)):
            group["swa_lr"] = lr
        super().__init__(optimizer, last_epoch)

    def _done(self, epoch: float) -> float:
        done = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def lrs_at(self, epoch: float) -> list[float]:
        done = self._done(epoch if self.anneal_epochs else 1)
        ends = [group["swa_lr"] for group in self.optimizer.param_groups]
        return [end * done + base * (1 - done) for base, end in zip(self.base_lrs, ends)]

    def step(self, epoch: float | None = None) -> None:
        if epoch is not None:
            super().step(epoch)
            return
        # From the current rate, which another schedule may have set, along the rest of the way.
        previous = self.last_epoch
        self.last_epoch = previous + 1
        at = (self.last_epoch, previous) if self.anneal_epochs else (max(1, self.last_epoch), max(1, previous + 1) - 1)
        done, before = (self._done(max(0, epoch)) for epoch in at)
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            group["lr"] = end * done + start * (1 - done)

    def _of_before(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        if "swa_lrs" not in state_dict:
            return state_dict
        state = {key: value for key, value in state_dict.items() if key not in ("swa_lrs", "anneal_strategy")}
        for group, lr in zip(self.optimizer.param_groups, state_dict["swa_lrs"]):
            group["swa_lr"] = lr
        return {**state, "_anneal_strategy": state_dict["anneal_strategy"]}


class ChainedScheduler:
    """Several schedules of one optimizer. All take each step: their factors multiply."""

    def __init__(self, schedulers: Sequence[Scheduler], optimizer: Optimizer | None = None) -> None:
        require(len(schedulers) > 0, "ChainedScheduler takes at least one schedule")
        for scheduler in schedulers:
            if not isinstance(scheduler, Scheduler):
                raise TypeError(f"ChainedScheduler: expected schedules, got {type(scheduler).__name__}")
            known = "metric" not in inspect.signature(scheduler.step).parameters
            require(known, f"ChainedScheduler cannot give {type(scheduler).__name__} its metric; step it separately")
        self.schedulers: list[Scheduler] = list(schedulers)
        self.optimizer: Optimizer = self.schedulers[0].optimizer if optimizer is None else optimizer
        require(all(s.optimizer is self.optimizer for s in self.schedulers), "all schedules belong to one optimizer")

    def step(self) -> None:
        """Advances every schedule, in their order."""
        for scheduler in self.schedulers:
            scheduler.step()

    def get_last_lr(self) -> list[float]:
        """Returns the current learning rates of the groups."""
        return self.schedulers[-1].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of the schedules and the current rates."""
        return {"schedulers": [s.state_dict() for s in self.schedulers], "lrs": self.get_last_lr()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores the states of the schedules and the rates."""
        states = _saved(state_dict, "schedulers")
        require(len(states) == len(self.schedulers), f"{len(states)} states for {len(self.schedulers)} schedules")
        for scheduler, state in zip(self.schedulers, states):
            scheduler.load_state_dict(state)
        for group, lr in zip(self.optimizer.param_groups, state_dict.get("lrs", state_dict.get("_last_lr", ()))):
            group["lr"] = lr


def _saved(state_dict: Mapping[str, Any], name: str) -> Any:
    """Returns a value of a state; its name in PyTorch is private."""
    return state_dict[name] if name in state_dict else state_dict[f"_{name}"]


LRScheduler = Scheduler


def per_group(name: str, value: float | Sequence[float], optimizer: Optimizer) -> list[float]:
    """Returns a number for each group, from one number or one for each."""
    count = len(optimizer.param_groups)
    values = [float(number) for number in value] if isinstance(value, (list, tuple)) else [float(value)] * count  # type: ignore[arg-type]
    require(len(values) == count, f"{len(values)} values of {name} for {count} groups")
    return values


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raises ValueError for a value that is not one of the known ones."""
    require(value in known, f"{name}: expected {' or '.join(map(repr, known))}, got {value!r}")


def cosine(high: float, low: float, done: float) -> float:
    """Returns half a cosine wave from ``high`` at done = 0 to ``low`` at done = 1."""
    return low + (high - low) * (1 + math.cos(math.pi * done)) / 2


_KINDS = (Scheduler, ChainedScheduler)
__all__ = [
    name for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, _KINDS) and name[0] != "_"
]


from_here(globals())
