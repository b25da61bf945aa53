"""Outputs of a model as pytrees: nested lists, tuples and dicts of tensors, flatten and restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netcl.core import Tensor


class _Leaf:
    """Placeholder of a tensor."""


def flatten(value: Any, tensors: list[Tensor], only_tensors: bool = False) -> Any:
    """Returns the structure of nested lists, tuples and dicts; their tensors are appended to ``found``.

    Other values are parts of the structure; with ``only_tensors`` they raise TypeError.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Leaf()
    if isinstance(value, dict):
        return {key: flatten(item, tensors, only_tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [flatten(item, tensors, only_tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if only_tensors:
        raise TypeError(f"expected tensors, and tuples, lists and dicts of them, got {type(value).__name__}")
    return value


def unflatten(form: Any, tensors: Iterator[Tensor]) -> Any:
    """Returns the structure with ``tensors`` in place of the placeholders, in the order of ``flatten``."""
    if isinstance(form, _Leaf):
        return next(tensors)
    if isinstance(form, dict):
        return {key: unflatten(item, tensors) for key, item in form.items()}
    if isinstance(form, (list, tuple)):
        items = [unflatten(item, tensors) for item in form]
        return type(form)(*items) if hasattr(form, "_fields") else type(form)(items)
    return form
