"""Running sums, products, extrema and linear recurrences along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.ranked import Ranked
from netcl.ops.table import METHOD, WRITTEN, as_dtype, computed, engine_of, floating

_LAYOUTS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((7,), 0),
    ((3, 5), -1),
    ((2, 70, 17), 1),
    ((4, 3), 0),
    ((5, 1), -1),
    ((1, 2**16 + 1), 1),
    ((), 0),
    ((0, 3), 0),
    ((3, 0), 0),
)


def _cases(rng: np.random.Generator) -> Cases:
    for shape, axis in _LAYOUTS:
        yield (rng.uniform(-2, 2, shape),), {"axis": axis}
    yield (rng.integers(-9, 9, (3, 5)),), {"axis": 1}
    yield (rng.integers(0, 2, (6, 2)).astype(bool),), {"axis": 0}


def _scanned(kind: str, x: Tensor, other: Tensor | None, axis: int, reverse: bool, op: str) -> Any:
    """Returns the engine's scan; a 0-d tensor is one position."""
    engine = engine_of(op, x)
    (at,) = normalize_axes(axis, max(x.ndim, 1), op)
    if x.ndim:
        return engine.scan(kind, x, other, axis=at, reverse=reverse)
    factors = None if other is None else other._alias((1,))
    results = engine.scan(kind, x._alias((1,)), factors, axis=0, reverse=reverse)
    if isinstance(results, tuple):
        return tuple(result._alias(()) for result in results)
    return results._alias(())


def _accumulated(kind: str, x: Tensor, dtype: Any, axis: int, reverse: bool, op: str) -> Tensor:
    """Returns the scan of ``x`` converted to ``dtype`` (None: its own, int64 for integers and bool), in that dtype.

    Integers are accumulated in int64 and cut to their width, which gives the bits of their own arithmetic.
    """
    engine_of(op, x)
    wanted = canonical(dtype) if dtype is not None else x.dtype if is_floating(x.dtype) else "int64"
    if wanted == "bool":
        raise DTypeError(f"{op}: expected numbers, got bool; write dtype='int64'")
    wide = wanted if is_floating(wanted) else "int64"
    return as_dtype(_scanned(kind, as_dtype(as_dtype(x, wanted), wide), None, axis, reverse, op), wanted)


def _turned(function: Any) -> Any:
    """Makes the reference of a scan that supports ``reverse``."""

    def reference(x: Any, axis: int = 0, reverse: bool = False) -> Any:
        if np.ndim(x) == 0:
            return np.asarray(x)
        return np.flip(function(np.flip(x, axis), axis), axis) if reverse else function(x, axis)

    return reference


def _sum_cases(rng: np.random.Generator) -> Cases:
    yield from _cases(rng)
    yield (rng.uniform(-2, 2, (2, 5)),), {"axis": 1, "reverse": True}
    yield (rng.uniform(-2, 2, (130, 33)),), {"axis": 0, "reverse": True}


@computed(amp="float32", domain=compared(_sum_cases, _turned(np.cumsum)), forms=WRITTEN)
def cumsum(x: Tensor, axis: int, dtype: Any = None, reverse: bool = False) -> Tensor:
    """Returns y[i] = x[0] + .. + x[i] along ``axis``, or x[i] + .. + x[n - 1] with ``reverse``; x's shape.

    x is converted to ``dtype`` first (None: its own, int64 for integers and bool), the dtype of the result. Rounding
    errors of floats are carried along (compensated summation), so that the error of a sum is below one unit in its last
    place, or, if terms cancel, about n times 2**-48 of the sum of their magnitudes (2**-106 in float64).
    """
    return _accumulated("sum", x, dtype, axis, reverse, "cumsum")


def _product_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _cases(rng):
        (x,) = operands
        yield (x if x.dtype.kind != "f" else np.asarray(abs(x) * 0.1 + 0.9),), attributes
    # One zero, two of them, and none, in one tensor.
    x = rng.uniform(0.5, 1.5, (6, 3))
    x[2, 0] = x[1, 1] = x[4, 1] = 0
    yield (x,), {"axis": 0}
    yield (x,), {"axis": 1}


def _product_reference(x: Any, axis: int) -> Any:
    return np.asarray(x) if np.ndim(x) == 0 else np.cumprod(x, axis)


