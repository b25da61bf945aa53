"""Elementwise losses, each one expression; ``reduction`` selects the mean, the sum or the single values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl.autograd.losses.reduction import averaged, reduced, whole, zero_at_least
from netcl.core import Tensor
from netcl.core.dispatch import Domain, Space
from netcl.core.expr import Const, Expr, apply, size_of
from netcl.ops.table import composite, expression

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


def _domain(reference: Any, low: float = -2.0, high: float = 2.0, t_low: float = -2.0, t_high: float = 2.0) -> Domain:
    def cases(rng: np.random.Generator) -> Cases:
        for reduction in ("mean", "sum", "none"):
            yield (rng.uniform(low, high, (3, 5)), rng.uniform(t_low, t_high, (3, 5))), {"reduction": reduction}
        yield (rng.uniform(low, high, (4, 3)), rng.uniform(t_low, t_high, (4, 1))), {}
        yield (rng.uniform(low, high, ()), rng.uniform(t_low, t_high, ())), {}

    def of(x: Any, target: Any, reduction: str = "mean", **attributes: Any) -> Any:
        return averaged(reference(x, target, **attributes), reduction)

    return Domain(cases=cases, reference=of)


# -- regression ------------------------------------------------------------------------------------------------------


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t: (x - t) ** 2))
def mse_loss(x: Expr, target: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """(x - target)^2."""
    return reduced((x - target) * (x - target), reduction, space.axes(None))


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t: np.abs(x - t)))
def l1_loss(x: Expr, target: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """|x - target|."""
    return reduced(apply("abs", x - target), reduction, space.axes(None))


def _huber(x: Any, t: Any, delta: float = 1.0) -> Any:
    d = np.abs(x - t)
    return np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


@expression(amp="float32", shapes=whole, domain=_domain(_huber))
def huber_loss(x: Expr, target: Expr, reduction: str = "mean", delta: float = 1.0, *, space: Space) -> Expr:
    """d^2 / 2 for d = |x - target| up to delta, then delta (d - delta / 2) (Huber 1964)."""
    d = apply("abs", x - target)
    return reduced(apply("where", d < delta, d * d * 0.5, delta * (d - delta * 0.5)), reduction, space.axes(None))


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t, beta=1.0: _huber(x, t, beta) / beta))
def smooth_l1_loss(x: Expr, target: Expr, reduction: str = "mean", beta: float = 1.0, *, space: Space) -> Expr:
    """d^2 / (2 beta) for d = |x - target| below beta, then d - beta / 2; beta 0 is ``l1_loss``."""
    d = apply("abs", x - target)
    divisor = apply("where", beta > 0.0, beta, 1.0)
    return reduced(apply("where", d < beta, d * d * 0.5 / divisor, d - beta * 0.5), reduction, space.axes(None))


# -- two classes and distributions -----------------------------------------------------------------------------------


def _log(p: Expr) -> Expr:
    """log(p), -100 at 0 as in PyTorch."""
    inside = p > 0
    return apply("where", inside, apply("log", apply("where", inside, p, 1.0)), -100.0)


def _bce(p: Any, t: Any) -> Any:
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


@expression(amp="float32", shapes=whole, domain=_domain(_bce, 0.1, 0.9, 0.0, 1.0))
def cross_entropy_of_two(
    x: Expr, target: Expr, weight: Expr | None = None, reduction: str = "mean", code: int = 0, *, space: Space
) -> Expr:
    """``binary_cross_entropy``; values outside [0, 1], and NaN, set the device's error flag."""
    if code:
        x, target = (
            apply("require", (value >= 0.0) & (value <= 1.0), value, Const(code, "int32")) for value in (x, target)
        )
    value = -(target * _log(x) + (1.0 - target) * _log(1.0 - x))
    return reduced(value if weight is None else value * weight, reduction, space.axes(None))


