"""Losses over classes: cross entropy of class ids or probabilities as one expression, and its relatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from netcl import ops
from netcl.autograd.losses.reduction import Cases, averaged, compared, reduced, zero_at_least
from netcl.core import Tensor
from netcl.core.dtypes import is_floating, is_integer
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.expr import Const, Expr, Index, apply, cast, mean, reduce, size_of
from netcl.core.ops_table.dispatch import Space
from netcl.ops import reshape
from netcl.ops.table import composite, expression

Shape = tuple[int, ...]
Parts = tuple[Expr, Expr]


def _without_classes(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Returns the final shape: (N, 1, ...) without the class axis, or 0-d if reduced."""
    return (shape[0], *shape[2:]) if attributes["reduction"] == "none" and len(shape) > 1 else ()


# -- class ids -------------------------------------------------------------------------------------------------------


def _chosen(x: Expr, labels: Expr, ignore_index: int | None, code: int) -> tuple[Expr, Expr]:
    """Returns two masks: positions of the label on the class axis, and labels that are not ignored; an invalid label
    sets the device's error flag.
    """
    if is_integer(labels.dtype) and labels.dtype not in ("int32", "int64"):
        # ignore_index may be negative, or out of the range of the dtype.
        labels = cast(labels, "int64" if labels.dtype in ("uint32", "uint64") else "int32")
    # Not in the dtype of x: bool would count one class.
    classes = cast(size_of((1,), "float64" if x.dtype == "float64" else "float32"), "int32")
    inside = (labels >= 0) & (labels < classes)
    if is_floating(labels.dtype):
        inside = inside & apply("eq", apply("floor", labels), labels)
    counts = inside if ignore_index is None else apply("ne", labels, ignore_index)
    allowed = inside if ignore_index is None else inside | ~counts
    checked = apply("require", allowed, labels, Const(code, "int32"), classes)
    return apply("eq", Index(1), cast(checked, "int32")), counts


def _weighted(value: Expr, hit: Expr, counts: Expr, weight: Expr | None, reduction: str, space: Space) -> Expr | Parts:
    """Returns ``value`` (N, 1, ...) times the weight of its class, reduced; the mean also returns the sum of the
    weights, which the gradient loads.
    """
    share: Expr = cast(counts, value.dtype)
    if weight is not None:
        share = reduce("sum", apply("where", hit & counts, weight, 0.0), 1)
    loss = apply("where", counts, value if weight is None else value * share, 0.0)
    axes = tuple(axis for axis in space.axes(None) if axis != 1)
    if reduction != "mean":
        return reduced(loss, reduction, axes)
    total = reduce("sum", share, axes)
    return reduce("sum", loss, axes) / total, total


def _picked(value: Expr, hit: Expr) -> Expr:
    return reduce("sum", apply("where", hit, value, 0.0), 1)


def _log_sum(x: Expr) -> tuple[Expr, Expr]:
    """Returns x minus its maximum over the classes, and the log-sum-exp of the shifted x."""
    shifted = x - apply("stop_gradient", reduce("max", x, 1))
    return shifted, apply("log", reduce("sum", apply("exp", shifted), 1))


def _id_cases(rng: np.random.Generator) -> Cases:
    for shape in ((4, 5), (2, 3, 4), (3, 1)):
        labels = rng.integers(0, shape[1], (shape[0], 1, *shape[2:]))
        for attributes in ({}, {"reduction": "sum"}, {"reduction": "none"}):
            yield (rng.uniform(-2, 2, shape), labels), attributes
    weight = rng.uniform(0.5, 2, (1, 5))
    ignored = np.array([[1], [-100], [4], [0]])
    yield (rng.uniform(-2, 2, (4, 5)), ignored, weight), {}
    yield (rng.uniform(-2, 2, (4, 5)), ignored, weight), {"smooth": True, "label_smoothing": 0.1}
    yield (rng.uniform(-2, 2, (4, 5)), ignored), {"smooth": True, "label_smoothing": 0.1, "reduction": "sum"}


