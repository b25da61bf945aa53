"""Facts of a run that its model file keeps for ``netcl predict``: task, classes, the table, and the scale of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl import data, io
from netcl.trainer.class_names import class_names
from netcl.trainer.cli.tables import FittedTable, encoding_of_numbers
from netcl.trainer.named_metrics import are_labels


def describe(loss: Any, dataset: Any, fitted: FittedTable | None) -> dict[str, Any]:
    """Returns plain values: ``task``, ``classes``, ``table`` (a TableEncoding), or ``shape``, ``mean`` and ``std`` of
    an input.
    """
    if fitted is not None:
        classes = fitted.encoding.classes
        return fitted.about if classes is None else {**fitted.about, "classes": classes}
    # None is the cross entropy of the Trainer.
    of_classes = loss is None or getattr(loss, "__name__", "") in ("cross_entropy", "nll_loss", "token_cross_entropy")
    about: dict[str, Any] = {
        "task": "classification" if of_classes else "multilabel" if are_labels(loss) else "regression"
    }
    names = class_names(dataset)
    if names is not None:
        about["classes"] = names
    mean, std = getattr(dataset, "mean", None), getattr(dataset, "std", None)
    whole = dataset
    while getattr(whole, "dataset", None) is not None:
        whole = whole.dataset
    if type(whole) is data.CSVDataset and len(whole.arrays) == 2:
        outputs = int(whole.arrays[1].max()) + 1 if of_classes and whole.arrays[1].dtype.kind in "iu" else None
        if names is not None or outputs is not None or not of_classes:
            about["table"] = encoding_of_numbers(whole, mean, std, outputs).to_dict()
        return about
    about["mean"], about["std"] = mean, std
    shape = _shape(whole)
    if shape is not None:
        about["shape"] = shape
    return about


def checked(about: Any, path: str) -> dict[str, Any]:
    """Returns the facts of a model file. Raises CheckpointError if they are not as ``describe`` writes them."""
    facts: dict[str, Any] = dict(about or {})
    kinds = {"task": str, "classes": list, "reading": dict, "shape": list, "mean": list, "std": list}
    for name, kind in kinds.items():
        if facts.get(name) is not None and not isinstance(facts[name], kind):
            raise io.CheckpointError(f"its {name} cannot be used: {str(facts[name])[:80]!r}", path)
    for name in ("mean", "std"):
        values = facts.get(name) or []
        if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            raise io.CheckpointError(f"its {name} must be numbers, got {str(values)[:80]}", path)
    means, deviations = facts.get("mean"), facts.get("std")
    if (means is None) != (deviations is None) or len(means or []) != len(deviations or []) or 0 in (deviations or []):
        raise io.CheckpointError("its mean and std do not fit each other", path)
    return facts


def _shape(dataset: Any) -> list[int] | None:
    """Returns the shape of an input, without drawing random numbers; None if it is not known."""
    arrays = getattr(dataset, "arrays", None)
    if arrays is not None and len(arrays):
        return [int(size) for size in arrays[0].shape[1:]]
    if isinstance(dataset, data.ImageFolderArrays) and dataset.transform is None:
        return list(np.shape(dataset[0][0]))
    return None