@composite(amp="float32", domain=_domain(_bce, 0.1, 0.9, 0.0, 1.0))
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) of probabilities x, times ``weight``; logarithms are clamped at -100.

    x or a target outside [0, 1], or NaN, raises ValueError when the loss is read.
    """
    code = x.engine.flag_code(
        "binary_cross_entropy: x and target are in [0, 1]; binary_cross_entropy_with_logits takes logits", ValueError
    )
    return cross_entropy_of_two(x, target, weight, reduction=reduction, code=code)  # type: ignore[no-any-return]


def _bce_logits(x: Any, t: Any) -> Any:
    return np.logaddexp(0, x) - x * t


@expression(amp="float32", shapes=whole, domain=_domain(_bce_logits, t_low=0.0, t_high=1.0))
def binary_cross_entropy_with_logits(
    x: Expr,
    target: Expr,
    weight: Expr | None = None,
    pos_weight: Expr | None = None,
    reduction: str = "mean",
    *,
    space: Space,
) -> Expr:
    """``binary_cross_entropy`` of sigmoid(x), without overflow; ``pos_weight`` multiplies the term of target 1."""
    value = _with_logits(x, target, pos_weight)
    return reduced(value if weight is None else value * weight, reduction, space.axes(None))


def _with_logits(x: Expr, target: Expr, pos_weight: Expr | None = None) -> Expr:
    soft = apply("log1p", apply("exp", -apply("abs", x)))
    if pos_weight is None:
        return apply("maximum", x, 0.0) - x * target + soft
    share = (pos_weight - 1.0) * target + 1.0
    return (1.0 - target) * x + share * (soft + apply("maximum", -x, 0.0))


def _focal(x: Any, t: Any, alpha: float = 0.25, gamma: float = 2.0) -> Any:
    p = 1 / (1 + np.exp(-x))
    return (alpha * t + (1 - alpha) * (1 - t)) * (1 - p * t - (1 - p) * (1 - t)) ** gamma * _bce_logits(x, t)


@expression(amp="float32", shapes=whole, domain=_domain(_focal, t_low=0.0, t_high=1.0))
def focal_loss(
    x: Expr, target: Expr, reduction: str = "mean", alpha: float = 0.25, gamma: float = 2.0, *, space: Space
) -> Expr:
    """alpha_t (1 - p_t)^gamma times the binary cross entropy of logits x and targets 0 or 1 (Lin et al. 2017)."""
    p = apply("sigmoid", x)
    wrong = p * (1.0 - target) + (1.0 - p) * target
    share = target * alpha + (1.0 - target) * (1.0 - alpha)
    return reduced(share * apply("pow", wrong, gamma) * _with_logits(x, target), reduction, space.axes(None))


def _kl(x: Any, t: Any, log_target: bool = False) -> Any:
    return np.exp(t) * (t - x) if log_target else t * (np.log(t) - x)


def _kl_reference(x: Any, t: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    values = _kl(x, t, log_target)
    return values.sum() / x.shape[0] if reduction == "batchmean" else averaged(values, reduction)


def _kl_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"reduction": "batchmean"}, {"reduction": "none"}, {"log_target": True}):
        yield (rng.uniform(-3, -0.1, (3, 5)), rng.uniform(0.1, 0.9, (3, 5))), attributes


@expression(amp="float32", shapes=whole, domain=Domain(cases=_kl_cases, reference=_kl_reference))
def kl_div(x: Expr, target: Expr, reduction: str = "mean", log_target: bool = False, *, space: Space) -> Expr:
    """target (log target - x) for log-probabilities x; ``reduction="batchmean"`` divides the sum by the length of
    axis 0.
    """
    if log_target:
        value = apply("exp", target) * (target - x)
    else:
        inside = target > 0
        logarithm = apply("log", apply("where", inside, target, 1.0))
        value = apply("where", inside, target * (logarithm - x), 0.0)
    axes = space.axes(None)
    if reduction == "batchmean":
        return reduced(value, "sum", axes) / size_of(axes[:1], value.dtype)
    return reduced(value, reduction, axes)


def _hinge_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (
            (rng.permutation(np.linspace(-1.93, 1.9, 15)).reshape(3, 5), rng.choice([-1.0, 1.0], (3, 5))),
            {"reduction": reduction},
        )


@expression(
    amp="float32",
    shapes=whole,
    domain=Domain(
        cases=_hinge_cases,
        reference=lambda x, t, reduction="mean", margin=1.0: averaged(np.maximum(margin - x * t, 0), reduction),
    ),
)
def hinge_loss(x: Expr, target: Expr, reduction: str = "mean", margin: float = 1.0, *, space: Space) -> Expr:
    """max(0, margin - x target) for targets -1 and 1."""
    return reduced(zero_at_least(margin - x * target), reduction, space.axes(None))
