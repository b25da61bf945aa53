"""Facts of a run that its model file keeps for ``netcl predict``: task, classes, the table, and the scale of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl import data
from netcl.trainer.class_names import class_names
from netcl.trainer.cli.tables import FittedTable, encoding_of_numbers
from netcl.trainer.named_metrics import are_labels

__all__ = ["describe"]


def describe(loss: Any, dataset: Any, fitted: FittedTable | None) -> dict[str, Any]:
    """Returns plain values: ``task``, ``classes``, ``table`` (a TableEncoding), or ``shape``, ``mean`` and ``std`` of
    an input.
    """
    if fitted is not None:
        about = fitted.about
        return about if fitted.encoding.classes is None else {**about, "classes": fitted.encoding.classes}
    # None is the cross entropy of the Trainer.
    classes = loss is None or getattr(loss, "__name__", "") in ("cross_entropy", "nll_loss", "token_cross_entropy")
    about = {"task": "classification" if classes else "multilabel" if are_labels(loss) else "regression"}
    names = class_names(dataset)
    if names is not None:
        about["classes"] = names
    mean, std = getattr(dataset, "mean", None), getattr(dataset, "std", None)
    whole = dataset
    while getattr(whole, "dataset", None) is not None:
        whole = whole.dataset
    if type(whole) is data.CSVDataset and len(whole.arrays) == 2:
        outputs = int(whole.arrays[1].max()) + 1 if classes and whole.arrays[1].dtype.kind in "iu" else None
        if names is not None or outputs is not None or not classes:
            about["table"] = encoding_of_numbers(whole, mean, std, outputs).to_dict()
        return about
    about["mean"], about["std"] = mean, std
    shape = _shape(whole)
    if shape is not None:
        about["shape"] = shape
    return about


def _shape(dataset: Any) -> list[int] | None:
    """Returns the shape of an input, without drawing random numbers; None if it is not known."""
    arrays = getattr(dataset, "arrays", None)
    if arrays is not None and len(arrays):
        return [int(size) for size in arrays[0].shape[1:]]
    if isinstance(dataset, data.ImageFolder) and dataset.transform is None:
        return list(np.shape(dataset[0][0]))
    return None
