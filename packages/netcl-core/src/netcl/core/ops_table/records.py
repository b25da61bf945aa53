"""Records of calls: what a call leaves for later calls with its key, which is equal for calls that one program, one
plan of launches and one kind of gradient node serve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from netcl.core.dtypes import DType
from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.tensor.data import TensorData

__all__ = ["Record", "known", "records"]

_STATIC = frozenset((int, bool, str, type(None), DType))
_INT = frozenset((int,))
_RECORDS_MAX = 8192


def once(args: tuple[Any, ...]) -> None:
    """Stands for the function of a call that was computed once at most."""


class Record:
    """The record of calls with one key. All threads share it, and it holds no tensor.

    ``again(args)`` repeats the call: it returns the result, or None if the call needs the full path. An engine makes it
    when the call is computed for the second time, as attributes, which are keys by value, may differ from call to call.
    ``binding`` is of an expression row: its program, the places of its tensors, its scalars, and the scalars that are
    numbers among the arguments, by name and place. ``nodes`` has what netcl-autograd needs to make the gradient node of
    a call, by the operands that require grad.
    """

    __slots__ = ("again", "binding", "computed", "nodes")

    def __init__(self) -> None:
        self.again: Callable[[tuple[Any, ...]], Any] = once
        self.binding: tuple[Any, tuple[int, ...], dict[str, float | int], tuple[tuple[str, int], ...]] | None = None
        self.computed: bool = False
        self.nodes: dict[Any, Any] = {}


records: dict[Any, Record] = {}


def known(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Record | None:
    """Returns the record of a call, a new one if it is the first with its key; None if the call cannot be repeated."""
    key = call_key(row, args, kwargs) if row.name in TABLE else program_key(row, args, kwargs)
    record = records.get(key)
    if record is None and key is not None:
        if len(records) >= _RECORDS_MAX:
            records.clear()
        record = records[key] = Record()
    return record


def call_key(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the key of a call: what its program, or its gradient, depends on, and the values of attributes. Operands
    of expressions that are numbers count by type. None if the call cannot be looked up.
    """
    if not kwargs and len(args) <= 2:
        if len(args) == 2:
            a, b = args
            if isinstance(a, TensorData) and isinstance(b, TensorData):
                return row, a.engine, a.shape, a.dtype, b.engine, b.shape, b.dtype
        elif len(args) == 1 and len(row.operands) == 1 and isinstance(args[0], TensorData):
            (a,) = args
            return row, a.engine, a.shape, a.dtype
    if row.expression is None:
        return _computed_key(row, args, kwargs)
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


def _computed_key(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the key of a call of a computed row: tensors stand for their shapes and dtypes only as operands."""
    key: list[Any] = [row]
    for place, value in enumerate(args):
        if isinstance(value, TensorData):
            if place >= len(row.operands) and not row.open or not row.leading:
                return None
            key += (value.engine, value.shape, value.dtype)
        elif type(value) in _STATIC:
            key += (type(value), value)
        elif not _add_number_or_tuple(key, value):
            return None
    for name, value in kwargs.items():
        key.append(name)
        if isinstance(value, TensorData):
            if name not in row.operands or name == "out":
                return None
            key += (value.engine, value.shape, value.dtype)
        elif type(value) in _STATIC:
            key += (type(value), value)
        elif not _add_number_or_tuple(key, value):
            return None
    return tuple(key)


def program_key(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the same for a call of a row of ``program_row``: tensors and the values of its launch scalars."""
    if len(kwargs) != 1 or "scalars" not in kwargs:
        return None
    key: list[Any] = [row]
    for value in args:
        if not isinstance(value, TensorData):
            return None
        key += (value.engine, value.shape, value.dtype)
    scalars = kwargs["scalars"]
    return _with_values(key, tuple(scalars.values()), {}) if scalars else tuple(key)


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
    if type(value) is tuple and _INT.issuperset(map(type, value)):
        key += (tuple, value)
        return True
    return False
