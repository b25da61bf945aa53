"""Writes in place."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from netcl_core_kit import gradients
from netcl_core_kit.dispatch import _core, before_write
from netcl_core_kit.dtypes import kind
from netcl_core_kit.errors import BackendMismatchError, DTypeError, ShapeError, UnsupportedError
from netcl_core_kit.layout import broadcast_shapes

__all__ = ["DATA", "check_copy", "check_writable", "copy", "fill", "write"]

# The mark, as given to `set_view`, of a tensor that `data` returned.
DATA = object()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _core.tensor)


def _as_tensor(target: Any, value: Any, dtype: str | None = None) -> Any:
    if _is_tensor(value):
        if value.engine is not target.engine:
            raise BackendMismatchError(
                f"a tensor on {value.engine.device_label} is written into one on {target.engine.device_label}; move it"
            )
        return value
    return type(target).from_host(target.queue, value, dtype)


def check_writable(target: Any) -> None:
    """UnsupportedError if elements of ``target`` share memory with each other."""
    if target._overlaps():
        raise UnsupportedError(
            "a write in place into an expanded tensor, whose elements share memory; write into a clone() of it"
        )


def check_copy(target: Any, source: Any, what: str = "assign") -> None:
    """ShapeError unless ``source`` broadcasts to ``target``."""
    try:
        fits = broadcast_shapes((target.shape, source.shape)) == target.shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"{what}: shapes {source.shape} and {target.shape} of the target do not broadcast")


def _store(target: Any, value: Any, replaces: bool) -> Any:
    with gradients.writing(target, value, replaces) as kept:
        check_writable(target)
        before_write(target, kept)
        target._store(kept)
    return target


def write(target: Any, value: Any) -> Any:
    """Gives ``target`` the values of ``value``, the result of an op on it, in place; returns ``target``."""
    given = value if _is_tensor(value) or isinstance(value, np.ndarray) else np.asarray(value)
    if not _is_tensor(given) and isinstance(value, numbers.Number):
        given = np.asarray(value, np.float32 if isinstance(value, float) else None)
    value = _as_tensor(target, given)
    check_copy(target, value, "write")
    of, to = kind(value.dtype), kind(target.dtype)
    if of > to:
        raise DTypeError(
            f"a {value.dtype} result cannot be stored in a {target.dtype} tensor in place; write x = ... instead"
        )
    return _store(target, value, False)


def copy(target: Any, source: Any, what: str = "copy_") -> Any:
    """Copies ``source`` into ``target`` in place, converted from any dtype; returns ``target``."""
    if not _is_tensor(source):
        dtype = target.dtype if isinstance(source, (numbers.Number, bool)) else None
        source = _as_tensor(target, source, dtype)
    elif source.engine is not target.engine:
        source = source.to(target.queue)
    check_copy(target, source, what)
    return _store(target, source, True)


def fill(target: Any, value: Any) -> Any:
    """Sets every element of ``target`` to the number ``value`` in place."""
    return copy(target, value, "fill_")
