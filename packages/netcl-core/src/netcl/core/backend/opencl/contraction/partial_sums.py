"""Reduces partial sums of split-K kernels in order, so that they have the same bits on every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.templates import source, traits

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData


def _program(dtype: str, of_four: bool) -> str:
    defines: tuple[tuple[str, object], ...] = ((f"DTYPE_{dtype.upper()}", 1), *((("OF_FOUR", 1),) if of_four else ()))
    return source(("storage", "contract_partial_sums"), defines)


def reduce_partials(engine: Any, parts: TensorData, out: TensorData, splits: int) -> None:
    """out = the sum of ``splits`` partial sums of out's size, in order."""
    size, is_cpu = out.size, traits(engine).is_cpu
    of_four = not is_cpu and size % 4 == 0
    block = max(64, -(-size // 64)) if is_cpu else 4 if of_four else 1
    engine.launch(
        _program(out.dtype, of_four), "add_parts", (-(-size // block),), (1,) if is_cpu else None,
        [parts, out, np.int64(size), np.int64(splits), np.int64(block)],
    )  # fmt: skip


__all__ = ["reduce_partials"]
