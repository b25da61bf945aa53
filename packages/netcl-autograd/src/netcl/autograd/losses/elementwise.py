"""Elementwise losses, each one expression; ``reduction`` selects the mean, the sum or the single values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from netcl.autograd.losses.reduction import Cases, averaged, compared, per_row, reduced, whole, zero_at_least
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.expr import Const, Expr, apply, mean
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.dispatch import Domain, Space
from netcl.core.process.user_frame import level_outside
from netcl.ops import reshape
from netcl.ops.table import composite, expression


def _domain(reference: Any, low: float = -2.0, high: float = 2.0, t_low: float = -2.0, t_high: float = 2.0) -> Domain:
    def cases(rng: np.random.Generator) -> Cases:
        for reduction in ("mean", "sum", "none"):
            yield (rng.uniform(low, high, (3, 5)), rng.uniform(t_low, t_high, (3, 5))), {"reduction": reduction}
        yield (rng.uniform(low, high, (4, 3)), rng.uniform(t_low, t_high, (4, 1))), {}
        yield (rng.uniform(low, high, ()), rng.uniform(t_low, t_high, ())), {}

    def of(x: Any, target: Any, reduction: str = "mean", **attributes: Any) -> Any:
        return averaged(reference(x, target, **attributes), reduction)

    return compared(cases, of)


# -- regression ------------------------------------------------------------------------------------------------------


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t: (x - t) ** 2))
def squared_error(x: Expr, target: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns ``mse_loss``, broadcast."""
    return reduced((x - target) * (x - target), reduction, space.axes(None))


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t: np.abs(x - t)))
def absolute_error(x: Expr, target: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns ``l1_loss``, broadcast."""
    return reduced(apply("abs", x - target), reduction, space.axes(None))


def _huber(x: Any, t: Any, delta: float = 1.0) -> Any:
    d = np.abs(x - t)
    return np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


@expression(amp="float32", shapes=whole, domain=_domain(_huber))
def huber_error(x: Expr, target: Expr, reduction: str = "mean", delta: float = 1.0, *, space: Space) -> Expr:
    """Returns ``huber_loss``, broadcast."""
    d = x - target  # a square of |d| has no second derivative at 0
    far = apply("abs", d)
    near = apply("where", far < delta, d, 0.0)  # finite, also in the gradient
    value = apply("where", far < delta, near * near * 0.5, delta * (far - delta * 0.5))
    return reduced(value, reduction, space.axes(None))


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t, beta=1.0: _huber(x, t, beta) / beta))
def smooth_error(x: Expr, target: Expr, reduction: str = "mean", beta: float = 1.0, *, space: Space) -> Expr:
    """Returns ``smooth_l1_loss``, broadcast."""
    d = x - target
    far, divisor = apply("abs", d), apply("where", beta > 0.0, beta, 1.0)
    near = apply("where", far < beta, d, 0.0)
    value = apply("where", far < beta, near * near * 0.5 / divisor, far - beta * 0.5)
    return reduced(value, reduction, space.axes(None))


def _alike(reference: Any) -> Domain:
    def cases(rng: np.random.Generator) -> Cases:
        for reduction in ("mean", "sum", "none"):
            yield (rng.uniform(-2, 2, (3, 5)), rng.uniform(-2, 2, (3, 5))), {"reduction": reduction}

    def of(x: Any, t: Any, reduction: str = "mean", **attributes: Any) -> Any:
        return averaged(reference(x, t, **attributes), reduction)

    return compared(cases, of)


def _compare(op: str, x: Tensor, target: Tensor) -> None:
    """Warns if the shapes differ, as PyTorch does; raises ShapeError if they do not even broadcast."""
    if x.shape != target.shape:
        broadcast_shapes((x.shape, target.shape), op)
        warnings.warn(
            f"{op}: the target's shape {target.shape} differs from the input's {x.shape}, and is broadcast, which is "
            "rarely intended; give both the same shape",
            stacklevel=level_outside(),
        )


def _weighted(op: str, errors: Tensor, weight: Tensor, x: Tensor, reduction: str) -> Tensor:
    """Returns the errors times their weights; a mean is divided by the sum of the weights."""
    if weight.shape != x.shape:
        raise ShapeError(f"{op}: expected a weight of the input's shape {x.shape}, got {weight.shape}")
    weighted = errors * weight
    if reduction == "mean":
        return weighted.sum() / weight.sum()
    return _reduced_tensor(weighted, reduction)


def _reduced_tensor(errors: Tensor, reduction: str) -> Tensor:
    """Returns the errors, their sum or their mean; raises ValueError for another reduction."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction: expected 'none', 'sum' or 'mean', got {reduction!r}")
    return errors if reduction == "none" else errors.sum() if reduction == "sum" else errors.mean()


