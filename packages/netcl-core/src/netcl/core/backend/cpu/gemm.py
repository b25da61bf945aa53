"""Matrix products with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.backend.epilogue import Epilogue, check, run_alone

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData


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
