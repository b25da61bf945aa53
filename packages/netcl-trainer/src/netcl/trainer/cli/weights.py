"""``class_weights`` of [trainer]: weights of the classes, given or balanced by the samples of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.trainer.class_names import class_names
from netcl.trainer.cli.config import Table, nearest
from netcl.trainer.cli.tables import FittedTable


def class_weights(table: Table, weights: Any, dataset: Any, fitted: FittedTable | None) -> list[float]:
    """Returns the weights of ``class_weights = "balanced"``, a list of numbers, or a table of names and numbers.

    Balanced: samples / (classes * samples of the class). Raises ConfigFileError for anything else, an unknown class, or
    a data set that must be read to know its targets.
    """
    names = fitted.encoding.classes if fitted is not None else class_names(dataset)
    if weights == "balanced":
        if fitted is not None:
            try:
                return fitted.encoding.weights()
            except ValueError as error:
                raise table.error(str(error), "class_weights") from error
        targets = _targets(dataset)
        if targets is None:
            raise table.error("this data set has no list of targets: write a list of numbers", "class_weights")
        counts = np.bincount(targets)
        return [len(targets) / (len(counts) * max(1, int(count))) for count in counts]
    if isinstance(weights, dict) and names is not None:
        unknown = next((name for name in weights if name not in names), None)
        if unknown is not None:
            raise table.error(f"class_weights: unknown class {unknown!r}{nearest(unknown, names)}", "class_weights")
        weights = [weights.get(name, 1.0) for name in names]
    if not isinstance(weights, list) or not all(_is_weight(value) for value in weights):
        raise table.error(
            f'class_weights must be "balanced", a list of numbers or a table of classes, got {weights!r}',
            "class_weights",
        )
    if names is not None and len(weights) != len(names):
        raise table.error(f"class_weights has {len(weights)} numbers for {len(names)} classes", "class_weights")
    return [float(value) for value in weights]


def _is_weight(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _targets(dataset: Any) -> Any:
    """Returns the class ids of a data set of arrays or files, also within Subset; None for another one."""
    indices = getattr(dataset, "indices", None)
    inner = getattr(dataset, "dataset", None)
    if inner is not None:
        targets = _targets(inner)
        return targets if targets is None or indices is None else targets[np.asarray(indices)]
    arrays, samples = getattr(dataset, "arrays", None), getattr(dataset, "samples", None)
    if arrays is not None and len(arrays) > 1:
        targets = np.asarray(arrays[-1])
    elif isinstance(samples, list) and samples and isinstance(samples[0], tuple):
        targets = np.array([sample[-1] for sample in samples])
    else:
        return None
    return targets if targets.ndim == 1 and targets.dtype.kind in "iu" and targets.min() >= 0 else None
