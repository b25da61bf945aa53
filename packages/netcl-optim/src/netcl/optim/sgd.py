"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.fused import Rule, Values
from netcl.optim.optimizer import require
from netcl.optim.options import Declared, with_options


@dataclass(frozen=True)
class SGDRule(Rule):
    """b = momentum b + (1 - dampening) g, at the first step b = g; p = p - lr b, or p - lr (g + momentum b) with
    Nesterov momentum.
    """

    momentum: bool = False
    nesterov: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    @property
    def running(self) -> Mapping[str, float]:
        return {"step": 0.0} if self.momentum else {}

    def advance(self, running: Values, numbers: Values) -> Values:
        if not self.momentum:
            return {}
        step = running["step"] + 1.0
        return {"step": step, "share": apply("where", apply("eq", step, 1.0), 1.0, numbers["undamped"])}

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        g = g + numbers["weight_decay"] * p
        if not self.momentum:
            return p - numbers["lr"] * g, {}
        buffer = numbers["momentum"] * states["momentum_buffer"] + numbers["share"] * g
        direction = g + numbers["momentum"] * buffer if self.nesterov else buffer
        return p - numbers["lr"] * direction, {"momentum_buffer": buffer}


@with_options
class SGD(Declared):
    """Gradient descent, with momentum (Sutskever et al. 2013) as torch.optim.SGD."""

    lr: float = 1e-2
    momentum: InitVar[float] = 0.0
    dampening: InitVar[float] = 0.0
    weight_decay: InitVar[float] = 0.0
    nesterov: InitVar[bool] = False
    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None
    differentiable: InitVar[bool] = False
    fused: InitVar[bool | None] = None

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        require(group["momentum"] >= 0, f"expected momentum of at least 0, got {group['momentum']}")
        plain = group["momentum"] > 0 and group["dampening"] == 0
        require(plain or not group["nesterov"], "nesterov needs a momentum above 0 and no dampening")

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return SGDRule(group["maximize"], group["momentum"] != 0, group["nesterov"])

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return {
            "lr": float(group["lr"]),
            "weight_decay": float(group["weight_decay"]),
            "momentum": float(group["momentum"]),
            "undamped": 1.0 - group["dampening"],
        }


class Momentum(SGD):
    """SGD with momentum 0.9 by default."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, maximize=maximize)
