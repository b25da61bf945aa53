"""The forms that outputs of a model come in: nested lists, tuples and dicts, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netcl.core import Tensor

__all__ = ["flattened", "rebuilt"]


class _Place:
    """Where a tensor was."""


def flattened(value: Any, found: list[Tensor]) -> Any:
    """The form of nested lists, tuples and dicts, whose tensors go to ``found``."""
    if isinstance(value, Tensor):
        found.append(value)
        return _Place()
    if isinstance(value, dict):
        return {key: flattened(item, found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [flattened(item, found) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def rebuilt(form: Any, tensors: Iterator[Tensor]) -> Any:
    """The form with ``tensors`` in their places, in the order in which ``flattened`` found them."""
    if isinstance(form, _Place):
        return next(tensors)
    if isinstance(form, dict):
        return {key: rebuilt(item, tensors) for key, item in form.items()}
    if isinstance(form, (list, tuple)):
        items = [rebuilt(item, tensors) for item in form]
        return type(form)(*items) if hasattr(form, "_fields") else type(form)(items)
    return form
