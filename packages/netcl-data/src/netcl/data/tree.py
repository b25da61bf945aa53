"""Maps over the nested tuples, lists and dicts of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["first_field", "map_type", "rebuild", "replace_first"]


def rebuild(like: Any, values: list[Any]) -> Any:
    """Returns a tuple, named tuple or list of the same type as ``like`` with ``values``."""
    if hasattr(like, "_fields"):
        return type(like)(*values)
    return values if isinstance(like, list) else tuple(values)


def map_type(function: Callable[[Any], Any], kind: type, tree: Any) -> Any:
    """Returns ``tree`` with ``function`` applied to each leaf of type ``kind``; other leaves are kept."""
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: map_type(function, kind, value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return rebuild(tree, [map_type(function, kind, value) for value in tree])
    return tree


def first_field(record: Any) -> Any:
    """Returns the input of a sample or batch: the first field of a tuple or list, else the record itself."""
    return record[0] if isinstance(record, (tuple, list)) and record else record


def replace_first(record: Any, value: Any) -> Any:
    """Returns ``record`` with its input replaced by ``value``."""
    if isinstance(record, (tuple, list)) and record:
        return rebuild(record, [value, *record[1:]])
    return value
