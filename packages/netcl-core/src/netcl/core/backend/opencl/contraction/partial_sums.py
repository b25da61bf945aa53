"""Adds the partial sums of split-K kernels in order, so that they have the same bits on every run, and passes them
through the epilogue of the contraction.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import operand_parts, trailing_args
from netcl.core.backend.opencl.storage import value_dtype
from netcl.core.backend.opencl.templates import Traits, filled_program, per_work_item, struct, traits

if TYPE_CHECKING:
    from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue
    from netcl.core.storage.data import TensorData
    from netcl.core.tuning.problems import Contraction

_OPERAND = "LOAD(e{k}, operand_at(layouts.each[{i}], at, columns, rows, inner))"
_GPU_VECTOR = 4
_AHEAD = 8  # partial sums that a GPU reads before it adds the first of them
_PLAIN = {"operand_parameters": "", "operand_values": ""}


class Matrices(NamedTuple):
    """Results as matrices of ``rows`` x ``columns``, adjacent in memory; ``inner`` matrices for each outer index."""

    columns: int
    rows: int
    inner: int


class Places(NamedTuple):
    """Results as rows of ``high`` segments of ``length`` elements, and a segment as ``inner`` elements for each tap:
    the ``channels`` first ones of ``wide`` taps belong to filters (rows, channels, high, wide).
    """

    high: int
    length: int
    wide: int
    inner: int
    channels: int


def matrices_of_result(c: Contraction) -> Matrices | None:
    """Returns the results of a contraction as adjacent matrices, None if they are stored in another way."""
    columns = 1
    for extent, stride in zip(reversed(c.n), reversed(c.out_n)):
        if extent != 1 and stride != columns:
            return None
        columns *= extent
    matrix, inner = columns * c.m, c.batch[1]
    adjacent = c.out_offset == 0 and not c.accumulate and (c.m == 1 or c.out_row == columns)
    batches = zip(c.batch, c.out_batch, (matrix * inner, matrix))
    if not adjacent or any(count != 1 and stride != step for count, stride, step in batches):
        return None
    return Matrices(columns, c.m, inner)


@lru_cache(maxsize=256)
def _program(
    device: Traits, stored: str, whole: bool, epilogue: str = "", operands: int = 0, placed: bool = False
) -> str:
    """Returns the text for results of the dtype ``stored``, which may be a half type in float32, in ``whole`` vectors,
    or ``placed`` in filters.
    """
    dtype = value_dtype(stored)
    lanes = device.vector // 2 if dtype == "float64" else device.vector
    defines: tuple[tuple[str, object], ...] = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", lanes if device.is_cpu else _GPU_VECTOR),
        *((("OUT_IN_FLOAT32", 1),) if dtype != stored else ()),
        *((("WHOLE", 1),) if whole else ()), *((("PLACED", 1),) if placed else ()),
        *(() if device.is_cpu else (("AHEAD", _AHEAD),)),
    )  # fmt: skip
    if not operands:
        return filled_program(("storage", "roles", "contract_partial_sums"), defines, _PLAIN)
    parts = operand_parts(epilogue, operands, "REAL", _OPERAND)
    parts["operand_parameters"] = ", operands layouts" + parts["operand_parameters"]
    names = ("storage", "roles", "contract_operands", "contract_partial_sums")
    return filled_program(names, (*defines, ("OPERANDS", operands)), parts, epilogue)


def reduce_partials(
    engine: Any,
    parts: TensorData,
    out: TensorData,
    splits: int,
    fused: FusedEpilogue | None = None,
    matrices: Matrices | None = None,
    places: Places | None = None,
) -> None:
    """Adds ``splits`` partial sums of results into ``out``, in order and at their ``places``, and applies ``fused``, an
    epilogue of one lane with operands of ``matrices``.
    """
    size, device = parts.size // splits, traits(engine)
    epilogue, operands, more = trailing_args(fused, parts)
    if places is not None:
        more = [struct(places), *more]
    block = per_work_item(size, device, 1) if device.is_cpu else _GPU_VECTOR
    whole = not device.is_cpu and size % _GPU_VECTOR == 0
    numbers = (size, splits, block, *(matrices or Matrices(1, 1, 1)))
    engine.launch(
        _program(device, out.dtype, whole, epilogue, operands, places is not None), "add_parts", (-(-size // block),),
        (1,) if device.is_cpu else None, [parts, out, *map(np.int64, numbers), *more],
    )  # fmt: skip
