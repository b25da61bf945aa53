"""LAMB: Adam with a trust ratio per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace

from netcl.core.expr import Expr, apply, reduce
from netcl.optim.adam import MomentsOptimizer, MomentsRule
from netcl.optim.fused import Rule, Values, one_minus_power
from netcl.optim.options import with_options


@dataclass(frozen=True)
class LAMBRule(MomentsRule):
    """r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p; p = p - lr ||p|| / ||r|| r.

    The ratio of the norms (trust ratio) is 1 if one of them is zero.
    """

    rank: int = 0

    def for_rank(self, rank: int) -> Rule:
        return replace(self, rank=rank)

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        return {
            "step": step,
            "share1": 1.0 / one_minus_power(numbers["log_beta1"], step),
            "root2": apply("sqrt", one_minus_power(numbers["log_beta2"], step)),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        m, v = self.moments(g, states, numbers)
        r = numbers["share1"] * m / (apply("sqrt", v) / numbers["root2"] + numbers["eps"])
        r = r + numbers["weight_decay"] * p
        squares = [reduce("sum", x * x, tuple(range(self.rank))) for x in (p, r)]
        some = (squares[0] > 0.0) & (squares[1] > 0.0)
        ratio = apply("where", some, apply("sqrt", squares[0]) / apply("sqrt", squares[1]), 1.0)
        return p - numbers["lr"] * ratio * r, {"exp_avg": m, "exp_avg_sq": v}


@with_options
class LAMB(MomentsOptimizer, by=LAMBRule):
    """Layer-wise adaptive moments for large batches (You et al. 2019)."""

    lr: float = 1e-3
    betas: InitVar[Sequence[float]] = (0.9, 0.999)
    eps: InitVar[float] = 1e-6
    weight_decay: InitVar[float] = 0.0
    _: KW_ONLY
    maximize: InitVar[bool] = False
