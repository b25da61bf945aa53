"""Keys of ``x[key]``."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_array", "spread"]


def is_array(item: Any) -> bool:
    """True if an entry of a key is a mask or has indices."""
    return isinstance(item, (np.ndarray, list)) or hasattr(item, "ndim") and not isinstance(item, np.generic)


def spread(op: str, key: Any, shape: tuple[int, ...]) -> list[Any]:
    """The key as one entry per axis, with Nones in between; lists become arrays. IndexError if it has too many."""
    given = list(key) if isinstance(key, tuple) else [key]
    items = []
    for one in given:
        if isinstance(one, (list, tuple)):
            one = np.asarray(one) if len(one) else np.zeros(0, np.int64)
        if isinstance(one, (bool, np.bool_)):
            one = np.asarray(one)
        items.append(one)

    def used(item: Any) -> int:
        if item is None or item is Ellipsis:
            return 0
        if is_array(item) and str(item.dtype) == "bool":
            return item.ndim  # type: ignore[no-any-return]
        return 1

    rest = len(shape) - sum(map(used, items))
    dots = [place for place, one in enumerate(items) if one is Ellipsis]
    if rest < 0:
        raise IndexError(f"{op}: a key of {len(items)} entries for shape {shape}")
    if len(dots) > 1:
        raise IndexError(f"{op}: a key has one Ellipsis at most")
    fill = [slice(None)] * rest
    return items[: dots[0]] + fill + items[dots[0] + 1 :] if dots else items + fill
