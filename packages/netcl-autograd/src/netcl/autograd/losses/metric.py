"""Metric-learning losses of vectors: pairs, triplets, and all pairs or triplets of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl import ops
from netcl.autograd.losses.reduction import Cases, averaged, compared, per_row, reduced, whole, zero_at_least
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.expr import Expr, Index, apply, cast, reduce
from netcl.core.ops_table.dispatch import Domain, Space
from netcl.ops.table import composite, expression

# -- pairs and triplets of vectors: distances over the last axis -----------------------------------------------------


def _pair_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (
            (rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), rng.choice([-1, 1], (6, 1))),
            {"reduction": reduction},
        )


def _cosine_reference(a: Any, b: Any, t: Any, reduction: str = "mean", margin: float = 0.0) -> Any:
    cosine = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return averaged(np.where(t[..., 0] > 0, 1 - cosine, np.maximum(0, cosine - margin)), reduction)


@expression(amp="float32", shapes=per_row, domain=compared(_pair_cases, _cosine_reference))
def cosine_embedding_pairs(
    a: Expr, b: Expr, target: Expr, reduction: str = "mean", margin: float = 0.0, *, space: Space
) -> Expr:
    """Returns ``cosine_embedding_loss`` with a target of shape (..., 1)."""
    last = space.axis(-1)
    norms = (reduce("sum", a * a, last) + 1e-12) * (reduce("sum", b * b, last) + 1e-12)
    cosine = reduce("sum", a * b, last) * apply("rsqrt", norms)
    label = cast(target, "float32")  # the labels of PyTorch are 1 and -1; others give 0
    apart = apply("where", apply("eq", label, -1.0), zero_at_least(cosine - margin), 0.0)
    value = apply("where", apply("eq", label, 1.0), 1.0 - cosine, apart)
    return reduced(value, reduction, space.axes(None)[:-1])


def _one_each(op: str, x: Tensor, target: Tensor) -> Tensor:
    if target.shape != x.shape[:-1]:
        raise ShapeError(
            f"{op}: target has shape {target.shape}, expected {x.shape[:-1]} for vectors of shape {x.shape}"
        )
    return ops.reshape(target, (*x.shape[:-1], 1))


def _columns(reference: Any, cases: Any) -> Domain:
    """Returns the cases and the reference of pairs with targets of shape (...)."""

    def called(rng: np.random.Generator) -> Cases:
        for (a, b, target), attributes in cases(rng):
            yield (a, b, np.sign(target[..., 0])), attributes

    # Targets are labels without a gradient; differences with respect to them would cross a jump.
    return compared(
        lambda rng: (((a, b, t.astype(np.int32)), attributes) for (a, b, t), attributes in called(rng)),
        lambda a, b, target, **attributes: reference(a, b, target[..., None], **attributes),
    )


@composite(amp="float32", domain=_columns(_cosine_reference, _pair_cases))
def cosine_embedding_loss(a: Tensor, b: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """Returns 1 - cos(a, b) if target is 1, max(0, cos(a, b) - margin) if it is -1; a and b (..., D), target (...)."""
    column = _one_each("cosine_embedding_loss", a, target)
    return cosine_embedding_pairs(a, b, column, reduction=reduction, margin=margin)  # type: ignore[no-any-return]


def _distance(a: Expr, b: Expr, last: int, distance: str) -> Expr:
    square = reduce("sum", (a - b) * (a - b), last)
    if distance == "squared":
        return square
    if distance != "euclidean":
        raise ValueError(f"distance: expected 'squared' or 'euclidean', got {distance!r}")
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


@expression(amp="float32", shapes=per_row, domain=compared(_triplet_cases, _triplet_reference))
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
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin), d the squared or euclidean distance."""
    last = space.axis(-1)
    gap = _distance(anchor, positive, last, distance) - _distance(anchor, negative, last, distance)
    return reduced(zero_at_least(gap + margin), reduction, space.axes(None)[:-1])


def _margin_triplets(
    a: Any, p: Any, n: Any, margin: float = 1.0, power: float = 2.0, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    def distance(x: Any, y: Any) -> Any:
        return (np.abs(x - y + eps) ** power).sum(-1) ** (1 / power)

    far = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return averaged(np.maximum(distance(a, p) - far + margin, 0), reduction)


def _margin_triplet_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"swap": True}, {"p": 3.0, "margin": 0.4, "reduction": "sum"}, {"reduction": "none"}):
        yield tuple(rng.normal(size=(6, 4)) for _ in range(3)), attributes


