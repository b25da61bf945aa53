"""Adam and AdamW, and the base classes of optimizers with two moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.fused import CountingRule, Rule, Values, one_minus_power
from netcl.optim.optimizer import check_betas, require
from netcl.optim.options import OfRule, with_options


def log_of(beta: float) -> float:
    """Returns log(beta); for beta = 0 a number with the exponential zero."""
    return math.log(beta) if beta > 0 else -1e4


def moment_numbers(group: Mapping[str, Any]) -> dict[str, float]:
    """Returns the scalars of a rule with two moments. 1 - beta is computed in double precision: in float32 it would
    lose five digits.
    """
    beta1, beta2 = group["betas"]
    return {
        "lr": float(group["lr"]),
        "beta1": beta1,
        "beta2": beta2,
        "rest1": 1.0 - beta1,
        "rest2": 1.0 - beta2,
        "log_beta1": log_of(beta1),
        "log_beta2": log_of(beta2),
        "eps": float(group.get("eps", 0.0)),
        "weight_decay": float(group["weight_decay"]),
    }


@dataclass(frozen=True)
class MomentsRule(CountingRule, states=("exp_avg", "exp_avg_sq")):
    """m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2; weight decay as part of the gradient, or decoupled
    (``decoupled``).
    """

    decoupled: bool = False

    def decayed(self, p: Expr, g: Expr, numbers: Values) -> tuple[Expr, Expr]:
        """Returns p and g after weight decay."""
        if self.decoupled:
            return p - numbers["lr"] * numbers["weight_decay"] * p, g
        return p, g + numbers["weight_decay"] * p

    def moments(self, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Expr]:
        """Returns the new m and v."""
        m = numbers["beta1"] * states["exp_avg"] + numbers["rest1"] * g
        v = numbers["beta2"] * states["exp_avg_sq"] + numbers["rest2"] * (g * g)
        return m, v


@dataclass(frozen=True)
class AdamRule(MomentsRule):
    """p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps); with amsgrad v is its maximum so far."""

    amsgrad: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if self.amsgrad else ("exp_avg", "exp_avg_sq")

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        return {
            "step": step,
            "rate": numbers["lr"] / one_minus_power(numbers["log_beta1"], step),
            "root2": apply("sqrt", one_minus_power(numbers["log_beta2"], step)),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        p, g = self.decayed(p, g, numbers)
        m, v = self.moments(g, states, numbers)
        new = {"exp_avg": m, "exp_avg_sq": v}
        if self.amsgrad:
            v = new["max_exp_avg_sq"] = apply("maximum", states["max_exp_avg_sq"], v)
        return p - numbers["rate"] * m / (apply("sqrt", v) / numbers["root2"] + numbers["eps"]), new


class MomentsOptimizer(OfRule):
    """Base class of the optimizers with two betas."""

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        check_betas(group["betas"])
        require(group.get("eps", 0.0) >= 0, f"expected eps of at least 0, got {group.get('eps')}")

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return moment_numbers(group)


@with_options
class AdaptiveOptimizer(MomentsOptimizer):
    """Base class of Adam and its variants."""

    lr: float = 1e-3
    betas: InitVar[Sequence[float]] = (0.9, 0.999)
    eps: InitVar[float] = 1e-8
    weight_decay: InitVar[float] = 0.0
    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None
    capturable: InitVar[bool] = False
    differentiable: InitVar[bool] = False


@with_options
class Adam(AdaptiveOptimizer):
    """Adaptive moment estimation (Kingma and Ba 2014), amsgrad of Reddi et al. 2018; weight decay as part of the
    gradient, or with ``decoupled_weight_decay`` as AdamW's.
    """

    amsgrad: InitVar[bool] = False
    _: KW_ONLY
    fused: InitVar[bool | None] = None
    decoupled_weight_decay: InitVar[bool] = False

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return AdamRule(group["maximize"], group["decoupled_weight_decay"], group["amsgrad"])


@with_options
class AdamW(Adam):
    """Adam with decoupled weight decay: first p = p - lr weight_decay p (Loshchilov and Hutter 2017)."""

    weight_decay: InitVar[float] = 1e-2
    decoupled_weight_decay: InitVar[bool] = field(default=True, init=False)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        super().add_param_group({"decoupled_weight_decay": True, **group})
