"""Metrics of a whole epoch: F1, AUC, R2, confusion matrices and functions of users, from outputs on the host.

F1 is no mean of the F1 of batches. A collector adds up what its metric needs: counts, sums, or all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Collector(Protocol):
    """Collects the batches of an epoch on the host; ``result`` is the metric."""

    def add(self, outputs: Any, targets: Array) -> None:
        """Adds a batch."""
        ...

    def result(self) -> Any:
        """Returns the metric of the batches since the last ``reset``: a float, or lists of numbers."""
        ...

    def reset(self) -> None:
        """Begins an epoch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the collected values, for a checkpoint within an epoch."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores them."""
        ...


def _rows(outputs: Array, targets: Array) -> tuple[Array, Array]:
    """Returns outputs as (M, C) and targets as (M,) or (M, C), for outputs (N, C, ...)."""
    if outputs.ndim > 2:
        outputs = np.moveaxis(outputs, 1, -1).reshape(-1, outputs.shape[1])
        targets = np.moveaxis(targets, 1, -1) if targets.ndim > 2 and targets.size == outputs.size else targets
        targets = targets.reshape(-1) if targets.size == len(outputs) else targets.reshape(outputs.shape)
    return outputs, targets


def confusion_of(outputs: Array, targets: Array, labels: bool) -> npt.NDArray[np.int64]:
    """Returns the counts int64 (C, C) of classes, rows by the true and columns by the predicted one; for ``labels``
    (L, 2, 2), a matrix for each label. Outputs are logits; negative class ids are ignored.
    """
    if labels:
        guess = outputs.reshape(len(outputs), -1) > 0
        truth = targets.reshape(len(targets), -1) > 0.5
        if guess.shape != truth.shape:
            raise ValueError(f"expected labels of the shape of the outputs {guess.shape}, got {truth.shape}")
        places = 2 * truth.astype(np.int64) + guess
        return np.stack([np.bincount(column, minlength=4).reshape(2, 2) for column in places.T])
    outputs, targets = _rows(outputs, targets)
    if outputs.ndim != 2:
        raise ValueError(f"expected outputs (N, C) for classes, got {outputs.shape}")
    if targets.shape == outputs.shape:
        targets = targets.argmax(axis=1)
    classes = outputs.shape[1]
    truth, guess = targets.astype(np.int64), outputs.argmax(axis=1)
    known = (truth >= 0) & (truth < classes)
    return np.bincount(classes * truth[known] + guess[known], minlength=classes**2).reshape(classes, classes)


def _hits(counts: Array) -> tuple[Array, Array, Array]:
    """Returns for each class or label that appears: the samples that were found, that are of it, and that were said to
    be of it; of two classes for the second.
    """
    if counts.ndim == 3:
        return counts[:, 1, 1], counts[:, 1].sum(axis=1), counts[:, :, 1].sum(axis=1)
    hits, true, said = np.diagonal(counts), counts.sum(axis=1), counts.sum(axis=0)
    if len(counts) == 2:
        return hits[1:], true[1:], said[1:]
    there = (true + said) > 0
    return hits[there], true[there], said[there]


def _mean_ratio(part: Array, whole: Array) -> float:
    """Returns the mean of part / whole, with 0 for 0 / 0."""
    return float(np.mean(np.where(whole > 0, part / np.maximum(whole, 1), 0.0))) if len(part) else 0.0


def f1(counts: Array) -> float:
    """Returns F1 = 2 found / (true + said): of the second of two classes, else the mean over the classes or labels."""
    hits, true, said = _hits(counts)
    return _mean_ratio(2 * hits, true + said)


def precision(counts: Array) -> float:
    """Returns found / said, averaged as ``f1``."""
    hits, _, said = _hits(counts)
    return _mean_ratio(hits, said)


def recall(counts: Array) -> float:
    """Returns found / true, averaged as ``f1``."""
    hits, true, _ = _hits(counts)
    return _mean_ratio(hits, true)


class Counts:
    """Collects a confusion matrix, and computes the metric from it."""

    def __init__(self, metric: Callable[[Array], Any], labels: bool) -> None:
        self.metric, self.labels = metric, labels
        self.counts: Array | None = None

    def add(self, outputs: Any, targets: Array) -> None:
        counts = confusion_of(outputs, targets, self.labels)
        self.counts = counts if self.counts is None else self.counts + counts

    def result(self) -> Any:
        return math.nan if self.counts is None else self.metric(self.counts)

    def reset(self) -> None:
        self.counts = None

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counts = None if state["counts"] is None else np.asarray(state["counts"], np.int64)


