"""ASGD: stochastic gradient descent that averages its parameters."""

from __future__ import annotations

from dataclasses import InitVar, dataclass

from netcl.core.expr import Expr, apply
from netcl.optim.fused import Rule, Values
from netcl.optim.options import WithForms, with_options


@dataclass(frozen=True)
class ASGDRule(Rule, states=("ax",), running={"step": 0.0, "eta": 0.0, "mu": 1.0}):
    """p = (1 - lambd eta) p - eta g with eta = lr / (1 + lambd lr t)^alpha of the step before; ax = ax + mu (p - ax)
    with mu = 1 / max(1, t - t0) of the step before.
    """

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        decay = apply("pow", 1.0 + numbers["lambd"] * numbers["lr"] * step, numbers["alpha"])
        return {
            "step": step,
            "eta": numbers["lr"] / decay,
            "mu": 1.0 / apply("maximum", step - numbers["t0"], 1.0),
            "rate": apply("where", apply("eq", step, 1.0), numbers["lr"], running["eta"]),
            "share": running["mu"] + 0.0,
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        rate = numbers["rate"]
        new = p * (1.0 - numbers["lambd"] * rate) - rate * (g + numbers["weight_decay"] * p)
        average = states["ax"] + numbers["share"] * (new - states["ax"])
        # The first share is one: the average is then the parameter itself, also if the old average is not finite.
        return new, {"ax": apply("where", apply("eq", numbers["share"], 1.0), new, average)}


@with_options
class ASGD(WithForms, by=ASGDRule, reads=("lr", "lambd", "alpha", "t0", "weight_decay")):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992); ``state[p]["ax"]`` is the average of ``p``."""

    lr: float = 1e-2
    lambd: InitVar[float] = 1e-4
    alpha: InitVar[float] = 0.75
    t0: InitVar[float] = 1e6
    weight_decay: InitVar[float] = 0.0
