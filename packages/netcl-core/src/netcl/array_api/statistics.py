"""Statistical and utility functions of the array API standard."""

from __future__ import annotations

import builtins
import math
from typing import Any

from netcl.array_api.array import returns_arrays
from netcl.array_api.creation import full
from netcl.array_api.manipulation import Axes, concat
from netcl.array_api.promotion import accumulated, converted
from netcl.array_api.rows import defined, row
from netcl.core.dtypes import canonical, is_floating
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor


@returns_arrays
def sum(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the sum over ``axis``; integers are summed in int64 or uint64, unless ``dtype`` is given."""
    return _total("sum", x, dtype, axis=axis, keepdims=keepdims)


@returns_arrays
def prod(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the product over ``axis``; integers are multiplied in int64 or uint64, unless ``dtype`` is given."""
    return _total("prod", x, dtype, axis=axis, keepdims=keepdims)


def _total(name: str, x: Tensor, dtype: Any, **more: Any) -> Tensor:
    result_dtype = accumulated(x.dtype) if dtype is None else canonical(dtype)
    if is_floating(result_dtype):
        x = converted(x, result_dtype)
    # Totals of integers are int64; their low bits are right for every other integer dtype.
    return converted(row(name)(x, **more), result_dtype)


@returns_arrays
def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the mean over ``axis``."""
    return row("mean")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the variance over ``axis`` with divisor n - correction."""
    deviation = row("sub")(x, mean(x, axis=axis, keepdims=True))
    count = math.prod(x.shape[dim] for dim in normalize_axes(axis, x.ndim, "var")) - correction
    total = sum(row("square")(deviation), axis=axis, keepdims=keepdims)
    return row("div")(total, float(builtins.max(count, 0)))  # type: ignore[no-any-return]


@returns_arrays
def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the standard deviation over ``axis`` with divisor n - correction."""
    return row("sqrt")(var(x, axis=axis, correction=correction, keepdims=keepdims))  # type: ignore[no-any-return]


@returns_arrays
def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the largest element over ``axis``; raises ShapeError for no elements."""
    return row("amax")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest element over ``axis``; raises ShapeError for no elements."""
    return row("amin")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns True if all elements over ``axis`` are nonzero."""
    return row("all")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns True if an element over ``axis`` is nonzero."""
    return row("any")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the number of nonzero elements over ``axis``, int64."""
    return converted(row("count_nonzero")(x, axis=axis, keepdims=keepdims), "int64")


@returns_arrays
def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns the running sums along ``axis``, which a vector does not need, after a 0 with ``include_initial``."""
    return _running("cumsum", x, axis, dtype, include_initial, 0)


@returns_arrays
def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns the running products along ``axis``, which a vector does not need, after a 1 with ``include_initial``."""
    return _running("cumprod", x, axis, dtype, include_initial, 1)


def _running(name: str, x: Tensor, axis: int | None, dtype: Any, include_initial: bool, initial: int) -> Tensor:
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{name}: axis is needed for shape {x.shape}")
        axis = 0
    (dim,) = normalize_axes(axis, x.ndim or 1, name)
    result_dtype = accumulated(x.dtype) if dtype is None else canonical(dtype)
    values = converted(x, result_dtype) if is_floating(result_dtype) else x
    result = converted(row(name)(values, dim), result_dtype)
    if not include_initial:
        return result
    first = full((*result.shape[:dim], 1, *result.shape[dim + 1 :]), initial, dtype=result_dtype, device=x.device)
    return concat([first, result], axis=dim)


@returns_arrays
def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Returns the ``n``-th differences of neighbours along ``axis``, of ``x`` between ``prepend`` and ``append``."""
    (dim,) = normalize_axes(axis, x.ndim, "diff")
    parts = [part for part in (prepend, x, append) if part is not None]
    value = concat(parts, axis=dim) if len(parts) > 1 else x
    lead = (slice(None),) * dim
    for _ in range(n):
        later = row("getitem")(value, lead + (slice(1, None),))
        earlier = row("getitem")(value, lead + (slice(None, -1),))
        value = row("logical_xor" if value.dtype == "bool" else "sub")(later, earlier)
    return value if n else value.clone()


__all__ = defined(globals())