class Deviations:
    """Collects the sums of R2 = 1 - sum (t - o)^2 / sum (t - mean t)^2, averaged over the outputs, or of the root of
    the mean square; float64. ``scale`` is the unit of each output.
    """

    def __init__(self, root: bool = False, scale: Any = 1.0) -> None:
        self.root, self.scale = root, scale
        self.sums: Array | None = None  # count, sum of t, of t^2 and of (t - o)^2, relative to the first target
        self.origin: Array | None = None

    def add(self, outputs: Any, targets: Array) -> None:
        if outputs.size != targets.size:
            raise ValueError(f"expected outputs of the targets' shape {targets.shape}, got {outputs.shape}")
        truth = targets.reshape(len(targets), -1).astype(np.float64)
        origin = self.origin
        if origin is None or self.sums is None:
            origin = self.origin = truth[0].copy()
            self.sums = np.zeros((4, truth.shape[1]))
        shifted, apart = truth - origin, truth - outputs.reshape(truth.shape).astype(np.float64)
        self.sums = self.sums + np.stack(
            [np.full(truth.shape[1], len(truth)), shifted.sum(0), (shifted**2).sum(0), (apart**2).sum(0)]
        )

    def result(self) -> float:
        if self.sums is None:
            return math.nan
        count, total, squares, apart = self.sums
        if self.root:
            return float(np.sqrt(np.mean(apart / count * np.square(self.scale))))
        spread = squares - total * total / count
        # As scikit-learn: a constant target that is predicted has 1, one that is not 0.
        ratio = np.divide(apart, spread, out=np.where(apart > 0, 1.0, 0.0), where=spread > 0)
        return float(np.mean(1 - ratio))

    def reset(self) -> None:
        self.sums = self.origin = None

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums, "origin": self.origin}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums, self.origin = (None if state[key] is None else np.asarray(state[key]) for key in ("sums", "origin"))


class AllOutputs:
    """Collects all outputs and targets of the epoch, and calls ``metric(outputs, targets)`` on them."""

    def __init__(self, metric: Callable[[Any, Any], Any], name: str) -> None:
        self.metric, self.name = metric, name
        self.batches: list[tuple[Any, Array]] = []

    def add(self, outputs: Any, targets: Array) -> None:
        self.batches.append((outputs, targets))

    def result(self) -> float:
        if not self.batches:
            return math.nan
        value = self.metric(*self._joined())
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"metric {self.name!r} gave {type(value).__name__}; a metric gives a number") from error

    def _joined(self) -> tuple[Any, Array]:
        outputs, targets = zip(*self.batches)
        if isinstance(outputs[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*outputs)), np.concatenate(targets)
        return np.concatenate(outputs), np.concatenate(targets)

    def reset(self) -> None:
        self.batches = []

    def state_dict(self) -> dict[str, Any]:
        if not self.batches:
            return {}
        outputs, targets = self._joined()
        return {"outputs": list(outputs) if isinstance(outputs, tuple) else outputs, "targets": targets}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        outputs = state.get("outputs")
        several = isinstance(outputs, (list, tuple))
        self.batches = [] if outputs is None else [(tuple(outputs) if several else outputs, state["targets"])]


def auc(outputs: Array, targets: Array) -> float:
    """Returns the area under the ROC curve by ranks (Mann and Whitney 1947): of two classes or one label by its score,
    else the mean over the classes, each against all others by its probability, or over the labels.

    A class that no sample has, or that all have, is left out; NaN if that leaves none.
    """
    if targets.shape != outputs.shape and outputs.ndim != 1 and targets.size != outputs.size:
        outputs, targets = _rows(outputs, targets)
        logits = outputs.astype(np.float64)
        if logits.shape[1] == 2:
            return _area(logits[:, 1] - logits[:, 0], targets == 1)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        areas = [_area(shares[:, place], targets == place) for place in range(shares.shape[1])]
    else:
        scores, truth = outputs.reshape(len(outputs), -1), targets.reshape(len(targets), -1) > 0.5
        areas = [_area(scores[:, place], truth[:, place]) for place in range(scores.shape[1])]
    there = [area for area in areas if not math.isnan(area)]
    return float(np.mean(there)) if there else math.nan


def _area(scores: Array, truth: Array) -> float:
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        return math.nan
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places.reshape(-1)]  # equal scores have their mean rank
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))
