"""RMSProp: gradients scaled by a running root mean square."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.fused import CountingRule, Rule, Values
from netcl.optim.optimizer import require
from netcl.optim.options import WithForms, with_options


@dataclass(frozen=True)
class RMSPropRule(CountingRule):
    """v = alpha v + (1 - alpha) g^2; p = p - lr g / (sqrt(v) + eps); centered: v minus the squared running mean
    of g.
    """

    centered: bool = False
    momentum: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        extra = (("momentum_buffer", self.momentum), ("grad_avg", self.centered))
        return ("square_avg", *(name for name, there in extra if there))

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        g = g + numbers["weight_decay"] * p
        square = numbers["alpha"] * states["square_avg"] + numbers["rest"] * (g * g)
        new = {"square_avg": square}
        variance = square
        if self.centered:
            mean = new["grad_avg"] = states["grad_avg"] + numbers["rest"] * (g - states["grad_avg"])
            # Rounding may make the difference negative.
            variance = apply("maximum", square - mean * mean, 0.0)
        step = g / (apply("sqrt", variance) + numbers["eps"])
        if self.momentum:
            step = new["momentum_buffer"] = numbers["momentum"] * states["momentum_buffer"] + step
        return p - numbers["lr"] * step, new


@with_options
class RMSProp(WithForms, reads=("lr", "alpha", "eps", "weight_decay", "momentum")):
    """Gradient descent scaled by the root mean square (Hinton 2012), centered as in Graves 2013, as
    torch.optim.RMSprop.
    """

    lr: float = 1e-2
    alpha: InitVar[float] = 0.99
    eps: InitVar[float] = 1e-8
    weight_decay: InitVar[float] = 0.0
    momentum: InitVar[float] = 0.0
    centered: InitVar[bool] = False

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        require(0 <= group["alpha"] <= 1, f"expected alpha in [0, 1], got {group['alpha']}")
        require(group["eps"] >= 0 and group["momentum"] >= 0, "eps and momentum are at least 0")

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return RMSPropRule(group["maximize"], group["centered"], group["momentum"] != 0)

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return {**super().numbers(group), "rest": 1.0 - group["alpha"]}


RMSprop = RMSProp
