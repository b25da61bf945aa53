"""The metrics that ``Trainer(metrics=[...])`` and a configuration know by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.trainer.epoch_metrics import AllOutputs, Collector, Counts, Deviations, auc, f1, precision, recall

MetricFn = Callable[[Any, Any], Any]
# A metric of an epoch is its name, or a collector that is copied, until the loss is known.
Chosen = dict[str, Any]


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Returns the fraction of samples with the maximum of ``output`` (N, C, ...) at the class of ``target``: ids (N,
    ...) or probabilities (N, C, ...).
    """
    ids = ops.argmax(target, axis=1) if target.shape == output.shape else target
    _check_classes("accuracy", output, ids)
    predicted = ops.argmax(output, axis=1)
    return ops.mean(ops.eq(predicted, ops.cast(ids, dtype=predicted.dtype)))


def _label_accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Returns the fraction of labels, logits of the target's shape, on the right side of 0."""
    _check_same("accuracy", output, target)
    said, true = ops.cast(ops.gt(output, 0.0), dtype="int32"), ops.cast(ops.gt(target, 0.5), dtype="int32")
    return ops.mean(ops.eq(said, true))


def top5(output: Tensor, target: Tensor) -> Tensor:
    """Returns the fraction of samples with the class among the five largest of ``output`` (N, C, ...): ids (N, ...)."""
    _check_classes("top5", output, target)
    ids = ops.reshape(ops.cast(target, dtype="int32"), (target.shape[0], 1, *target.shape[1:]))
    own = ops.gather(output, 1, ids)
    larger = ops.sum(ops.cast(ops.gt(output, own), dtype="float32"), axis=1)
    return ops.mean(ops.cast(ops.lt(larger, 5.0), dtype="float32"))


def mae(output: Tensor, target: Tensor) -> Tensor:
    """Returns the mean of |output - target|; both have the same shape."""
    _check_same("mae", output, target)
    return ops.mean(ops.abs(ops.sub(output, target)))


def mse(output: Tensor, target: Tensor) -> Tensor:
    """Returns the mean of (output - target)^2; both have the same shape."""
    _check_same("mse", output, target)
    apart = ops.sub(output, target)
    return ops.mean(ops.mul(apart, apart))


def _check_classes(name: str, output: Tensor, ids: Tensor) -> None:
    if output.ndim < 2 or ids.shape != (output.shape[0], *output.shape[2:]):
        raise ShapeError(
            f"{name}: output has shape {output.shape}, target {ids.shape}; expected (N, C, ...) and (N, ...)"
        )


def _check_same(name: str, output: Tensor, target: Tensor) -> None:
    if output.shape != target.shape:
        raise ShapeError(f"{name}: expected an output of the target's shape {target.shape}, got {output.shape}")


_ON_DEVICE: dict[str, MetricFn] = {"accuracy": accuracy, "mae": mae, "mse": mse, "top5": top5}
# Of a whole epoch; the argument says if the targets are labels.
_OF_EPOCHS: dict[str, Callable[[bool], Collector]] = {
    "auc": lambda labels: AllOutputs(auc, "auc"),
    "confusion": lambda labels: Counts(lambda counts: counts.tolist(), labels),
    "f1": lambda labels: Counts(f1, labels),
    "precision": lambda labels: Counts(precision, labels),
    "r2": lambda labels: Deviations(),
    "recall": lambda labels: Counts(recall, labels),
    "rmse": lambda labels: Deviations(root=True),
}
METRICS = tuple(sorted({*_ON_DEVICE, *_OF_EPOCHS}))


def chosen_metrics(metrics: Any) -> Chosen | None:
    """Returns the metrics of ``Trainer(metrics=)`` by name: a name, a list of names and functions, or a dict of them.

    Raises ValueError for an unknown name, and TypeError for anything else.
    """
    if metrics is None:
        return None
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, (Mapping, Iterable)):
        raise TypeError(f"metrics must be names, functions or a dict of them, got {metrics!r}")
    if not isinstance(metrics, Mapping):
        listed = list(metrics)
        metrics = {each if isinstance(each, str) else getattr(each, "__name__", repr(each)): each for each in listed}
        if len(metrics) != len(listed):
            raise ValueError("two metrics have the same name; give a dict with a name for each")
    for name, metric in metrics.items():
        if isinstance(metric, str) and metric not in METRICS:
            close = difflib.get_close_matches(metric, METRICS, 1, 0.6)
            meant = f"; did you mean {close[0]!r}?" if close else ";"
            raise ValueError(f"unknown metric {metric!r}{meant} known are {', '.join(METRICS)}")
        if not isinstance(metric, str) and not callable(metric) and not hasattr(metric, "result"):
            raise TypeError(f"metric {name!r} must be a name or a function of outputs and targets, got {metric!r}")
    return dict(metrics)


def are_labels(loss_fn: Any) -> bool:
    """Returns True if the loss compares each output with 0 or 1, so that targets are labels and no classes."""
    if isinstance(loss_fn, nn.BCEWithLogitsLoss):
        return True
    return callable(loss_fn) and inspect.unwrap(loss_fn) is inspect.unwrap(ag.binary_cross_entropy_with_logits)


def on_device(metric: Any, loss_fn: Any) -> MetricFn | None:
    """Returns the function of a metric with a mean over batches equal to the epoch's; None for another one."""
    if metric == "accuracy" and are_labels(loss_fn):
        return _label_accuracy
    if isinstance(metric, str):
        return _ON_DEVICE.get(metric)
    function: MetricFn | None = metric if callable(metric) else None
    return function


def collector_of(name: str, loss_fn: Any) -> Collector:
    """Returns a new collector of a metric that is known by name."""
    return _OF_EPOCHS[name](are_labels(loss_fn))