def _ids_reference(
    x: Any,
    labels: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    smooth: bool = False,
    label_smoothing: float = 0.0,
    logits: bool = True,
    **_: Any,
) -> Any:
    top = x.max(1, keepdims=True)
    log_p = x - top - np.log(np.exp(x - top).sum(1, keepdims=True)) if logits else x
    classes = x.shape[1]
    w = np.ones((1, classes) + (1,) * (x.ndim - 2)) if weight is None else weight
    hit = (np.arange(classes).reshape(1, -1, *(1,) * (x.ndim - 2)) == labels).astype(float)
    counts = labels != ignore_index
    values = -(hit * w * log_p).sum(1, keepdims=True) * (1 - label_smoothing)
    values = (values - label_smoothing / classes * (w * log_p).sum(1, keepdims=True)) * counts
    if reduction == "mean":
        total = ((hit * w).sum(1, keepdims=True) * counts).sum()
        return values.sum() / total, total
    return values.sum() if reduction == "sum" else values[:, 0]


@expression(amp="float32", shapes=_without_classes, domain=compared(_id_cases, _ids_reference))
def cross_entropy_ids(
    logits: Expr,
    labels: Expr,
    weight: Expr | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    code: int = 0,
    smooth: bool = False,
    label_smoothing: float = 0.0,
    *,
    space: Space,
) -> Expr | Parts:
    """Returns ``cross_entropy`` of labels (N, 1, ...), weight (1, C, ...); for a mean also the sum of the weights."""
    hit, counts = _chosen(logits, labels, ignore_index, code)
    shifted, log_sum = _log_sum(logits)
    value = log_sum - _picked(shifted, hit)
    if not smooth:
        return _weighted(value, hit, counts, weight, reduction, space)
    # (1 - s) times the label's part plus s / C times each class's.
    every = log_sum - shifted
    spread = reduce("sum", every if weight is None else every * weight, 1)
    share = _picked(cast(weight, value.dtype), hit) if weight is not None else 1.0
    loss = value * share * (1.0 - label_smoothing) + spread * label_smoothing / size_of((1,), value.dtype)
    loss = apply("where", counts, loss, 0.0)
    axes = tuple(axis for axis in space.axes(None) if axis != 1)
    if reduction != "mean":
        return reduced(loss, reduction, axes)
    total = _weighted(value, hit, counts, weight, "mean", space)[1]  # type: ignore[index]
    return reduce("sum", loss, axes) / total, total


@expression(
    amp="float32",
    shapes=_without_classes,
    domain=compared(
        lambda rng: (case for case in _id_cases(rng) if "smooth" not in case[1]), partial(_ids_reference, logits=False)
    ),
)
def nll_ids(
    log_probabilities: Expr,
    labels: Expr,
    weight: Expr | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    code: int = 0,
    *,
    space: Space,
) -> Expr | Parts:
    """Returns ``nll_loss`` of labels (N, 1, ...), weight (1, C, ...); for a mean also the sum of the weights."""
    hit, counts = _chosen(log_probabilities, labels, ignore_index, code)
    return _weighted(-_picked(log_probabilities, hit), hit, counts, weight, reduction, space)


def _probability_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.2}):
        yield (rng.uniform(-2, 2, (2, 4, 3)), rng.dirichlet(np.ones(4), (2, 3)).transpose(0, 2, 1)), attributes