@computed(amp="float32", domain=compared(_product_cases, _product_reference), forms=WRITTEN)
def cumprod(x: Tensor, axis: int, dtype: Any = None) -> Tensor:
    """Returns y[i] = x[0] * .. * x[i] along ``axis``; x's shape. x is converted to ``dtype`` first (None: its own,
    int64 for integers and bool), the dtype of the result.

    Rounding errors of floats are carried along: the relative error is below one unit in the last place unless a product
    under- or overflows. The gradient is also right for elements that are zero.
    """
    return _accumulated("prod", x, dtype, axis, False, "cumprod")


def _extremum_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _cases(rng):
        # Distinct, so that a difference quotient stays on one side of each tie.
        x = operands[0]
        yield (rng.permutation(np.linspace(-2, 2, x.size)).reshape(x.shape) if x.dtype.kind == "f" else x,), attributes


def _extremum_reference(accumulate: Any) -> Any:
    def reference(x: Any, axis: int) -> Any:
        if np.ndim(x) == 0:
            return np.asarray(x), np.asarray(0)
        best = accumulate(x, axis)
        index = np.arange(x.shape[axis]).reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
        return best, np.maximum.accumulate(np.where(x == best, index, 0), axis)

    return reference


@computed(domain=compared(_extremum_cases, _extremum_reference(np.maximum.accumulate), second=False), forms=METHOD)
def cummax(x: Tensor, axis: int) -> Ranked:
    """Returns the largest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements.

    A NaN is largest, and the last of them counts.
    """
    return Ranked(*_scanned("max", x, None, axis, False, "cummax"))


@computed(domain=compared(_extremum_cases, _extremum_reference(np.minimum.accumulate), second=False), forms=METHOD)
def cummin(x: Tensor, axis: int) -> Ranked:
    """Returns the smallest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements.

    A NaN is smallest, and the last of them counts.
    """
    return Ranked(*_scanned("min", x, None, axis, False, "cummin"))


def _logsumexp_reference(x: Any, axis: int) -> Any:
    return np.asarray(x) if np.ndim(x) == 0 else np.logaddexp.accumulate(x, axis)


def _float_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _cases(rng):
        if operands[0].dtype.kind == "f":
            # Away from zeros of the result, where a relative error says nothing.
            yield (np.asarray(operands[0] + 3),), attributes


@computed(amp="float32", domain=compared(_float_cases, _logsumexp_reference), forms=METHOD)
def logcumsumexp(x: Tensor, axis: int) -> Tensor:
    """Returns y[i] = log(exp(x[0]) + .. + exp(x[i])) along ``axis``, without overflow; floating dtypes."""
    (x,) = floating("logcumsumexp", x)
    return _scanned("logsumexp", x, None, axis, False, "logcumsumexp")  # type: ignore[no-any-return]


def _recurrence_cases(rng: np.random.Generator) -> Cases:
    for shape, axis in _LAYOUTS:
        yield (rng.uniform(-2, 2, shape), rng.uniform(-0.9, 0.9, shape)), {"axis": axis, "reverse": axis == 0}


def _recurrence_reference(x: Any, decay: Any, axis: int = -1, reverse: bool = False) -> Any:
    if x.size == 0 or x.ndim == 0:
        return x
    x, decay = (np.moveaxis(part, axis, 0)[:: -1 if reverse else 1] for part in (x, decay))
    y = np.array(x, np.float64)
    for i in range(1, len(y)):
        y[i] += decay[i] * y[i - 1]
    return np.moveaxis(y[:: -1 if reverse else 1], 0, axis)


@computed(amp="float32", domain=compared(_recurrence_cases, _recurrence_reference))
def linear_recurrence(x: Tensor, decay: Tensor, axis: int = -1, reverse: bool = False) -> Tensor:
    """Returns y[i] = x[i] + decay[i] * y[i - 1] along ``axis``, y[0] = x[0]; with ``reverse`` from the end: y[i] = x[i]
    + decay[i] * y[i + 1], y[n - 1] = x[n - 1].

    ``x`` and ``decay`` have one shape, which is the result's, and floating dtypes. The first element of ``decay`` is
    not used. Raises ShapeError if the shapes differ.
    """
    engine_of("linear_recurrence", x, decay)
    if x.shape != decay.shape:
        raise ShapeError(f"linear_recurrence: x {x.shape} and decay {decay.shape} have one shape")
    x, decay = floating("linear_recurrence", x, decay)
    return _scanned("linear", x, decay, axis, reverse, "linear_recurrence")  # type: ignore[no-any-return]
