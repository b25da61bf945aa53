"""Searching, sorting and set functions of the array API standard."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

from netcl.array_api.array import returns_arrays
from netcl.array_api.manipulation import reshape, take
from netcl.array_api.promotion import together
from netcl.array_api.rows import defined, row
from netcl.core.backend.host_sort import unique
from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor


@returns_arrays
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the first largest element along ``axis`` (None: of the flattened tensor), int64."""
    return row("argmax")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the first smallest element along ``axis`` (None: of the flattened tensor), int64."""
    return row("argmin")(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


@returns_arrays
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Returns the positions of nonzero elements, one int64 vector per axis; raises ShapeError for a 0-d tensor."""
    if not x.ndim:
        raise ShapeError("nonzero: a 0-d tensor has no axis")
    return tuple(row("nonzero")(x, as_tuple=True))


@returns_arrays
def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Returns the positions, int64, at which elements of ``x2`` keep the vector ``x1`` sorted; ``sorter`` sorts it."""
    edges, values = together(x1 if sorter is None else take(x1, sorter), x2)
    return row("searchsorted")(edges, values, side=side)  # type: ignore[no-any-return]


@returns_arrays
def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Returns x1 where the condition holds, else x2; tensors or numbers, with promoted dtypes."""
    return row("where")(condition, *together(x1, x2))  # type: ignore[no-any-return]


@returns_arrays
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the elements sorted along ``axis``; always stable."""
    return row("sorted_values")(x, axis=axis, descending=descending)  # type: ignore[no-any-return]


@returns_arrays
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the positions, int64, in the order of the sorted elements along ``axis``; always stable."""
    return row("argsort")(x, axis=axis, descending=descending)  # type: ignore[no-any-return]


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


@returns_arrays
def unique_all(x: Tensor, /) -> UniqueAll:
    """Returns the distinct elements, sorted, the position of the first of each, the place of each element of ``x``
    among them, and their counts, int64. Each NaN is distinct. Computed on the host.
    """
    results = ("first", "inverse", "counts")
    values, *positions = unique(x.engine.read(x).reshape(-1), partial(x.engine.read, x), x.dtype, results)
    first, inverse, counts = (x.engine.tensor(position, "int64") for position in positions)
    return UniqueAll(x.engine.tensor(values, x.dtype), first, reshape(inverse, x.shape), counts)


@returns_arrays
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Returns the distinct elements, sorted, and their counts, int64; each NaN is distinct."""
    return UniqueCounts(*row("unique")(x, return_counts=True))


@returns_arrays
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Returns the distinct elements, sorted, and the place of each element of ``x`` among them; NaNs are distinct."""
    return UniqueInverse(*row("unique")(x, return_inverse=True))


@returns_arrays
def unique_values(x: Tensor, /) -> Tensor:
    """Returns the distinct elements, sorted; each NaN is distinct."""
    return row("unique")(x)  # type: ignore[no-any-return]


__all__ = defined(globals())
