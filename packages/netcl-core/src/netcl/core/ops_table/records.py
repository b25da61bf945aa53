"""Records of calls: what a call leaves for later calls with its key, which is equal for calls that one program, one
plan of launches and one kind of gradient node serve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from netcl.core.dtypes import DType
from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.storage.data import TensorData
from netcl.core.storage.size import Shape, Size

_STATIC = frozenset((int, bool, str, type(None), DType))
_INT = frozenset((int,))
_SEQUENCES = frozenset((tuple, list, Size, Shape))
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
            kind = type(b)
            if (
                (kind is int or kind is float)
                and isinstance(a, TensorData)
                and row.expression
                and len(row.operands) == 2
            ):
                return row, a.engine, a.shape, a.dtype, kind
        elif len(args) == 1 and len(row.operands) == 1 and isinstance(args[0], TensorData):
            (a,) = args
            return row, a.engine, a.shape, a.dtype
    if row.expression is None:
        return _with_values([row], args, kwargs, row)
    count = len(row.operands)
    if any(kwargs.get(name) is not None for name in row.operands[len(args) :]):
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
    if len(kwargs) != 1 or "scalars" not in kwargs:
        return None
    key: list[Any] = [row]
    for value in args:
        if not isinstance(value, TensorData):
            return None
        key += (value.engine, value.shape, value.dtype)
    scalars = kwargs["scalars"]
    return _with_values(key, tuple(scalars.values()), {}) if scalars else tuple(key)


def _with_values(key: list[Any], values: tuple[Any, ...], kwargs: Mapping[str, Any], row: OpRow | None = None) -> Any:
    """Returns ``key`` with values and keywords; None if one is unhashable, mutable, or a tensor but no operand."""
    places = 0 if row is None or not row.leading else len(values) if row.open else len(row.operands)
    for place, value in enumerate(values):
        kind = type(value)
        if kind in _STATIC or (kind is tuple and _INT.issuperset(map(type, value))):
            key += (kind, value)
        elif place < places and isinstance(value, TensorData):
            key += (value.engine, value.shape, value.dtype)
        elif not _added(key, value, place < places):
            return None
    for name, value in kwargs.items():
        kind = type(value)
        plain = bool(value) and value == value if kind is float else kind in _STATIC
        if plain or (kind is tuple and _INT.issuperset(map(type, value))):
            key += (name, kind, value)
        else:
            key.append(name)
            if not _added(key, value, row is not None and name in row.operands and name != "out"):
                return None
    return tuple(key)


def _added(key: list[Any], value: Any, operand: bool) -> bool:
    """Adds a value with its type, as True and 1 are equal: a number (-0.0 is not 0.0), ints in a tuple or a list, or
    for a tensor that is an operand its shape and dtype. Returns False if ``value`` is none of these, or NaN.
    """
    kind = type(value)
    if kind in _STATIC:
        key += (kind, value)
    elif kind is float:
        key += (float, value if value else math.copysign(1.0, value), not value)
        return not math.isnan(value)
    elif kind in _SEQUENCES and _INT.issuperset(map(type, value)):
        key += (kind, tuple(value))
    elif operand and isinstance(value, TensorData):
        key += (value.engine, value.shape, value.dtype)
    else:
        return False
    return True