@composite(amp="float32", domain=_alike(lambda x, t: (x - t) ** 2))
def mse_loss(x: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Returns (x - target)^2. Warns if the shapes differ. ``weight``, of the shape of x, multiplies the errors; their
    mean is divided by the sum of the weights.
    """
    _compare("mse_loss", x, target)
    if weight is not None:
        return _weighted("mse_loss", squared_error(x, target, "none"), weight, x, reduction)
    return squared_error(x, target, reduction)  # type: ignore[no-any-return]


@composite(amp="float32", domain=_alike(lambda x, t: np.abs(x - t)))
def l1_loss(x: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Returns |x - target|. Warns if the shapes differ. ``weight`` is as in ``mse_loss``."""
    _compare("l1_loss", x, target)
    if weight is not None:
        return _weighted("l1_loss", absolute_error(x, target, "none"), weight, x, reduction)
    return absolute_error(x, target, reduction)  # type: ignore[no-any-return]


@composite(amp="float32", domain=_alike(_huber))
def huber_loss(
    x: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Returns d^2 / 2 for d = |x - target| up to delta, then delta (d - delta / 2) (Huber 1964). Warns if the shapes
    differ. ``weight``, of the shape of x, multiplies the errors; their mean is divided by their number, as in PyTorch.
    """
    _compare("huber_loss", x, target)
    if weight is not None:
        weighted = _weighted("huber_loss", huber_error(x, target, "none", delta=delta), weight, x, "none")
        return _reduced_tensor(weighted, reduction)
    return huber_error(x, target, reduction, delta=delta)  # type: ignore[no-any-return]


@composite(amp="float32", domain=_alike(lambda x, t, beta=1.0: _huber(x, t, beta) / beta))
def smooth_l1_loss(x: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Returns d^2 / (2 beta) for d = |x - target| below beta, then d - beta / 2; beta 0 is ``l1_loss``. Warns if the
    shapes differ.
    """
    _compare("smooth_l1_loss", x, target)
    return smooth_error(x, target, reduction, beta=beta)  # type: ignore[no-any-return]


def _counts(x: Any, t: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8) -> Any:
    value = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    if full:
        value = value + np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0)
    return value


def _count_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"full": True}, {"log_input": False}, {"reduction": "none", "eps": 0.1, "log_input": False}):
        yield (rng.uniform(0.2, 2, (3, 5)), rng.uniform(0.3, 4, (3, 5))), attributes


@expression(
    amp="float32",
    shapes=whole,
    domain=compared(_count_cases, lambda x, t, reduction="mean", **kw: averaged(_counts(x, t, **kw), reduction)),
)
def poisson_nll_loss(
    x: Expr,
    target: Expr,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
    *,
    space: Space,
) -> Expr:
    """Returns exp(x) - target x, or without ``log_input`` x - target log(x + eps); ``full`` adds Stirling's
    approximation of log(target!) for targets above 1.
    """
    value = apply("exp", x) - target * x if log_input else x - target * apply("log", x + eps)
    if full:
        more = target > 1.0
        t = apply("where", more, target, 1.0)
        stirling = t * apply("log", t) - t + 0.5 * apply("log", t * (2 * math.pi))
        value = value + apply("where", more, stirling, 0.0)
    return reduced(value, reduction, space.axes(None))


