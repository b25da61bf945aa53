"""Variants of Adam: Adamax, NAdam and RAdam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from netcl.core.expr import Expr, apply
from netcl.optim.adam import AdaptiveOptimizer, MomentsRule, moment_numbers
from netcl.optim.fused import Rule, Values, one_minus_power
from netcl.optim.optimizer import require
from netcl.optim.options import with_options


@dataclass(frozen=True)
class AdamaxRule(MomentsRule, states=("exp_avg", "exp_inf")):
    """u = max(beta2 u, |g| + eps), p = p - lr / (1 - beta1^t) * m / u."""

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        return {"step": step, "rate": numbers["lr"] / one_minus_power(numbers["log_beta1"], step)}

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        p, g = self.decayed(p, g, numbers)
        m = numbers["beta1"] * states["exp_avg"] + numbers["rest1"] * g
        u = apply("maximum", numbers["beta2"] * states["exp_inf"], apply("abs", g) + numbers["eps"])
        return p - numbers["rate"] * m / u, {"exp_avg": m, "exp_inf": u}


@with_options
class Adamax(AdaptiveOptimizer, by=AdamaxRule):
    """Adam with the infinity norm (Kingma and Ba 2014, section 7)."""

    lr: float = 2e-3


@dataclass(frozen=True)
class NAdamRule(MomentsRule, running={"step": 0.0, "mu_product": 1.0}):
    """With mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2) and P_t = mu_1 ... mu_t:

    p = p - lr (mu_(t+1) m / (1 - P_(t+1)) + (1 - mu_t) g / (1 - P_t)) / (sqrt(v / (1 - beta2^t)) + eps).
    """

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        mu, following = (
            numbers["beta1"] * (1.0 - 0.5 * apply("exp", at * numbers["log_decay"])) for at in (step, step + 1.0)
        )
        product = running["mu_product"] * mu
        return {
            "step": step,
            "mu_product": product,
            "by_g": numbers["lr"] * (1.0 - mu) / (1.0 - product),
            "by_m": numbers["lr"] * following / (1.0 - product * following),
            "root2": apply("sqrt", one_minus_power(numbers["log_beta2"], step)),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        p, g = self.decayed(p, g, numbers)
        m, v = self.moments(g, states, numbers)
        scale = apply("sqrt", v) / numbers["root2"] + numbers["eps"]
        return p - (numbers["by_g"] * g + numbers["by_m"] * m) / scale, {"exp_avg": m, "exp_avg_sq": v}


@with_options
class NAdam(AdaptiveOptimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    lr: float = 2e-3
    momentum_decay: InitVar[float] = 4e-3
    decoupled_weight_decay: InitVar[bool] = False

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return NAdamRule(group["maximize"], group["decoupled_weight_decay"])

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return {**moment_numbers(group), "log_decay": group["momentum_decay"] * math.log(0.96)}


@dataclass(frozen=True)
class RAdamRule(MomentsRule):
    """p = p - lr m / (1 - beta1^t), times r_t / (sqrt(v / (1 - beta2^t)) + eps) once rho_t > 5 (Liu et al. 2019)."""

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        y = -(step * numbers["log_beta2"])
        # rho_t = rho_inf - 2 t beta2^t / (1 - beta2^t) is a small difference of large numbers; this form has no
        # cancellation:
        # with x = -log(beta2), y = t x: rho_t = (rho_inf - 2 / x) + 2 / x * (1 - y / (e^y - 1)).
        series = y * (0.5 - y * (1.0 / 12.0 - y * y * (1.0 / 720.0 - y * y / 30240.0)))
        bend = apply("where", apply("lt", y, 0.5), series, 1.0 - y / apply("expm1", apply("maximum", y, 0.25)))
        rho, limit = numbers["rho_offset"] + numbers["rho_slope"] * bend, numbers["rho_inf"]
        square = (rho - 4.0) * (rho - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * rho)
        root2 = apply("sqrt", one_minus_power(numbers["log_beta2"], step))
        return {
            "step": step,
            "rate": numbers["lr"] / one_minus_power(numbers["log_beta1"], step),
            "rectified": apply(
                "where", apply("gt", rho, 5.0), apply("sqrt", apply("maximum", square, 0.0)) * root2, 0.0
            ),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        p, g = self.decayed(p, g, numbers)
        m, v = self.moments(g, states, numbers)
        scale = numbers["rectified"] / (apply("sqrt", v) + numbers["eps"])
        scale = apply("where", apply("gt", numbers["rectified"], 0.0), scale, 1.0)
        return p - numbers["rate"] * m * scale, {"exp_avg": m, "exp_avg_sq": v}


@with_options
class RAdam(AdaptiveOptimizer):
    """Adam with the variance of the adaptive learning rate rectified in the first steps (Liu et al. 2019)."""

    decoupled_weight_decay: InitVar[bool] = False

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        require(
            group["betas"][1] > 0.6,
            f"RAdam: expected betas[1] above 0.6, where its limit passes 4, got {group['betas'][1]}",
        )

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return RAdamRule(group["maximize"], group["decoupled_weight_decay"])

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        values = moment_numbers(group)
        limit, slope = 2.0 / values["rest2"] - 1.0, -2.0 / values["log_beta2"]
        return {**values, "rho_inf": limit, "rho_slope": slope, "rho_offset": limit - slope}
