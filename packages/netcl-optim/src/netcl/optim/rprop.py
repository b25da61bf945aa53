"""Rprop: steps by the signs of the gradients, each with a size of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.fused import CountingRule, Values
from netcl.optim.optimizer import require
from netcl.optim.options import WithForms, with_options


@dataclass(frozen=True)
class RpropRule(CountingRule, states=("prev", "step_size")):
    """The step size of an element grows by ``up`` if its gradient keeps its sign, shrinks by ``down`` if it changes,
    and stays within its limits; the element moves by that size against its sign, or not at all after a change.
    """

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        product = g * states["prev"]
        turned = product < 0.0
        factor = apply("where", product > 0.0, numbers["up"], apply("where", turned, numbers["down"], 1.0))
        size = apply("maximum", states["step_size"] * factor, numbers["smallest"])
        size = apply("minimum", size, numbers["largest"])
        g = apply("where", turned, 0.0, g)
        return p - apply("sign", g) * size, {"prev": g, "step_size": size}


@with_options
class Rprop(WithForms, by=RpropRule):
    """Resilient backpropagation (Riedmiller and Braun 1993), for gradients of the whole data set."""

    lr: float = 1e-2
    etas: InitVar[Sequence[float]] = (0.5, 1.2)
    step_sizes: InitVar[Sequence[float]] = (1e-6, 50)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        down, up = group["etas"]
        require(0 < down < 1 < up, f"etas: expected positive numbers below and above 1, got {group['etas']}")
        require(
            len(group["step_sizes"]) == 2,
            f"step_sizes: expected the smallest and the largest, got {group['step_sizes']}",
        )

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        (down, up), (smallest, largest) = group["etas"], group["step_sizes"]
        return {"down": float(down), "up": float(up), "smallest": float(smallest), "largest": float(largest)}

    def initial_state(self, name: str, group: Mapping[str, Any]) -> float:
        return float(group["lr"]) if name == "step_size" else 0.0