def _gaussian(x: Any, t: Any, var: Any, full: bool = False, eps: float = 1e-6) -> Any:
    var = np.maximum(var, eps)
    return 0.5 * (np.log(var) + (x - t) ** 2 / var) + (0.5 * np.log(2 * np.pi) if full else 0)


def _gaussian_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"full": True}, {"reduction": "sum"}, {"reduction": "none"}):
        yield (rng.uniform(-2, 2, (3, 5)), rng.uniform(-2, 2, (3, 5)), rng.uniform(0.3, 2, (3, 5))), attributes
    yield (rng.uniform(-2, 2, (3, 5)), rng.uniform(-2, 2, (3, 5)), rng.uniform(0.3, 2, (3, 1))), {}


def _gaussian_reference(x: Any, t: Any, var: Any, reduction: str = "mean", **attributes: Any) -> Any:
    return averaged(_gaussian(x, t, var, **attributes), reduction)


@expression(amp="float32", shapes=whole, domain=compared(_gaussian_cases, _gaussian_reference))
def gaussian_errors(
    x: Expr,
    target: Expr,
    var: Expr,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
    code: int = 0,
    *,
    space: Space,
) -> Expr:
    """Returns ``gaussian_nll_loss`` with a broadcast variance; a negative one sets the device's error flag."""
    if code:
        var = apply("require", apply("logical_not", var < 0.0), var, Const(code, "int32"), 0)
    # The limit has no part in the gradient: below it that of the variance is the one at the limit.
    spread = var + apply("stop_gradient", apply("where", var < eps, eps - var, 0.0))
    value = 0.5 * (apply("log", spread) + (x - target) * (x - target) / spread)
    if full:
        value = value + 0.5 * math.log(2 * math.pi)
    return reduced(value, reduction, space.axes(None))


@composite(amp="float32", domain=compared(_gaussian_cases, _gaussian_reference))
def gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Returns (log(var) + (x - target)^2 / var) / 2 with var at least ``eps``; ``full`` adds log(2 pi) / 2.

    ``var``: a number, x's shape, that shape with 1 for the last length, or without the last axis. A negative variance
    raises ValueError when the loss is read. Raises ShapeError for another shape.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var {var} is negative")
        filled = x.engine.empty((1,) * x.ndim, x.dtype)
        x.engine.fill(filled, var)
        var = filled
    elif var.shape != x.shape:
        if var.shape == x.shape[:-1]:
            var = reshape(var, (*var.shape, 1))
        elif var.shape[:-1] != x.shape[:-1] or var.shape[-1:] != (1,):
            raise ShapeError(f"gaussian_nll_loss: var {var.shape} for x {x.shape}")
    code = x.engine.flag_code(
        "gaussian_nll_loss: var has a negative element, {value} at position {position}", ValueError
    )
    return gaussian_errors(x, target, var, full=full, eps=eps, reduction=reduction, code=code)  # type: ignore[no-any-return]


# -- two classes and distributions -----------------------------------------------------------------------------------


def _log(p: Expr) -> Expr:
    """Returns log(p), at 0 as in PyTorch -100 with the derivative 1e12."""
    inside = p > 0
    return apply("where", inside, apply("log", apply("where", inside, p, 1.0)), p * 1e12 - 100.0)


def _bce(p: Any, t: Any) -> Any:
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


@expression(amp="float32", shapes=whole, domain=_domain(_bce, 0.1, 0.9, 0.0, 1.0))
def cross_entropy_of_two(
    x: Expr, target: Expr, weight: Expr | None = None, reduction: str = "mean", code: int = 0, *, space: Space
) -> Expr:
    """Returns ``binary_cross_entropy``; values outside [0, 1], and NaN, set the device's error flag."""
    if code:
        x, target = (
            apply("require", (value >= 0.0) & (value <= 1.0), value, Const(code, "int32"), 0) for value in (x, target)
        )
    value = -(target * _log(x) + (1.0 - target) * _log(1.0 - x))
    return reduced(value if weight is None else value * weight, reduction, space.axes(None))


