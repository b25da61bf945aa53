"""Warm calls: what repeats an op on arguments of the same description without binding and planning it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.tensor.data import TensorData

if TYPE_CHECKING:
    from netcl.core.ops_table.program import Bound

__all__ = ["described", "keep", "known"]

# ``warm(args)`` returns the result, or None if the call needs the full path. Backends that have such a
# thing have a method ``warm_call``. All threads share it: a warm call is safe in several at once.
known: dict[Any, Callable[[tuple[Any, ...]], Any]] = {}
_MOST = 8192

_STATIC = frozenset((int, bool, str, type(None)))


def described(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The key of a call in ``known``: all that its program depends on. None if a call cannot be looked up."""
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
        elif type(value) is float or type(value) is int:
            key.append(type(value))
        else:
            return None
    # Attributes: floats are launch scalars, and True and 1 are the same key.
    for value in args[count:]:
        if type(value) not in _STATIC:
            return None
        key += (type(value), value)
    for name, value in kwargs.items():
        if type(value) not in _STATIC:
            return None
        key += (name, type(value), value)
    return tuple(key)


def keep(key: Any, row: OpRow, ready: Bound, args: tuple[Any, ...]) -> None:
    """Keeps the warm call of what ``ready`` has just computed."""
    if row.name not in TABLE or not row.leading:  # a program of its own is not called again
        return
    if len(known) >= _MOST:
        known.clear()
    make = getattr(ready.inputs[0].engine, "warm_call", None)
    known[key] = (make and make(ready.program, args[: len(row.operands)], ready.scalars)) or _never


def _never(args: tuple[Any, ...]) -> None:
    """The warm call of what has none."""
