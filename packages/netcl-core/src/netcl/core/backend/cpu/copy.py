"""Strided copies with NumPy: transposition, slicing, concatenation, padding, expansion and assignment; and fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array
from netcl.core.dtypes import numpy_dtype
from netcl.core.engine.product import Copies
from netcl.core.layout import block_of
from netcl.core.storage.data import TensorData
from netcl.core.storage.host import to_storage, view
from netcl.core.tensor.tensor import Tensor


def _copy(target: Array, values: Array) -> None:
    target[...] = values


_copy.exact = True  # type: ignore[attr-defined]  # of one dtype


def copy(
    engine: Any,
    source: TensorData,
    out: TensorData,
    *,
    shape: Sequence[int],
    source_strides: Sequence[int],
    source_offset: int,
    out_strides: Sequence[int],
    out_offset: int,
) -> None:
    """Copies a block of ``shape`` between tensors of one dtype; strides and offsets in elements. Strides may be 0 in
    the source (repetition) and negative in both (reversal); the two must not overlap in memory.
    """
    if prod(shape) == 0:
        return
    target = view(out.array, shape, out_strides, out_offset)
    values = view(source.array, shape, source_strides, source_offset)
    engine.launch(_copy, target, values)


def planned(engine: Any, copies: Copies) -> Callable[[Sequence[Any]], Tensor | None]:
    """Returns the function that repeats the op ``copies``, which joins its arguments along an axis, by one call of
    NumPy.
    """
    shape, dtype, recordings = copies.shape, copies.dtype, engine.recordings
    lengths = zip(copies.blocks[0].shape, shape)
    axis = next((axis for axis, (length, whole) in enumerate(lengths) if length != whole), 0)
    stored = numpy_dtype(dtype)

    def join(args: Sequence[Any]) -> Tensor | None:
        """Returns the result for ``args``, or None during capture and profiling."""
        if engine.intercepting or (recordings and get_ident() in recordings):
            return None
        joined = np.concatenate([x.array for x in args], axis, np.empty(shape, stored))
        return Tensor._wrap(engine, shape, dtype, None, joined, None)

    return join


def scatter_block(
    engine: Any, x: TensorData, *, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], value: float
) -> TensorData:
    """Returns a tensor of ``shape`` full of ``value`` that holds ``x`` at starts + i * steps."""
    out: TensorData = engine.empty(tuple(shape), x.dtype)
    fill(engine, out, value)
    if x.size:
        strides, offset = block_of(out.shape, starts, steps)
        engine.launch(_copy, view(out.array, x.shape, strides, offset), x.array)
    return out


def fill(engine: Any, tensor: TensorData, value: float) -> None:
    """Sets every element to ``value``; the first content of a persistent tensor is never recorded."""
    stored = to_storage(value, tensor.dtype)[0]
    if tensor.persistent:
        _fill(tensor.array, stored)
    else:
        engine.launch(_fill, tensor.array, stored)


def _fill(target: Array, value: Array) -> None:
    target[...] = value
