"""Muon: momentum, with its matrix made orthogonal by Newton-Schulz iterations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import lru_cache
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.expr import Expr, Load, apply, cast
from netcl.core.ops_table.dispatch import evaluate
from netcl.optim.fused import CLIP, FOUND, SCALE, Bucket, Rule, Values, update_kernel
from netcl.optim.optimizer import require
from netcl.optim.options import OfRule, with_options


@dataclass(frozen=True)
class MuonRule(Rule, states=("momentum_buffer",)):
    """Names the state of a parameter; the update has products of matrices, so it is not one expression."""


@dataclass(frozen=True)
class StepRule(Rule):
    """p = (1 - lr weight_decay) p - lr ratio o, with the orthogonal matrix o as the gradient."""

    ratio: float = 1.0

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        return p * (1.0 - numbers["lr"] * numbers["weight_decay"]) - numbers["lr"] * self.ratio * g, {}


@with_options
class Muon(OfRule, reads=("lr", "weight_decay", "momentum")):
    """Momentum made orthogonal (Jordan et al. 2024), for the weight matrices of hidden layers; other parameters take
    another optimizer, such as AdamW.

    ``adjust_lr_fn``: "original" (and None) multiplies the rate by sqrt(max(1, rows / columns)), "match_rms_adamw" by
    0.2 sqrt(max(rows, columns)). The iterations compute in float32 (float64 for float64). Raises ValueError for a
    parameter that is no matrix.
    """

    lr: float = 1e-3
    weight_decay: InitVar[float] = 0.1
    momentum: InitVar[float] = 0.95
    nesterov: InitVar[bool] = True
    ns_coefficients: InitVar[Sequence[float]] = (3.4445, -4.775, 2.0315)
    eps: InitVar[float] = 1e-7
    ns_steps: InitVar[int] = 5
    adjust_lr_fn: InitVar[str | None] = None

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        require(group["momentum"] >= 0, f"expected momentum of at least 0, got {group['momentum']}")
        require(
            len(group["ns_coefficients"]) == 3,
            f"ns_coefficients: expected three numbers, got {group['ns_coefficients']}",
        )
        require(group["ns_steps"] < 100, f"expected ns_steps below 100, got {group['ns_steps']}")
        known = (None, "original", "match_rms_adamw")
        require(group["adjust_lr_fn"] in known, f"adjust_lr_fn: expected one of {known}, got {group['adjust_lr_fn']!r}")
        for p in group["params"]:
            require(
                p.ndim == 2, f"Muon takes matrices, not a parameter of shape {p.shape}; give it to another optimizer"
            )

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return MuonRule()

    def update_bucket(self, bucket: Bucket, group: Mapping[str, Any], step_scalars: Mapping[str, Tensor]) -> None:
        rule = self.rule(group)
        for p in bucket.members:
            assert p.grad is not None
            buffer, *master = self._states_of(p, rule, group)
            kinds = tuple((name, tensor.dtype) for name, tensor in step_scalars.items())
            outputs, names = _momentum(p.grad.dtype, buffer.dtype, bool(group["nesterov"]), kinds)
            direction = Tensor.empty(p.shape, buffer.dtype, queue=p.queue)
            out = [buffer, direction, *([p.grad] if SCALE in step_scalars else [])]
            evaluate(outputs, [p.grad, buffer, *bucket.scalars(names, step_scalars)], out=out)
            with ag.no_grad():
                direction = orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
            flags = {name: tensor for name, tensor in step_scalars.items() if name == FOUND}
            kernel = update_kernel(
                StepRule(ratio=_ratio(group["adjust_lr_fn"], *p.shape)),
                bucket.names,
                p.dtype,
                direction.dtype,
                tuple((name, tensor.dtype) for name, tensor in flags.items()),
            )
            inputs = [p, direction, *master, *bucket.scalars(kernel.scalars, flags)]
            evaluate(kernel.outputs, inputs, out=[p, *master])


@lru_cache(maxsize=64)
def _momentum(
    g_dtype: str, dtype: str, nesterov: bool, step_scalars: tuple[tuple[str, str], ...]
) -> tuple[tuple[Expr, ...], tuple[str, ...]]:
    """Returns the new buffer, the direction and, with SCALE, the gradient divided by it, from the gradient, the buffer
    and the scalars of the returned names.
    """
    names = ("momentum", *(name for name, _ in step_scalars))
    scalars = {name: Load(2 + at, kind) for at, (name, kind) in enumerate((("momentum", dtype), *step_scalars))}
    gradient, old = cast(Load(0, g_dtype), dtype), Load(1, dtype)
    if SCALE in scalars:
        gradient = gradient / cast(scalars[SCALE], dtype)
    g = gradient * cast(scalars[CLIP], dtype) if CLIP in scalars else gradient
    new = old + (1.0 - scalars["momentum"]) * (g - old)
    direction = g + scalars["momentum"] * (new - g) if nesterov else new
    if FOUND in scalars:
        new = apply("where", apply("ne", scalars[FOUND], 0.0), old, new)
    return (new, direction, *((cast(gradient, g_dtype),) if SCALE in scalars else ())), names


def orthogonal(matrix: Tensor, coefficients: Sequence[float], steps: int, eps: float) -> Tensor:
    """Returns the matrix with its singular values near one: ``steps`` times x = a x + (b x x^T + c (x x^T)^2) x."""
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = ag.transpose(matrix, 0, 1) if tall else matrix
    x = ag.div(x, ag.maximum(ag.norm(x), eps))
    for _ in range(steps):
        gram = ag.matmul(x, ag.transpose(x, 0, 1))
        x = ag.add(ag.mul(x, a), ag.matmul(ag.add(ag.mul(gram, b), ag.mul(ag.matmul(gram, gram), c)), x))
    return ag.transpose(x, 0, 1) if tall else x


def _ratio(adjust_lr_fn: str | None, rows: int, columns: int) -> float:
    if adjust_lr_fn == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns)) if columns else 1.0
