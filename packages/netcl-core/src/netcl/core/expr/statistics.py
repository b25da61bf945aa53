"""Means, variances and standardized values as expressions: what normalizations and their gradients are built of."""

from __future__ import annotations

from typing import NamedTuple

from netcl.core.expr.nodes import Expr, apply, cast, mean, reduce, size_of


class Standardized(NamedTuple):
    """``value`` = (x - mean) * scale with scale = 1 / sqrt(var + eps)."""

    value: Expr
    scale: Expr
    mean: Expr
    var: Expr


def widened(x: Expr) -> Expr:
    """x in the dtype of its statistics: float32 at least."""
    return x if x.dtype in ("float32", "float64") else cast(x, "float32")


def moments(value: Expr, axes: tuple[int, ...]) -> tuple[Expr, Expr]:
    """The mean and the biased variance over ``axes``, in two passes."""
    average = mean(value, axes)
    deviation = value - average
    return average, reduce("sum", deviation * deviation, axes) / size_of(axes, value.dtype)


def standardized(x: Expr, axes: tuple[int, ...], eps: Expr) -> Standardized:
    """x standardized over ``axes``, in float32 at least.

    As expressions are interned, the gradient of a row that uses it finds ``value`` in the row's outputs.
    """
    wide = widened(x)
    average, var = moments(wide, axes)
    scale = apply("rsqrt", var + eps)
    return Standardized((wide - average) * scale, scale, average, var)
