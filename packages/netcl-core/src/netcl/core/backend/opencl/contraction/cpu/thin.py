"""The kernels of CPUs for thin contractions: GEMV, and depthwise convolutions."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, trailing_args
from netcl.core.backend.opencl.contraction.gpu.gpu_kernels import epilogue_source
from netcl.core.backend.opencl.contraction.problem import strides_argument
from netcl.core.backend.opencl.templates import Traits, source, struct, traits
from netcl.core.tuning.candidates import CONTRACTIONS

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData
    from netcl.core.tuning.problems import Contraction


# Work-items of a GEMV below so many products: one costs the least to start, few are enough for the cores while a core
# needs less than it takes to wake another, and many balance the load.
_UNITS = ((1 << 15, 1), (1 << 19, 4), (1 << 23, 16))
_MOST_UNITS = 64
_STRIP = 256  # columns of a work-item of the GEMV kernel ``stream``
_DEPTHWISE_MOST = 64  # terms or columns of the kernels for depthwise convolutions


@lru_cache(maxsize=256)
def gemv_program(device: Traits, dtype: str, epilogue: str = "", operands: int = 0) -> str:
    """Returns the text of the GEMV kernels."""
    vector = device.vector // 2 if dtype == "float64" else device.vector
    defines = (("VECTOR", vector), ("STRIP", _STRIP), ("OFFSET", "long"))
    return epilogue_source(device, dtype, CONTRACTIONS["dot"].parts, defines, epilogue, operands)


@lru_cache(maxsize=1024)
def _gemv_argument(c: Contraction, kernel: str) -> tuple[int, Any]:
    k, n, z = prod(c.k), prod(c.n), prod(c.batch)
    row_blocks = -(-c.m // 4)
    products = c.m * n * k * z
    units = next((units for most, units in _UNITS if products < most), _MOST_UNITS)
    block = _STRIP if kernel == "stream" else max(4, -(-n * row_blocks * z // units))
    column_blocks = -(-n // block)
    argument = struct(
        c.m, n, k, row_blocks, column_blocks, block, c.batch[1], c.a_row, c.a_k[3], c.b_k[3], c.b_n[3], c.out_row,
        c.out_n[3], c.a_offset, c.b_offset, c.out_offset, c.a_batch, c.b_batch, c.out_batch,
    )  # fmt: skip
    return row_blocks * column_blocks * z, argument


def contract_gemv(
    engine: Any, kernel: str, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs ``dot`` (B contiguous along k) or ``stream`` (along its columns)."""
    epilogue, operands, more = trailing_args(fused, b)
    text = gemv_program(traits(engine), a.dtype, epilogue, operands)
    units, argument = _gemv_argument(c, kernel)
    engine.launch(text, f"{kernel}_rows", (units,), (1,), [a, b, out, argument, *more])


@lru_cache(maxsize=64)
def depthwise_program(device: Traits, dtype: str) -> str:
    """Returns the text of the kernels for depthwise convolutions."""
    vector = device.vector // 2 if dtype == "float64" else device.vector
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("VECTOR", vector), ("MOST", _DEPTHWISE_MOST))
    return source(("storage", *CONTRACTIONS["taps"].parts), defines)


def contract_depthwise(
    engine: Any, kernel: str, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs ``planes`` (few terms) or ``taps`` (few columns), which take no epilogue."""
    text, units, numbers = depthwise_program(traits(engine), a.dtype), c.m * prod(c.batch), []
    if kernel == "planes":
        runs = units * prod(c.n[:3])
        each = -(-runs // _MOST_UNITS)
        units, numbers = -(-runs // each), [np.int64(runs), np.int64(each)]
    engine.launch(text, kernel, (units,), (1,), [a, b, out, strides_argument(c), *numbers])