@composite(
    amp="float32",
    domain=compared(
        _margin_triplet_cases,
        lambda a, p_, n, p=2.0, **attributes: _margin_triplets(a, p_, n, power=p, **attributes),
        second=False,
    ),
)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin), d(x, y) the p-norm of x - y + eps over the
    last axis.

    ``swap`` takes the smaller of d(anchor, negative) and d(positive, negative) (Balntas et al. 2016).
    """
    if len({anchor.ndim, positive.ndim, negative.ndim}) > 1:
        shapes = f"{anchor.shape}, {positive.shape} and {negative.shape}"
        raise ShapeError(f"triplet_margin_loss: shapes {shapes} have as many axes")
    near = ops.pairwise_distance(anchor, positive, p, eps)
    far = ops.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, ops.pairwise_distance(positive, negative, p, eps))
    return margin_of_distances(near, far, margin=margin, reduction=reduction)  # type: ignore[no-any-return]


@expression(
    amp="float32",
    shapes=whole,
    domain=compared(
        lambda rng: iter([((rng.uniform(1, 2, 7), rng.uniform(0, 0.9, 7)), {})]),
        lambda near, far, margin=1.0, reduction="mean": averaged(np.maximum(near - far + margin, 0), reduction),
    ),
)
def margin_of_distances(near: Expr, far: Expr, margin: float = 1.0, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns max(0, near - far + margin): the last step of ``triplet_margin_loss``."""
    value = margin + near - far  # the order of PyTorch: the margin may be less than the rounding of a distance
    return reduced(apply("where", value >= 0.0, value, 0.0), reduction, space.axes(None))


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


@expression(amp="float32", shapes=per_row, domain=compared(_contrastive_cases, _contrastive_reference))
def contrastive_pairs(
    a: Expr, b: Expr, target: Expr, reduction: str = "mean", margin: float = 1.0, *, space: Space
) -> Expr:
    """Returns ``contrastive_loss`` with a target of shape (..., 1)."""
    d = _distance(a, b, space.axis(-1), "euclidean")
    gap = zero_at_least(margin - d)
    return reduced(target * d * d + (1.0 - target) * gap * gap, reduction, space.axes(None)[:-1])


