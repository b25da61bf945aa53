"""Taking, gathering and their gradients with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .storage import Array, store, widened

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

_Report = Callable[[int], None]


def _checked(indices: Array, extent: int, report: _Report, code: int) -> Array:
    wrapped = np.where(indices < 0, indices.astype(np.int64) + extent, indices.astype(np.int64))
    if bool(((wrapped < 0) | (wrapped >= extent)).any()):
        report(code)
    return np.clip(wrapped, 0, max(extent - 1, 0))


def _take(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    out[...] = np.take(x, _checked(indices, x.shape[axis], report, code), axis=axis)


def _gather(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int) -> None:
    out[...] = np.take_along_axis(x, _checked(indices, x.shape[axis], report, code), axis=axis)


def _take_grad(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int, dtype: str) -> None:
    places = _checked(indices, out.shape[axis], report, code).reshape(-1)
    grad = widened(x, dtype).reshape(*out.shape[:axis], places.size, *out.shape[axis + 1 :])
    total = np.zeros(out.shape, grad.dtype)
    # ufunc.at adds in the order of the indices.
    np.add.at(np.moveaxis(total, axis, 0), places, np.moveaxis(grad, axis, 0))
    store(out, total, dtype)


def _gather_grad(x: Array, indices: Array, out: Array, axis: int, report: _Report, code: int, dtype: str) -> None:
    places = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = _checked(indices, out.shape[axis], report, code)
    grad = widened(x, dtype)
    total = np.zeros(out.shape, grad.dtype)
    np.add.at(total, tuple(places), grad)
    store(out, total, dtype)


def index(
    engine: Any, kind: str, x: Tensor, indices: Tensor, *, axis: int, shape: Sequence[int] | None = None
) -> Tensor:
    """``take`` as np.take and ``gather`` as np.take_along_axis (equal shapes but for the axis), and their gradients.

    ``take_grad`` and ``gather_grad`` add the rows or elements of ``x``, a gradient, into zeros of ``shape``, in the
    order of the indices. An index outside [-n, n) is clamped and reported at the next host read.
    """
    table = x.shape if shape is None else tuple(shape)
    axis %= len(table)
    code = engine.flag_code(f"{kind.removesuffix('_grad')}: an index is out of range")
    if kind == "take":
        result = table[:axis] + indices.shape + table[axis + 1 :]
    else:
        result = indices.shape if kind == "gather" else table
    out: Tensor = engine.empty(result, x.dtype)
    if prod(result) == 0:
        return out
    arrays = (x.storage, indices.storage, out.storage, axis, engine.raise_flag, code)
    if kind in ("take", "gather"):
        engine.launch(_take if kind == "take" else _gather, *arrays)
    else:
        engine.launch(_take_grad if kind == "take_grad" else _gather_grad, *arrays, x.dtype)
    return out
