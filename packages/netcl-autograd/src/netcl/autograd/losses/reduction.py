"""Reductions that losses share: ``mean``, ``sum`` or ``none`` over elements or rows, and their final shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.core.expr import Expr, apply, mean, reduce
from netcl.core.ops_table.dispatch import Domain

Shape = tuple[int, ...]
Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


def compared(cases: Callable[[Any], Cases] | None, reference: Callable[..., Any], **more: Any) -> Domain:
    """Returns the domain of a loss that is compared with ``reference`` on samples of its own."""
    return Domain(cases=cases, reference=reference, **more)


def reduced(value: Expr, reduction: str, axes: Sequence[int]) -> Expr:
    """Returns ``value`` averaged or summed over ``axes``, or unchanged; raises ValueError for another ``reduction``."""
    if reduction == "mean":
        return mean(value, axes)
    if reduction == "sum":
        return reduce("sum", value, axes)
    if reduction != "none":
        raise ValueError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    return value


def whole(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Returns the final shape: 0-d, or unchanged with ``reduction="none"``."""
    return shape if attributes["reduction"] == "none" else ()


def per_row(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Returns the final shape: 0-d, or without the last axis with ``reduction="none"``."""
    return shape[:-1] if attributes["reduction"] == "none" else ()


def zero_at_least(value: Expr) -> Expr:
    """Returns max(value, 0), with gradient 0 at 0."""
    return apply("where", value <= 0, 0.0, value)


def averaged(values: Any, reduction: str = "mean") -> Any:
    """Applies ``reduction`` to an array of single values, for the NumPy references."""
    how: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return how[reduction](values)
