"""The keys under which calls of rows are looked up: equal for calls that one program, and one launch, serve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netcl.core.ops_table.table import OpRow
from netcl.core.tensor.data import TensorData

_STATIC = frozenset((int, bool, str, type(None)))


def call_key(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the key of a call of an expression row, or of one that is a product: all that its program depends on, and
    the values of attributes. Operands that are numbers count by type. None if the call cannot be looked up.
    """
    if len(args) == 2 and not kwargs:
        a, b = args
        if isinstance(a, TensorData) and isinstance(b, TensorData):
            return row, a.engine, a.shape, a.dtype, b.engine, b.shape, b.dtype
    count = len(row.operands)
    if len(args) < count:
        return None
    key: list[Any] = [row]
    for value in args[:count]:
        if isinstance(value, TensorData):
            key += (value.engine, value.shape, value.dtype)
        elif value is None:
            key.append(None)
        elif type(value) is float or type(value) is int:
            key.append(type(value))
        else:
            return None
    return _with_values(key, args[count:], kwargs)


def program_key(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the same for a call of a row of ``program_row``: tensors and the values of its launch scalars."""
    if kwargs.keys() != {"scalars"}:
        return None
    key: list[Any] = [row]
    for value in args:
        if not isinstance(value, TensorData):
            return None
        key += (value.engine, value.shape, value.dtype)
    return _with_values(key, tuple(kwargs["scalars"].values()), {})


def _with_values(key: list[Any], values: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns ``key`` with the values of attributes and their types, as True and 1 are equal; None if one is not
    hashable or may be changed.
    """
    for value in values:
        if type(value) in _STATIC:
            key += (type(value), value)
        elif not _add_number_or_tuple(key, value):
            return None
    for name, value in kwargs.items():
        key.append(name)
        if type(value) in _STATIC:
            key += (type(value), value)
        elif not _add_number_or_tuple(key, value):
            return None
    return tuple(key)


def _add_number_or_tuple(key: list[Any], value: Any) -> bool:
    """Adds a float (-0.0 is not 0.0) or a tuple of ints to the key; False if ``value`` is neither, or NaN."""
    if type(value) is float:
        key += (float, value if value else math.copysign(1.0, value), not value)
        return value == value
    if type(value) is tuple and all(type(each) is int for each in value):
        key += (tuple, value)
        return True
    return False
