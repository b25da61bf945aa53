"""Lion: updates by the sign of a momentum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from netcl.core.expr import Expr, apply
from netcl.optim.adam import MomentsOptimizer
from netcl.optim.fused import Rule, Values
from netcl.optim.options import with_options


@dataclass(frozen=True)
class LionRule(Rule, states=("exp_avg",)):
    """p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g."""

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        m = states["exp_avg"]
        direction = apply("sign", numbers["beta1"] * m + numbers["rest1"] * g)
        p = p - numbers["lr"] * numbers["weight_decay"] * p - numbers["lr"] * direction
        return p, {"exp_avg": numbers["beta2"] * m + numbers["rest2"] * g}


@with_options
class Lion(MomentsOptimizer, by=LionRule):
    """Updates of constant magnitude, by the sign of a momentum (Chen et al. 2023)."""

    lr: float = 1e-4
    betas: InitVar[Sequence[float]] = (0.9, 0.99)
    weight_decay: InitVar[float] = 0.0
    _: KW_ONLY
    maximize: InitVar[bool] = False
