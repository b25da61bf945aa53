"""The names of classes: found in the data sets that a loader reads, and kept with the model."""

from __future__ import annotations

from typing import Any

from netcl import nn


def class_names(source: Any) -> list[str] | None:
    """Returns ``classes`` of a data set or of the one behind a loader, also if another wraps it (Subset); None if none
    has it.
    """
    while source is not None:
        names = getattr(source, "classes", None)
        if isinstance(names, (list, tuple)):
            return [str(name) for name in names]
        source = getattr(source, "dataset", None)
    return None


def keep_class_names(model: Any, loader: Any) -> None:
    """Sets ``model.about["classes"]``, which a model file keeps, unless it has some."""
    names = class_names(loader)
    if names is None or not isinstance(model, nn.Module):
        return
    if model.about is None:
        model.about = {}
    model.about.setdefault("classes", names)
