"""Matrix products with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.engine.epilogue import Epilogue, check, run_alone
from netcl.core.engine.product import Product
from netcl.core.storage.data import TensorData
from netcl.core.tensor.tensor import Tensor


def _matmul(a: Array, b: Array, out: Array, transpose_a: bool, transpose_b: bool, dtype: str) -> None:
    half = dtype in ("float16", "bfloat16")
    left, right = (widened(a, dtype), widened(b, dtype)) if half else (a, b)
    left = np.swapaxes(left, -1, -2) if transpose_a else left
    right = np.swapaxes(right, -1, -2) if transpose_b else right
    with np.errstate(all="ignore"):
        if out.dtype == left.dtype:
            np.matmul(left, right, out=out)
        else:
            store(out, np.matmul(left, right), dtype)


def matmul(
    engine: Any,
    a: TensorData,
    b: TensorData,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: TensorData | None = None,
    epilogue: Epilogue | None = None,
) -> TensorData:
    """Computes (..., M, K) @ (..., K, N) after the transposes, batches broadcast; sums in float32 (or float64)."""
    if epilogue is not None:
        check(epilogue, a.dtype)
    m = a.shape[-1] if transpose_a else a.shape[-2]
    n = b.shape[-2] if transpose_b else b.shape[-1]
    result: TensorData
    if out is None:
        result = engine.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n), a.dtype)
    else:
        result = out
    engine.launch(_matmul, a.array, b.array, result.array, transpose_a, transpose_b, a.dtype)
    if epilogue is not None:
        run_alone(engine, epilogue, result)
    if out is not None:
        out._storage.written()
    return result


def planned(engine: Any, product: Product) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """Returns the function that repeats the op ``product``; None for the half types."""
    left, right, dtype, transpose_a, transpose_b, added, final = product
    if dtype not in ("float32", "float64"):
        return None
    rows, columns = left[-1 if transpose_a else -2], right[-2 if transpose_b else -1]
    shape, recordings = (*np.broadcast_shapes(left[:-2], right[:-2]), rows, columns), engine.recordings

    def call(args: Sequence[Any]) -> Tensor | None:
        """Returns the result for ``args``, or None during capture and profiling."""
        if engine.intercepting or (recordings and get_ident() in recordings):
            return None
        array = np.empty(shape, dtype)
        _matmul(args[0].array.reshape(left), args[1].array.reshape(right), array, transpose_a, transpose_b, dtype)
        if added is not None:
            with np.errstate(all="ignore"):
                array += args[2].array
        return Tensor._wrap(engine, final, dtype, None, array.reshape(final), None)

    return call
