"""Elementwise and pairwise losses, each one expression: means by default, sums or single values by ``reduction``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.dispatch import Domain, Space
from netcl.core.errors import ShapeError
from netcl.core.expr import Expr, apply, mean, reduce, size_of
from netcl.ops import reshape
from netcl.ops.table import composite, expression

Shape = tuple[int, ...]
Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


def reduced(value: Expr, reduction: str, axes: Sequence[int]) -> Expr:
    """``value`` averaged or summed over ``axes``, or as it is; ValueError for another ``reduction``."""
    if reduction == "mean":
        return mean(value, axes)
    if reduction == "sum":
        return reduce("sum", value, axes)
    if reduction != "none":
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return value


def whole(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape: 0-d, or the elements' with ``reduction="none"``."""
    return shape if attributes["reduction"] == "none" else ()


def per_row(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape: 0-d, or without the last axis with ``reduction="none"``."""
    return shape[:-1] if attributes["reduction"] == "none" else ()


def zero_at_least(value: Expr) -> Expr:
    """max(value, 0), with gradient 0 at 0."""
    return apply("where", value > 0, value, 0.0)


def averaged(values: Any, reduction: str = "mean") -> Any:
    """What ``reduction`` makes of single values: for the references."""
    how: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return how[reduction](values)


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
    """log(p), -100 at 0, as PyTorch limits it."""
    inside = p > 0
    return apply("where", inside, apply("log", apply("where", inside, p, 1.0)), -100.0)


def _bce(p: Any, t: Any) -> Any:
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


@expression(amp="float32", shapes=whole, domain=_domain(_bce, 0.1, 0.9, 0.0, 1.0))
def binary_cross_entropy(
    x: Expr, target: Expr, weight: Expr | None = None, reduction: str = "mean", *, space: Space
) -> Expr:
    """-(t log x + (1 - t) log(1 - x)) of probabilities x, times ``weight``; logarithms are -100 at least."""
    value = -(target * _log(x) + (1.0 - target) * _log(1.0 - x))
    return reduced(value if weight is None else value * weight, reduction, space.axes(None))


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
    """The same of sigmoid(x), without overflow; ``pos_weight`` multiplies the part of target 1."""
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


def _signs(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.choice([-1.0, 1.0], shape)


def _hinge_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (
            (rng.permutation(np.linspace(-1.93, 1.9, 15)).reshape(3, 5), _signs(rng, (3, 5))),
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


# -- pairs and triplets of vectors: distances over the last axis -----------------------------------------------------


def _pair_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), _signs(rng, (6, 1))), {"reduction": reduction}


def _cosine_reference(a: Any, b: Any, t: Any, reduction: str = "mean", margin: float = 0.0) -> Any:
    cosine = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return averaged(np.where(t[..., 0] > 0, 1 - cosine, np.maximum(0, cosine - margin)), reduction)


@expression(amp="float32", shapes=per_row, domain=Domain(cases=_pair_cases, reference=_cosine_reference))
def cosine_embedding_pairs(
    a: Expr, b: Expr, target: Expr, reduction: str = "mean", margin: float = 0.0, *, space: Space
) -> Expr:
    """``cosine_embedding_loss`` with a target of shape (..., 1)."""
    last = space.axis(-1)
    norms = (reduce("sum", a * a, last) + 1e-12) * (reduce("sum", b * b, last) + 1e-12)
    cosine = reduce("sum", a * b, last) * apply("rsqrt", norms)
    value = apply("where", target > 0, 1.0 - cosine, zero_at_least(cosine - margin))
    return reduced(value, reduction, space.axes(None)[:-1])


def _one_each(op: str, x: Tensor, target: Tensor) -> Tensor:
    if target.shape != x.shape[:-1]:
        raise ShapeError(
            f"{op}: target has shape {target.shape}, expected {x.shape[:-1]} for vectors of shape {x.shape}", op=op
        )
    return reshape(target, (*x.shape[:-1], 1))  # type: ignore[no-any-return]


def _columns(reference: Any, cases: Any) -> Domain:
    """The cases and the reference of pairs for targets of shape (...)."""

    def called(rng: np.random.Generator) -> Cases:
        for (a, b, target), attributes in cases(rng):
            yield (a, b, np.sign(target[..., 0])), attributes

    # Targets are labels: nobody wants their gradient, and differences by them cross a jump.
    return Domain(
        cases=lambda rng: (((a, b, t.astype(np.int32)), attributes) for (a, b, t), attributes in called(rng)),
        reference=lambda a, b, target, **attributes: reference(a, b, target[..., None], **attributes),
    )


@composite(amp="float32", domain=_columns(_cosine_reference, _pair_cases))
def cosine_embedding_loss(a: Tensor, b: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """1 - cos(a, b) where target is 1, max(0, cos(a, b) - margin) where it is -1; a and b (..., D), target (...)."""
    column = _one_each("cosine_embedding_loss", a, target)
    return cosine_embedding_pairs(a, b, column, reduction=reduction, margin=margin)  # type: ignore[no-any-return]


def _distance(a: Expr, b: Expr, last: int, distance: str) -> Expr:
    square = reduce("sum", (a - b) * (a - b), last)
    if distance == "squared":
        return square
    if distance != "euclidean":
        raise ValueError(f"distance is 'squared' or 'euclidean', not {distance!r}")
    return apply("sqrt", square + 1e-12)


def _triplet_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"reduction": "none"}, {"distance": "euclidean"}, {"reduction": "sum", "margin": 0.3}):
        yield tuple(rng.normal(size=(6, 4)) for _ in range(3)), attributes


def _triplet_reference(
    a: Any, p: Any, n: Any, reduction: str = "mean", margin: float = 1.0, distance: str = "squared"
) -> Any:
    near, far = ((a - p) ** 2).sum(-1), ((a - n) ** 2).sum(-1)
    if distance == "euclidean":
        near, far = np.sqrt(near), np.sqrt(far)
    return averaged(np.maximum(near - far + margin, 0), reduction)


@expression(amp="float32", shapes=per_row, domain=Domain(cases=_triplet_cases, reference=_triplet_reference))
def triplet_loss(
    anchor: Expr,
    positive: Expr,
    negative: Expr,
    margin: float = 1.0,
    distance: str = "squared",
    reduction: str = "mean",
    *,
    space: Space,
) -> Expr:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the squared or euclidean distance over the last
    axis.
    """
    last = space.axis(-1)
    gap = _distance(anchor, positive, last, distance) - _distance(anchor, negative, last, distance)
    return reduced(zero_at_least(gap + margin), reduction, space.axes(None)[:-1])


def _contrastive_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (
            (rng.normal(size=(6, 4)) * 0.4, rng.normal(size=(6, 4)) * 0.4, rng.choice([0.0, 1.0], (6, 1))),
            {"reduction": reduction},
        )


def _contrastive_reference(a: Any, b: Any, t: Any, reduction: str = "mean", margin: float = 1.0) -> Any:
    d = np.sqrt(((a - b) ** 2).sum(-1))
    same = t[..., 0]
    return averaged(same * d**2 + (1 - same) * np.maximum(margin - d, 0) ** 2, reduction)


@expression(amp="float32", shapes=per_row, domain=Domain(cases=_contrastive_cases, reference=_contrastive_reference))
def contrastive_pairs(
    a: Expr, b: Expr, target: Expr, reduction: str = "mean", margin: float = 1.0, *, space: Space
) -> Expr:
    """``contrastive_loss`` with a target of shape (..., 1)."""
    d = _distance(a, b, space.axis(-1), "euclidean")
    apart = zero_at_least(margin - d)
    return reduced(target * d * d + (1.0 - target) * apart * apart, reduction, space.axes(None)[:-1])


@composite(amp="float32", domain=_columns(_contrastive_reference, _contrastive_cases))
def contrastive_loss(a: Tensor, b: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """d^2 where target is 1 (alike), max(0, margin - d)^2 where it is 0; d the distance of a and b (..., D) (Hadsell
    et al. 2006).
    """
    column = _one_each("contrastive_loss", a, target)
    return contrastive_pairs(a, b, column, reduction=reduction, margin=margin)  # type: ignore[no-any-return]
