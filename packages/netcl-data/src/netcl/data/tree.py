"""Maps over the nested tuples, lists and dicts of a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any


def rebuild(like: Any, values: list[Any]) -> Any:
    """Returns a tuple, named tuple or list of the same type as ``like`` with ``values``; attributes of a subclass of
    list are kept. Returns a list or tuple if the type cannot be made so.
    """
    if hasattr(like, "_fields"):
        return type(like)(*values)
    plain = values if isinstance(like, list) else tuple(values)
    if type(like) in (list, tuple):
        return plain
    try:
        if isinstance(like, list):
            copied = copy.copy(like)
            copied[:] = values
            return copied
        other = type(like)(values)
        # A constructor may take the items one by one.
        return other if len(other) == len(values) else plain
    except TypeError:
        return plain


def rebuild_mapping(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Returns a mapping of the same type as ``like`` with ``values``, which has its keys; a dict if the type cannot be
    made so.
    """
    if type(like) is dict:
        return values
    try:
        if not isinstance(like, MutableMapping):
            return type(like)(values)  # type: ignore[call-arg]
        copied = copy.copy(like)
        copied.update(values)
        return copied
    except TypeError:
        return values


def map_type(function: Callable[[Any], Any], kind: type, tree: Any) -> Any:
    """Returns ``tree`` with ``function`` applied to each leaf of type ``kind``; other leaves are kept, and the types of
    the containers.
    """
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, Mapping):
        return rebuild_mapping(tree, {key: map_type(function, kind, value) for key, value in tree.items()})
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
