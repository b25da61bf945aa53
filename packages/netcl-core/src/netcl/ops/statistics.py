"""Covariances, correlations, renormalized slices and histograms with equal bins."""

from __future__ import annotations

import warnings
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating, promote
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Expr, apply
from netcl.core.layout import normalize_axes
from netcl.core.ops_table.dispatch import Space
from netcl.core.process.user_frame import level_outside
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.elementwise import cast, clamp, div, mul, sqrt, sub
from netcl.ops.linalg import matmul
from netcl.ops.matrix import diagonal
from netcl.ops.reduce import mean, p_norm
from netcl.ops.reduce import sum as sum_of
from netcl.ops.search import histogram
from netcl.ops.shape import reshape
from netcl.ops.table import METHOD, WRITTEN, composite, computed, engine_of, expression

# -- covariance --------------------------------------------------------------------------------------------------------


def _cov_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-2, 2, (3, 7)),), {}
    yield (rng.uniform(-2, 2, 7),), {"correction": 0}
    yield (rng.uniform(-2, 2, (2, 1)),), {"correction": 0}


def _weights(op: str, name: str, x: Tensor, weights: Tensor | None, floating: bool) -> None:
    if weights is None:
        return
    if weights.ndim > 1 or weights.size != x.shape[-1]:
        raise ShapeError(f"{op}: {name} {weights.shape} for {x.shape[-1:]} observations", parameter=name)
    if is_floating(weights.dtype) != floating or weights.dtype == "bool":
        raise DTypeError(f"{op}: expected {'floats' if floating else 'whole numbers'} as {name}, got {weights.dtype}")


@composite(amp="float32", domain=compared(_cov_cases, lambda x, correction=1: np.cov(x, ddof=correction)), forms=METHOD)
def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Returns the covariances of the rows of x (variables, observations): (variables, variables); 0-d for a vector or
    one row.

    The divisor is n - ``correction``. ``fweights`` (whole numbers) count, ``aweights`` weigh the observations. Warns if
    the divisor is not positive, and divides by zero, as PyTorch does.
    """
    engine_of("cov", x, fweights, aweights)
    if x.ndim > 2:
        raise ShapeError(f"cov: expected (variables, observations) or a vector, got shape {x.shape}")
    rows = reshape(x, (1, -1)) if x.ndim < 2 else x
    _weights("cov", "fweights", rows, fweights, False)
    _weights("cov", "aweights", rows, aweights, True)
    rows = cast(rows, dtype=promote(rows.dtype, float if aweights is None else aweights.dtype))
    given = [reshape(vector, (-1,)) for vector in (fweights, aweights) if vector is not None]
    weighting = [cast(vector, dtype=rows.dtype) for vector in given]
    if not weighting:
        divisor: Any = max(rows.shape[1] - correction, 0)
        if divisor == 0:
            warnings.warn(
                f"cov: {rows.shape[1]} observations less correction {correction} leave no divisor",
                stacklevel=level_outside(),
            )
        centred = sub(rows, mean(rows, 1, keepdims=True))
        weighted = centred
    else:
        weights = weighting[0] if len(weighting) == 1 else mul(weighting[0], weighting[1])
        total = sum_of(weights)
        centred = sub(rows, div(sum_of(mul(rows, weights), 1, keepdims=True), total))
        weighted = mul(centred, weights)
        share = correction
        if aweights is not None and correction:
            share = mul(div(sum_of(mul(weights, weighting[-1])), total), correction)
        divisor = clamp(sub(total, share), min=0.0)
    result = div(matmul(centred, weighted, transpose_b=True), divisor if weighting else float(divisor))
    return reshape(result, ()) if rows.shape[0] == 1 else result  # type: ignore[no-any-return]


@composite(
    amp="float32", domain=compared(lambda rng: iter([((rng.uniform(-2, 2, (3, 7)),), {})]), np.corrcoef), forms=METHOD
)
def corrcoef(x: Tensor) -> Tensor:
    """Returns the correlations of the rows of x (variables, observations), in [-1, 1]; 1, 0-d, for a vector."""
    c = cov(x)
    if c.ndim == 0:
        return div(c, c)  # type: ignore[no-any-return]
    deviations = sqrt(diagonal(c))
    scaled = div(div(c, reshape(deviations, (-1, 1))), reshape(deviations, (1, -1)))
    return clamp(scaled, min=-1.0, max=1.0)  # type: ignore[no-any-return]


# -- norms of slices ---------------------------------------------------------------------------------------------------


def _renorm(x: Any, p: float, axis: int, maxnorm: float) -> Any:
    others = tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    size = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return np.where(size > maxnorm, x * maxnorm / (size + 1e-7), x)


def _renorm_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-2, 2, (4, 5)),), {"p": 2, "axis": 0, "maxnorm": 1.5}
    yield (rng.uniform(-1, 1, (2, 3, 4)),), {"p": 1, "axis": -1, "maxnorm": 2.9}


@expression(name="renormed", amp="float32", domain=compared(_renorm_cases, _renorm, second=False))
def renormed(x: Expr, p: Any, axis: int, maxnorm: Any, *, space: Space) -> Expr:
    """Returns ``renorm`` of checked arguments."""
    at = space.axis(axis)
    size = p_norm(x, p, tuple(a for a in range(space.rank) if a != at), space)
    return apply("where", size > maxnorm, x * (maxnorm / (size + 1e-7)), x)


@composite(amp="float32", domain=compared(_renorm_cases, _renorm, second=False), forms=WRITTEN)
def renorm(x: Tensor, p: float, axis: int, maxnorm: float) -> Tensor:
    """Returns x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
    engine_of("renorm", x)
    if not is_floating(x.dtype):
        raise DTypeError(f"renorm: expected floating dtypes, got {x.dtype}; convert with astype")
    if x.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ShapeError(
            f"renorm: expected two axes or more, p > 0 and maxnorm >= 0, got {x.shape}, p {p}, maxnorm {maxnorm}"
        )
    normalize_axes(axis, x.ndim, "renorm")
    return renormed(x, p, axis, float(maxnorm))  # type: ignore[no-any-return]


# -- histogram ---------------------------------------------------------------------------------------------------------


def _histc_cases(rng: np.random.Generator) -> Any:
    x = (rng.integers(0, 40, (7, 31)) + 0.5) / 10
    yield (x,), {"bins": 4, "min": 0, "max": 4}
    yield (x,), {"bins": 4, "min": 1, "max": 3}
    yield (np.append(x, [0.0, 4.0]),), {"bins": 8}


@computed(
    dtypes="floating",
    domain=compared(
        _histc_cases,
        lambda x, bins=100, min=0, max=0: np.histogram(x, bins, None if min == max else (min, max))[0] * 1.0,
        gradient=False,
    ),
    forms=METHOD,
)
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Returns the number of elements in each of ``bins`` equal bins from ``min`` to ``max``, in x's dtype: (bins,).

    Of equal min and max the range is the elements'. The last bin includes its upper edge; elements outside are
    not counted. Raises ValueError for no bins, or a min above max.
    """
    if as_index(bins) < 1 or not min <= max:
        raise ArgumentError(f"histc: expected bins from 1 and min at most max, got bins {bins}, min {min}, max {max}")
    counts, _ = histogram(x, bins=as_index(bins), range=None if min == max else (float(min), float(max)))
    return cast(counts, dtype=x.dtype)  # type: ignore[no-any-return]
