"""Means, variances and standardized values as expressions, the parts of normalizations and their gradients."""

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
    """Returns x in the dtype of its statistics: float32 at least."""
    return x if x.dtype in ("float32", "float64") else cast(x, "float32")


def squared_deviations(value: Expr, axes: tuple[int, ...]) -> tuple[Expr, Expr]:
    """Returns the mean over ``axes`` and the sum of (x - mean)^2, in two passes.

    The rounding of the mean is taken out of the sum: of exact deviations, sum(x - mean)^2 / n is zero, and so is its
    gradient (Chan, Golub and LeVeque 1983, the corrected two-pass algorithm).
    """
    average = mean(value, axes)
    deviation = value - average
    total, rest = reduce("sum", deviation * deviation, axes), reduce("sum", deviation, axes)
    error = apply("minimum", total, rest * (rest / size_of(axes, value.dtype)))  # never more than is there
    return average, total - apply("stop_gradient", apply("where", apply("isinf", error), 0.0, error))


def moments(value: Expr, axes: tuple[int, ...]) -> tuple[Expr, Expr]:
    """Returns the mean and the biased variance over ``axes``, in two passes; GPUs fuse them for pieces of long rows."""
    average = mean(value, axes)
    deviation = value - average
    return average, reduce("sum", deviation * deviation, axes) / size_of(axes, value.dtype)


def standardized(x: Expr, axes: tuple[int, ...], eps: Expr) -> Standardized:
    """Returns x standardized over ``axes``, in float32 at least. As expressions are interned, the gradient of a row
    that uses it finds ``value`` in the row's outputs.
    """
    wide = widened(x)
    average, var = moments(wide, axes)
    scale = apply("rsqrt", var + eps)
    return Standardized((wide - average) * scale, scale, average, var)
