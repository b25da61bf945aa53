"""Reduces partial sums of split-K kernels in order, so that they have the same bits on every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.templates import source, traits

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData


def _program(dtype: str) -> str:
    return source(("storage", "contract_partial_sums"), ((f"DTYPE_{dtype.upper()}", 1),))


def reduce_partials(engine: Any, parts: TensorData, out: TensorData, splits: int) -> None:
    """out = the sum of ``splits`` partial sums of out's size, in order."""
    size = out.size
    block = max(64, -(-size // 64)) if traits(engine).is_cpu else 1
    engine.launch(
        _program(out.dtype), "add_parts", (-(-size // block),), (1,) if block > 1 else None,
        [parts, out, np.int64(size), np.int64(splits), np.int64(block)],
    )  # fmt: skip


__all__ = ["reduce_partials"]
