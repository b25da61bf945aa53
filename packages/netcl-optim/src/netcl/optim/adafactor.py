"""Adafactor: second moments of matrices are factored into row and column statistics to save memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import Any

from netcl.core.expr import Expr, Scalar, apply, reduce
from netcl.optim.fused import CountingRule, Rule, Values
from netcl.optim.optimizer import require
from netcl.optim.options import OfRule, with_options

_EPS = {"float32": 2.0**-23, "float64": sys.float_info.epsilon}


def _mean(x: Expr, axes: Sequence[int]) -> Expr:
    """Returns the mean over axes of the parameter; they are kept with length one."""
    if not axes:
        return x
    return reduce("sum", x, tuple(axes)) / Scalar(f"size:{','.join(map(str, axes))}", x.dtype)


@dataclass(frozen=True)
class AdafactorRule(CountingRule):
    """With s = t^beta2_decay, r = r + s (mean of g^2 along rows - r), c likewise along columns, V = r c / mean(r):

    u = g / sqrt(max(V, eps1^2)), p = p - max(eps2, rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d).

    Parameters with fewer than two axes store V unfactored.
    """

    rank: int = 0
    eps1_given: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("row_var", "col_var") if self.rank > 1 else ("variance",)

    def for_rank(self, rank: int) -> Rule:
        return replace(self, rank=rank)

    def state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        if name == "row_var":
            return (*shape[:-1], 1)
        return (*shape[:-2], 1, shape[-1]) if name == "col_var" else shape

    def advance(self, running: Values, numbers: Values) -> Values:
        step = running["step"] + 1.0
        return {
            "step": step,
            "share": apply("exp", numbers["beta2_decay"] * apply("log", step)),
            "rate": apply("minimum", numbers["lr"], apply("rsqrt", step)),
        }

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        share, square, whole = numbers["share"], g * g, tuple(range(self.rank))
        eps1: Any = numbers["eps1"] if self.eps1_given else _EPS[p.dtype]
        new: dict[str, Expr] = {}
        if self.rank > 1:
            for name, axis in (("row_var", self.rank - 1), ("col_var", self.rank - 2)):
                new[name] = states[name] + share * (_mean(square, (axis,)) - states[name])
            scale = apply("maximum", _mean(new["row_var"], (self.rank - 2,)), eps1)
            variance = new["row_var"] * new["col_var"] / scale
        else:
            variance = new["variance"] = states["variance"] + share * (square - states["variance"])
        u = apply("rsqrt", apply("maximum", variance, eps1 * eps1)) * g
        size = apply("maximum", numbers["eps2"], apply("sqrt", _mean(p * p, whole)))
        clip = apply("maximum", 1.0, apply("sqrt", _mean(u * u, whole)) / numbers["d"])
        kept = p - numbers["lr"] * numbers["weight_decay"] * p
        return kept - size * numbers["rate"] / clip * u, new


@with_options
class Adafactor(OfRule, reads=("lr", "beta2_decay", "d", "weight_decay")):
    """Adaptive learning rates with little memory (Shazeer and Stern 2018), as torch.optim.Adafactor.

    ``eps``: lower bounds of the second moment (None: the machine epsilon) and of the parameter scale; ``d``: clipping
    threshold of the update's root mean square.
    """

    lr: float = 1e-2
    beta2_decay: InitVar[float] = -0.8
    eps: InitVar[Sequence[float | None]] = (None, 1e-3)
    d: InitVar[float] = 1.0
    weight_decay: InitVar[float] = 0.0
    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        eps1, eps2 = group["eps"]
        require(eps1 is None or eps1 >= 0, f"expected eps[0] of at least 0 or None, got {eps1}")
        require(eps2 >= 0, f"expected eps[1] of at least 0, got {eps2}")
        require(group["beta2_decay"] <= 0, f"expected beta2_decay of at most 0, got {group['beta2_decay']}")
        require(group["d"] >= 1, f"expected d of at least 1, got {group['d']}")

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return AdafactorRule(group["maximize"], eps1_given=group["eps"][0] is not None)

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        eps1, eps2 = group["eps"]
        return {**super().numbers(group), "eps1": float(eps1 or 0.0), "eps2": float(eps2)}
