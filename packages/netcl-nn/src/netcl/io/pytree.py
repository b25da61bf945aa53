"""States as pytrees: nested dicts and lists of plain values, tensors and arrays, flattened for a file and restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.io.archive import Entry, entry_of


def flatten(value: Any, path: str, entries: list[Entry]) -> Any:
    """Returns ``value`` as JSON; tensors and arrays are appended to ``entries`` under keys that begin with ``path``.
    Raises TypeError for anything else.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Tensor, np.ndarray)):
        entries.append(entry_of(path, value))
        return {"array": path}
    if isinstance(value, Mapping):
        items = []
        for key, item in value.items():
            if not isinstance(key, (str, int)):
                raise TypeError(
                    f"{path}: expected texts and whole numbers as keys of a state, got {type(key).__name__}"
                )
            items.append([key, flatten(item, f"{path}/{key}", entries)])
        return {"dict": items}
    if isinstance(value, (list, tuple)):
        items = [flatten(item, f"{path}/{number}", entries) for number, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    raise TypeError(f"{path}: a {type(value).__name__} cannot be saved; a state has plain values, tensors and arrays")


def unflatten(value: Any, array: Callable[[str], Any]) -> Any:
    """Returns the pytree that ``flatten`` wrote, with ``array(key)`` for each array. Raises ValueError for malformed
    JSON.
    """
    if isinstance(value, list):
        return [unflatten(item, array) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return array(value["array"])
    if set(value) == {"tuple"}:
        return tuple(unflatten(item, array) for item in value["tuple"])
    if set(value) == {"dict"}:
        return {key: unflatten(item, array) for key, item in value["dict"]}
    raise ValueError(f"{sorted(value)} is no part of a state")