@composite(amp="float32", domain=_domain(_bce, 0.1, 0.9, 0.0, 1.0))
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Returns -(t log x + (1 - t) log(1 - x)) of probabilities x, times ``weight``; logarithms are clamped at -100.

    x or a target outside [0, 1], or NaN, raises ValueError when the loss is read.
    """
    code = x.engine.flag_code(
        "binary_cross_entropy: {value} at position {position} of x or target is not in [0, 1]; "
        "binary_cross_entropy_with_logits takes logits",
        ValueError,
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
    """Returns ``binary_cross_entropy`` of sigmoid(x), without overflow; ``pos_weight`` weighs the term of target 1."""
    value = _with_logits(x, target, pos_weight)
    return reduced(value if weight is None else value * weight, reduction, space.axes(None))


def _with_logits(x: Expr, target: Expr, pos_weight: Expr | None = None) -> Expr:
    if pos_weight is None:
        return apply("logaddexp", x, 0.0) - x * target
    share = (pos_weight - 1.0) * target + 1.0
    return (1.0 - target) * x + share * apply("logaddexp", -x, 0.0)


def _focal(x: Any, t: Any, alpha: float = 0.25, gamma: float = 2.0) -> Any:
    p = 1 / (1 + np.exp(-x))
    return (alpha * t + (1 - alpha) * (1 - t)) * (1 - p * t - (1 - p) * (1 - t)) ** gamma * _bce_logits(x, t)


@expression(amp="float32", shapes=whole, domain=_domain(_focal, t_low=0.0, t_high=1.0))
def focal_loss(
    x: Expr, target: Expr, reduction: str = "mean", alpha: float = 0.25, gamma: float = 2.0, *, space: Space
) -> Expr:
    """Returns alpha_t (1 - p_t)^gamma times the binary cross entropy of logits x, targets 0 or 1 (Lin et al. 2017)."""
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
    yield (rng.uniform(-3, -0.1, (1, 5)), rng.uniform(0.1, 0.9, (2, 3, 5))), {"reduction": "batchmean"}


def _terms_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"reduction": "sum", "divisor": 3.0}, {"reduction": "none"}, {"log_target": True}):
        yield (rng.uniform(-3, -0.1, (3, 5)), rng.uniform(0.1, 0.9, (3, 5))), attributes


def _terms_reference(x: Any, t: Any, reduction: str = "mean", log_target: bool = False, divisor: float = 1.0) -> Any:
    return averaged(_kl(x, t, log_target), reduction) / divisor


@expression(amp="float32", shapes=whole, domain=compared(_terms_cases, _terms_reference))
def kl_terms(
    x: Expr,
    target: Expr,
    reduction: str = "mean",
    log_target: bool = False,
    divisor: float = 1.0,
    *,
    space: Space,
) -> Expr:
    """Returns ``kl_div``, its mean or sum divided by ``divisor``."""
    if log_target:
        value = apply("exp", target) * (target - x)
    else:
        logarithm = apply("log", apply("where", apply("eq", target, 0.0), 1.0, target))
        value = target * logarithm - target * x
    return reduced(value, reduction, space.axes(None)) / divisor


@composite(amp="float32", domain=compared(_kl_cases, _kl_reference))
def kl_div(x: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Returns target (log target - x) for log-probabilities x; ``reduction="batchmean"`` divides the sum by the length
    of axis 0 of x, as PyTorch does also if the target is larger.
    """
    if reduction != "batchmean":
        return kl_terms(x, target, reduction, log_target)  # type: ignore[no-any-return]
    return kl_terms(x, target, "sum", log_target, float(x.shape[0]) if x.shape else 1.0)  # type: ignore[no-any-return]


