"""Adagrad and Adadelta: learning rates from the sum, or the running mean, of squared gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.fused import CountingRule, Values
from netcl.optim.optimizer import require
from netcl.optim.options import OfRule, WithForms, with_options


@dataclass(frozen=True)
class AdagradRule(CountingRule, states=("sum",)):
    """s = s + g^2; p = p - lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)."""

    def advance(self, running: Values, numbers: Values) -> Values:
        return {
            "step": running["step"] + 1.0,
            "rate": numbers["lr"] / (1.0 + running["step"] * numbers["lr_decay"]),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        g = g + numbers["weight_decay"] * p
        total = states["sum"] + g * g
        return p - numbers["rate"] * g / (apply("sqrt", total) + numbers["eps"]), {"sum": total}


@with_options
class Adagrad(OfRule, by=AdagradRule, reads=("lr", "lr_decay", "weight_decay", "eps")):
    """Learning rates by the sum of squared gradients (Duchi et al. 2011).

    As in PyTorch, the states exist from the start (of a group that is added later, from its first step on), and all
    begin with the optimizer's ``initial_accumulator_value``, also if a group has another one.
    """

    lr: float = 1e-2
    lr_decay: InitVar[float] = 0.0
    weight_decay: InitVar[float] = 0.0
    initial_accumulator_value: InitVar[float] = 0.0
    eps: InitVar[float] = 1e-10
    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None
    differentiable: InitVar[bool] = False
    fused: InitVar[bool | None] = None

    def _set_up(self) -> None:
        self._make_states()

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        for name in ("lr_decay", "initial_accumulator_value", "eps"):
            require(group[name] >= 0, f"expected {name} of at least 0, got {group[name]}")

    def initial_state(self, name: str, group: Mapping[str, Any]) -> float:
        return float(self.defaults["initial_accumulator_value"])


@dataclass(frozen=True)
class AdadeltaRule(CountingRule, states=("square_avg", "acc_delta")):
    """v = rho v + (1 - rho) g^2, d = sqrt(u + eps) / sqrt(v + eps) * g, u = rho u + (1 - rho) d^2; p = p - lr d."""

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        g = g + numbers["weight_decay"] * p
        rho, rest, eps = numbers["rho"], numbers["rest"], numbers["eps"]
        square = rho * states["square_avg"] + rest * (g * g)
        delta = apply("sqrt", states["acc_delta"] + eps) / apply("sqrt", square + eps) * g
        accumulated = rho * states["acc_delta"] + rest * (delta * delta)
        return p - numbers["lr"] * delta, {"square_avg": square, "acc_delta": accumulated}


@with_options
class Adadelta(WithForms, by=AdadeltaRule, reads=("lr", "rho", "eps", "weight_decay")):
    """Learning rates by running means of squared gradients and of squared steps (Zeiler 2012)."""

    lr: float = 1.0
    rho: InitVar[float] = 0.9
    eps: InitVar[float] = 1e-6
    weight_decay: InitVar[float] = 0.0

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        require(0 <= group["rho"] <= 1, f"expected rho in [0, 1], got {group['rho']}")
        require(group["eps"] >= 0, f"expected eps of at least 0, got {group['eps']}")

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return {**super().numbers(group), "rest": 1.0 - group["rho"]}