@composite(amp="float32", domain=_columns(_contrastive_reference, _contrastive_cases))
def contrastive_loss(a: Tensor, b: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Returns d^2 if target is 1, max(0, margin - d)^2 if 0; d: distance of a and b (..., D) (Hadsell et al. 2006)."""
    column = _one_each("contrastive_loss", a, target)
    return contrastive_pairs(a, b, column, reduction=reduction, margin=margin)  # type: ignore[no-any-return]


# -- pairs and triplets within a batch ---------------------------------------------------------------------------------


def _contrast_reference(q: Any, k: Any, temperature: float = 0.07, reduction: str = "mean") -> Any:
    q, k = (v / np.sqrt((v * v).sum(-1, keepdims=True)) for v in (q, k))
    logits = q @ k.T / temperature
    top = logits.max(1, keepdims=True)
    return averaged(np.log(np.exp(logits - top).sum(1)) + top[:, 0] - np.diag(logits), reduction)


def _contrast_cases(rng: np.random.Generator) -> Cases:
    for reduction in ("mean", "sum", "none"):
        yield (rng.normal(size=(5, 4)), rng.normal(size=(5, 4))), {"temperature": 0.5, "reduction": reduction}


def _unit(x: Tensor) -> Tensor:
    return ops.mul(x, ops.rsqrt(ops.add(ops.sum(ops.mul(x, x), axis=-1, keepdims=True), 1e-12)))


@composite(amp="float32", domain=compared(_contrast_cases, _contrast_reference))
def info_nce_loss(query: Tensor, keys: Tensor, temperature: float = 0.07, reduction: str = "mean") -> Tensor:
    """Cross entropy over cosine(query i, key j) / ``temperature`` with the class j = i (van den Oord et al. 2018).

    query and keys (N, D); ``reduction="none"`` gives (N,).
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    if query.ndim != 2 or query.shape != keys.shape:
        raise ShapeError(f"info_nce_loss: query {query.shape} and keys {keys.shape}; expected both (N, D)")
    cosines = ops.div(ops.matmul(_unit(query), _unit(keys), transpose_b=True), temperature)
    each = ops.sub(ops.logsumexp(cosines, axis=1), ops.diag(cosines))
    if reduction == "none":
        return each
    return (ops.mean if reduction == "mean" else ops.sum)(each)


def _distances(x: Any, distance: str) -> Any:
    d = ((x[:, None] - x[None]) ** 2).sum(-1)
    return d if distance == "squared" else np.sqrt(d)


def _hard_reference(
    x: Any, labels: Any, margin: float = 1.0, distance: str = "squared", reduction: str = "mean"
) -> Any:
    return _hardest_reference(_distances(x, distance), labels[:, None], labels[None], margin, reduction)


def _hardest_reference(d: Any, rows: Any, columns: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    values, count, labels = [], 0, rows[:, 0]
    for i in range(len(d)):
        same = labels == labels[i]
        other = ~same
        same[i] = False
        partners = same.any() and other.any()
        values.append(max(0.0, d[i][same].max() - d[i][other].min() + margin) if partners else 0.0)
        count += bool(partners)
    return np.sum(values) / count if reduction == "mean" else averaged(np.array(values), reduction)


def _all_reference(x: Any, labels: Any, margin: float = 1.0, distance: str = "squared", reduction: str = "mean") -> Any:
    d = _distances(x, distance)
    return _every_reference(d[:, :, None], d[:, None], labels[:, None, None], None, None, margin, reduction)


def _every_reference(
    near: Any, far: Any, anchor: Any, positive: Any, negative: Any, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    d, labels, n = near[:, :, 0], anchor[:, 0, 0], len(near)
    values = np.zeros((n, n, n))
    for a, p, q in np.ndindex(n, n, n):
        if a != p and labels[a] == labels[p] and labels[a] != labels[q]:
            values[a, p, q] = max(d[a, p] - d[a, q] + margin, 0)
    return values.sum() / max((values > 0).sum(), 1) if reduction == "mean" else averaged(values, reduction)


def _labelled(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"distance": "euclidean"}, {"reduction": "sum"}, {"reduction": "none"}):
        yield (rng.normal(size=(7, 3)), np.array([0, 1, 0, 2, 1, 0, 3])), attributes


def _product_cases(rng: np.random.Generator) -> Cases:
    for distance in ("squared", "euclidean"):
        yield (rng.uniform(-1, 1, (4, 4)), rng.uniform(2, 3, (4, 1)), rng.uniform(2, 3, (1, 4))), {"distance": distance}


def _product_reference(products: Any, rows: Any, columns: Any, distance: str) -> Any:
    square = rows + columns - 2 * products
    return square if distance == "squared" else np.sqrt(square)


@expression(amp="float32", domain=compared(_product_cases, _product_reference))
def pair_distances(squares: Expr, rows: Expr, columns: Expr, distance: str = "squared", *, space: Space) -> Expr:
    """Returns |a|^2 + |b|^2 - 2 ab from products (N, N) and squares (N, 1), (1, N); clamped at 0."""
    square = zero_at_least(rows + columns - squares * 2.0)
    if distance == "squared":
        return square
    if distance != "euclidean":
        raise ValueError(f"distance: expected 'squared' or 'euclidean', got {distance!r}")
    return apply("sqrt", square + 1e-12)


def _pairwise(op: str, x: Tensor, labels: Tensor, distance: str) -> Tensor:
    if x.ndim != 2 or labels.shape != x.shape[:1]:
        raise ShapeError(f"{op}: embeddings {x.shape} and labels {labels.shape}; expected (N, D) and (N,)")
    n = x.shape[0]
    rows = ops.sum(ops.mul(x, x), axis=1, keepdims=True)
    products = ops.matmul(x, x, transpose_b=True)
    return pair_distances(products, rows, ops.reshape(rows, (1, n)), distance=distance)  # type: ignore[no-any-return]


def _per_anchor(shape: Any, operands: Any, attributes: Any) -> tuple[int, ...]:
    return tuple(shape[:1]) if attributes["reduction"] == "none" else ()


_LABELS = np.array([0, 1, 0, 2, 1])


def _distance_cases(rng: np.random.Generator) -> Cases:
    yield (rng.permutation(np.linspace(0, 3, 25)).reshape(5, 5), _LABELS[:, None], _LABELS[None]), {}


def _cube_cases(rng: np.random.Generator) -> Cases:
    d = rng.permutation(np.linspace(0, 3, 25)).reshape(5, 5)
    labels = _LABELS[:, None, None], _LABELS[None, :, None], _LABELS[None, None]
    yield (d[:, :, None], d[:, None], *labels), {"margin": 0.31}


@expression(amp="float32", shapes=_per_anchor, domain=compared(_distance_cases, _hardest_reference, second=False))
def hardest_triplets(
    d: Expr, rows: Expr, columns: Expr, margin: float = 1.0, reduction: str = "mean", *, space: Space
) -> Expr:
    """Returns ``batch_hard_triplet_loss`` of distances (N, N) and labels (N, 1), (1, N)."""
    same = apply("eq", rows, columns)
    positive, negative = same & apply("ne", Index(0), Index(1)), ~same
    far = reduce("max", apply("where", positive, d, float("-inf")), 1)
    near = reduce("min", apply("where", negative, d, float("inf")), 1)
    both = (far > float("-inf")) & (near < float("inf"))
    # Anchors without a positive or a negative are masked before the difference, which would be infinite.
    gap = apply("where", both, far, 0.0) - apply("where", both, near, 0.0)
    value = apply("where", both, zero_at_least(gap + margin), 0.0)
    if reduction != "mean":
        return reduced(value, reduction, (0,))
    count = reduce("sum", cast(both, value.dtype), 0)
    return reduce("sum", value, 0) / apply("maximum", apply("stop_gradient", count), 1.0)


@composite(amp="float32", domain=compared(_labelled, _hard_reference, second=False))
def batch_hard_triplet_loss(
    x: Tensor, labels: Tensor, margin: float = 1.0, distance: str = "squared", reduction: str = "mean"
) -> Tensor:
    """Returns the mean over anchors of max(0, farthest of its class - nearest of another + margin) (Hermans et al.
    2017).

    x (N, D), labels (N,); anchors without a positive or a negative do not contribute. ``reduction="none"``
    returns (N,), 0 for them.
    """
    n = x.shape[0]
    d = _pairwise("batch_hard_triplet_loss", x, labels, distance)
    rows, columns = ops.reshape(labels, (n, 1)), ops.reshape(labels, (1, n))
    return hardest_triplets(d, rows, columns, margin=margin, reduction=reduction)  # type: ignore[no-any-return]


@expression(amp="float32", shapes=whole, domain=compared(_cube_cases, _every_reference, second=False))
def every_triplet(
    near: Expr,
    far: Expr,
    anchor: Expr,
    positive: Expr,
    negative: Expr,
    margin: float = 1.0,
    reduction: str = "mean",
    *,
    space: Space,
) -> Expr:
    """Returns ``batch_all_triplet_loss`` over (N, N, N): the values of the triplets are not stored."""
    valid = apply("eq", anchor, positive) & apply("ne", anchor, negative) & apply("ne", Index(0), Index(1))
    value = apply("where", valid, zero_at_least(near - far + margin), 0.0)
    if reduction != "mean":
        return reduced(value, reduction, (0, 1, 2))
    count = reduce("sum", cast(value > 0, value.dtype), (0, 1, 2))
    return reduce("sum", value, (0, 1, 2)) / apply("maximum", apply("stop_gradient", count), 1.0)


@composite(amp="float32", domain=compared(_labelled, _all_reference, second=False))
def batch_all_triplet_loss(
    x: Tensor, labels: Tensor, margin: float = 1.0, distance: str = "squared", reduction: str = "mean"
) -> Tensor:
    """Returns the mean of d(anchor, positive) - d(anchor, negative) + margin over the triplets with a positive value.

    x (N, D), labels (N,) (Hermans et al. 2017); 0 if there is none. ``reduction="none"`` returns (N, N, N) by anchor,
    positive and negative, 0 for all other triplets.
    """
    n = x.shape[0]
    d = _pairwise("batch_all_triplet_loss", x, labels, distance)
    near, far = ops.reshape(d, (n, n, 1)), ops.reshape(d, (n, 1, n))
    places = ops.reshape(labels, (n, 1, 1)), ops.reshape(labels, (1, n, 1)), ops.reshape(labels, (1, 1, n))
    return every_triplet(near, far, *places, margin=margin, reduction=reduction)  # type: ignore[no-any-return]