def _hinge_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (
            (rng.permutation(np.linspace(-1.93, 1.9, 15)).reshape(3, 5), rng.choice([-1.0, 1.0], (3, 5))),
            {"reduction": reduction},
        )


@expression(
    amp="float32",
    shapes=whole,
    domain=compared(
        _hinge_cases, lambda x, t, reduction="mean", margin=1.0: averaged(np.maximum(margin - x * t, 0), reduction)
    ),
)
def hinge_loss(x: Expr, target: Expr, reduction: str = "mean", margin: float = 1.0, *, space: Space) -> Expr:
    """Returns max(0, margin - x target) for targets -1 and 1."""
    return reduced(zero_at_least(margin - x * target), reduction, space.axes(None))


def _not_negative(value: Expr) -> Expr:
    """Returns max(value, 0), with gradient 1 at 0, as PyTorch's clamp."""
    return apply("where", value < 0.0, 0.0, value)


@expression(amp="float32", shapes=whole, domain=_domain(lambda x, t: np.log1p(np.exp(-t * x))))
def soft_margin_loss(x: Expr, target: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns log(1 + exp(-target x)) for targets -1 and 1, without overflow."""
    return reduced(apply("logaddexp", -(target * x), 0.0), reduction, space.axes(None))


def _embedding_reference(x: Any, t: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    return averaged(np.where(t == 1, x, np.maximum(margin - x, 0)), reduction)


@expression(amp="float32", shapes=whole, domain=compared(_hinge_cases, _embedding_reference))
def hinge_embedding_loss(x: Expr, target: Expr, margin: float = 1.0, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns x if target is 1, max(0, margin - x) if it is -1."""
    far = apply("where", apply("ne", target, 1.0), _not_negative(margin - x), 0.0)
    near = apply("where", apply("ne", target, -1.0), x, 0.0)
    return reduced(far + near, reduction, space.axes(None))


def _ranking_cases(rng: np.random.Generator) -> Cases:
    for (x, target), attributes in _hinge_cases(rng):
        yield (x, rng.permutation(x.reshape(-1)).reshape(x.shape) + 0.03, target), {"margin": 0.5, **attributes}


@expression(
    amp="float32",
    shapes=whole,
    domain=compared(
        _ranking_cases,
        lambda a, b, t, margin=0.0, reduction="mean": averaged(np.maximum(-t * (a - b) + margin, 0), reduction),
    ),
)
def margin_ranking_loss(
    x1: Expr, x2: Expr, target: Expr, margin: float = 0.0, reduction: str = "mean", *, space: Space
) -> Expr:
    """Returns max(0, -target (x1 - x2) + margin): target 1 if x1 is to be the larger, -1 if x2."""
    return reduced(_not_negative(-(target * (x1 - x2)) + margin), reduction, space.axes(None))


def _labels_reference(x: Any, t: Any, weight: Any = 1.0, reduction: str = "mean") -> Any:
    return averaged((_bce_logits(x, t) * weight).mean(-1), reduction)


def _labels_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        x, t = rng.uniform(-2, 2, (3, 5)), rng.integers(0, 2, (3, 5)) * 1.0
        yield (x, t, rng.uniform(0.5, 2, 5))[: 2 + (reduction == "sum")], {"reduction": reduction}


@expression(amp="float32", shapes=per_row, domain=compared(_labels_cases, _labels_reference))
def multilabel_soft_margin_loss(
    x: Expr, target: Expr, weight: Expr | None = None, reduction: str = "mean", *, space: Space
) -> Expr:
    """Returns the mean over the last axis of binary cross entropy: logits (..., C), targets 0 or 1, ``weight`` (C,)."""
    value = _with_logits(x, target)
    axes = space.axes(None)
    rows = mean(value if weight is None else value * weight, axes[-1])
    return reduced(rows, reduction, axes[:-1])