def _probability_reference(
    x: Any, p: Any, weight: Any = 1.0, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    soft = p * (1 - label_smoothing) + label_smoothing / x.shape[1]
    return averaged(-(soft * log_p * weight).sum(1), reduction)


@expression(amp="float32", shapes=_without_classes, domain=compared(_probability_cases, _probability_reference))
def cross_entropy_probabilities(
    logits: Expr,
    target: Expr,
    weight: Expr | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    space: Space,
) -> Expr:
    """Returns ``cross_entropy`` of probabilities (N, C, ...) and weight (1, C, ...)."""
    shifted, log_sum = _log_sum(logits)
    classes = size_of((1,), shifted.dtype)
    soft = target * (1.0 - label_smoothing) + label_smoothing / classes
    value = soft * (log_sum - shifted)
    if weight is not None:
        value = value * weight
    return reduced(reduce("sum", value, 1), reduction, tuple(axis for axis in space.axes(None) if axis != 1))


# -- public functions -----------------------------------------------------------------------------------------------


def _called_cases(rng: np.random.Generator) -> Cases:
    """Yields the cases of class ids with public shapes: targets (N, ...), weights (C,)."""
    for (x, labels, *weight), attributes in _id_cases(rng):
        if "smooth" not in attributes:
            yield (x, labels[:, 0], *(each[0] for each in weight)), attributes


def _smoothed_cases(rng: np.random.Generator) -> Cases:
    yield from _called_cases(rng)
    yield (rng.uniform(-2, 2, (4, 5)), np.array([1, -100, 4, 0]), rng.uniform(0.5, 2, 5)), {"label_smoothing": 0.1}
    yield (rng.uniform(-2, 2, 5), np.array(3)), {}


def _called_reference(x: Any, target: Any, weight: Any = None, logits: bool = True, **attributes: Any) -> Any:
    if x.ndim == 1:
        return _called_reference(x[None], target[None], weight, logits, **attributes)
    wide = None if weight is None else weight.reshape(1, -1, *(1,) * (x.ndim - 2))
    result = _ids_reference(x, np.expand_dims(target, 1), wide, logits=logits, **attributes)
    return result[0] if isinstance(result, tuple) else result


def _of_last_axis(op: str, x: Tensor, target: Tensor) -> str:
    """Returns the call for classes on the last axis, such as a language model's logits; "" for other shapes."""
    if x.ndim < 3 or target.shape != x.shape[:-1] or op not in ("cross_entropy", "nll_loss"):
        return ""
    return f"; with the classes on the last axis write {op}(logits.reshape(-1, {x.shape[-1]}), target.reshape(-1))"


def _arranged(op: str, x: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns x (N, C, ...), labels (N, 1, ...), weight (1, C, ...); ShapeError names shapes that do not match."""
    if (x.ndim == 1 and target.ndim == 0) or (op == "multi_margin_loss" and x.ndim == 0):
        x, target = reshape(x, (1, -1)), reshape(target, (1,))
    if x.ndim < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        expected = (x.shape[0], *x.shape[2:]) if x.ndim > 1 else ()
        raise ShapeError(
            f"{op}: logits {x.shape} and target {target.shape}; expected logits (N, C, ...) and class ids {expected}"
            + (f", or floating probabilities {x.shape}" if op == "cross_entropy" else "")
            + _of_last_axis(op, x, target),
            op=op,
            parameter="target",
        )
    if target.dtype == "bool":
        raise DTypeError(f"{op}: expected whole numbers as class ids, got bool", parameter="target")
    return x, reshape(target, (x.shape[0], 1, *x.shape[2:])), _per_class(op, x, weight)


def _per_class(op: str, x: Tensor, weight: Tensor | None) -> Tensor | None:
    if weight is None:
        return None
    if weight.shape != (x.shape[1],):
        raise ShapeError(f"{op}: weight has shape {weight.shape}, expected ({x.shape[1]},)", parameter="weight")
    return reshape(weight, (1, x.shape[1]) + (1,) * (x.ndim - 2))


def _code(op: str, x: Tensor, ignore_index: int | None) -> int:
    but = "" if ignore_index is None else f" (or ignore_index {ignore_index})"
    return x.engine.flag_code(f"{op}: target {{value}} at position {{position}} is no class id 0..{{last}}{but}")


@composite(amp="float32", domain=compared(_smoothed_cases, _called_reference))
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns -log softmax(logits)[target] over axis 1: logits (N, C, ...), target class ids (N, ...) or probabilities
    (N, C, ...).

    Ids may be any integers or integer-valued floats; one outside 0..C-1 raises IndexError when the loss is read. Ids
    equal to ``ignore_index`` do not contribute. ``weight`` (C,) weighs the classes, and the mean divides by the weights
    of the labels (by N ... for probabilities). ``label_smoothing`` s gives every class s / C of the label's
    probability (Szegedy et al. 2016).
    """
    if target.shape == logits.shape and logits.ndim > 0 and is_floating(target.dtype):
        x, y = (logits, target) if logits.ndim > 1 else (reshape(logits, (1, -1)), reshape(target, (1, -1)))
        classes = _per_class("cross_entropy", x, weight)
        value = cross_entropy_probabilities(x, y, classes, reduction=reduction, label_smoothing=label_smoothing)
        return _single(value, logits)
    x, labels, classes = _arranged("cross_entropy", logits, target, weight)
    result = cross_entropy_ids(
        x,
        labels,
        classes,
        ignore_index=ignore_index,
        reduction=reduction,
        code=_code("cross_entropy", x, ignore_index),
        smooth=label_smoothing != 0,
        label_smoothing=label_smoothing,
    )
    return _single(result, logits)


def _single(result: Any, scores: Tensor) -> Tensor:
    value = result[0] if isinstance(result, tuple) else result
    return reshape(value, ()) if scores.ndim < 2 and value.shape else value


@composite(amp="float32", domain=compared(_called_cases, partial(_called_reference, logits=False)))
def nll_loss(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Returns -log_probabilities[target] over axis 1: (N, C, ...) and class ids (N, ...), as in ``cross_entropy``."""
    x, labels, classes = _arranged("nll_loss", log_probabilities, target, weight)
    code = _code("nll_loss", x, ignore_index)
    result = nll_ids(x, labels, classes, ignore_index=ignore_index, reduction=reduction, code=code)
    return _single(result, log_probabilities)


def _margin_cases(rng: np.random.Generator) -> Cases:
    for attributes in ({}, {"reduction": "sum"}, {"reduction": "none", "margin": 0.5}, {"p": 2}):
        yield (rng.permutation(np.linspace(-1.93, 1.9, 20)).reshape(4, 5), rng.integers(0, 5, (4, 1))), attributes


def _margin_reference(x: Any, labels: Any, p: int = 1, reduction: str = "mean", margin: float = 1.0) -> Any:
    own = np.take_along_axis(x, labels, 1)
    values = np.maximum(margin - own + x, 0) ** p
    np.put_along_axis(values, labels, 0, 1)
    return averaged(values.sum(1) / x.shape[1], reduction)


@expression(amp="float32", shapes=_without_classes, domain=compared(_margin_cases, _margin_reference))
def multi_margin_ids(
    x: Expr,
    labels: Expr,
    weight: Expr | None = None,
    p: int = 1,
    reduction: str = "mean",
    code: int = 0,
    margin: float = 1.0,
    *,
    space: Space,
) -> Expr:
    """Returns ``multi_margin_loss`` of labels (N, 1) and weight (1, C)."""
    hit, _ = _chosen(x, labels, None, code)
    gap = zero_at_least(margin - _picked(x, hit) + x)
    value = apply("where", hit, 0.0, gap if p == 1 else gap**p)
    if weight is not None:
        value = value * _picked(cast(weight, value.dtype), hit)
    return reduced(mean(value, 1), reduction, (0,))


@composite(
    amp="float32",
    domain=compared(
        lambda rng: (((x, labels[:, 0]), attributes) for (x, labels), attributes in _margin_cases(rng)),
        lambda x, target, **attributes: _margin_reference(x, target[:, None], **attributes),
    ),
)
def multi_margin_loss(
    x: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Returns sum over j != y of max(0, margin - x[y] + x[j])^p / C: x (N, C), class ids y (N,); of one
    sample also x (C,) or (), y () or (1,).
    """
    if x.ndim < 2 and target.ndim == 1:  # of one sample
        x = reshape(x, (1, x.size))
    scores, labels, classes = _arranged("multi_margin_loss", x, target, weight)
    code = _code("multi_margin_loss", scores, None)
    result = multi_margin_ids(scores, labels, classes, p=p, reduction=reduction, code=code, margin=margin)
    return _single(result, x)


def _listed_reference(x: Any, target: Any, reduction: str = "mean") -> Any:
    values = []
    for row, labels in zip(x, target):
        chosen = labels[: int(np.argmax(labels < 0)) if (labels < 0).any() else len(labels)]
        others = np.setdiff1d(np.arange(len(row)), chosen)
        values.append(np.maximum(0, 1 - row[chosen][:, None] + row[others][None]).sum() / len(row))
    return averaged(np.array(values), reduction)


def _listed_cases(rng: np.random.Generator) -> Cases:
    target = np.array([[1, 4, -1, 2, 0], [3, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])
    for reduction in ("mean", "sum", "none"):
        yield (rng.permutation(np.linspace(-1.93, 1.9, 20)).reshape(4, 5), target), {"reduction": reduction}


def _margins_cases(rng: np.random.Generator) -> Cases:
    x = rng.permutation(np.linspace(-1.93, 1.9, 20)).reshape(4, 1, 5)
    own = rng.permutation(np.linspace(-1.96, 1.87, 20)).reshape(4, 5, 1)
    yield (x, own, rng.integers(0, 2, (4, 5, 1)) > 0, rng.integers(0, 2, (4, 1, 5)) > 0), {}


@expression(
    amp="float32",
    shapes=lambda shape, operands, attributes: shape[:1] if attributes["reduction"] == "none" else (),
    domain=compared(
        _margins_cases,
        lambda x, own, listed, label, reduction="mean": averaged(
            (np.maximum(1 - own + x, 0) * listed * ~label).sum((1, 2)) / x.shape[2], reduction
        ),
    ),
)
def listed_margins(x: Expr, own: Expr, listed: Expr, label: Expr, reduction: str = "mean", *, space: Space) -> Expr:
    """Returns ``multilabel_margin_loss`` of scores (N, 1, C), the scores of the listed labels (N, C, 1), and masks of
    the labels that count and of the labels' classes (N, 1, C).
    """
    counts = cast(listed, "bool") & ~cast(label, "bool")
    value = apply("where", counts, zero_at_least(1.0 - own + x), 0.0)
    return reduced(reduce("sum", value, (1, 2)) / size_of((2,), x.dtype), reduction, (0,))


@composite(amp="float32", domain=compared(_listed_cases, _listed_reference))
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Returns the sum over labels y and other classes i of max(0, 1 - x[y] + x[i]), divided by C: scores x (N, C) or
    (C,), and class ids of the same shape; ids before the first -1 count.

    An id from C on raises IndexError when the loss is read.
    """
    op = "multilabel_margin_loss"
    if not x.ndim and not target.ndim:
        return multilabel_margin_loss(reshape(x, (1,)), reshape(target, (1,)), reduction)  # type: ignore[no-any-return]
    if x.ndim not in (1, 2) or target.shape != x.shape:
        raise ShapeError(f"{op}: x {x.shape} and target {target.shape}; expected both (N, C) or (C,)")
    if is_floating(target.dtype) or target.dtype == "bool":
        raise DTypeError(f"{op}: expected whole numbers as class ids, got {target.dtype}", parameter="target")
    if x.ndim == 1:
        loss = multilabel_margin_loss(reshape(x, (1, -1)), reshape(target, (1, -1)), reduction)
        return reshape(loss, ())
    n, classes = x.shape
    listed = ops.cumprod(ops.ge(target, 0), 1)
    ids = ops.where(ops.ne(listed, 0), target, 0)
    label = ops.scatter_add(x.engine.zeros(x.shape, "int32"), 1, ids, ops.cast(listed, dtype="int32"))
    own = ops.gather(x, 1, ids)
    return listed_margins(  # type: ignore[no-any-return]
        reshape(x, (n, 1, classes)),
        reshape(own, (n, classes, 1)),
        reshape(ops.ne(listed, 0), (n, classes, 1)),
        reshape(ops.ne(label, 0), (n, 1, classes)),
        reduction=reduction,
    )
