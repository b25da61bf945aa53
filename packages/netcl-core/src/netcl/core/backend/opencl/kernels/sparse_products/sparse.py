"""Products with sparse matrices on OpenCL devices: CSR times a dense matrix, and dot products of pairs of rows."""

from __future__ import annotations

from typing import Any

from netcl.core.backend.opencl.templates import per_work_item, source, struct, traits
from netcl.core.storage.data import TensorData

_GROUP = 64
_LANES = 16  # work-items that share the dot product of a pair
_WIDTH = 16  # columns of a work-item of a CPU


def _program(dtype: str, name: str, **defines: int) -> str:
    return source(("storage", name), ((f"DTYPE_{dtype.upper()}", 1), *defines.items()))


def _power(number: int) -> int:
    """Returns the least power of two that is not below ``number``, at least 1."""
    return 1 << max(0, number - 1).bit_length()


def sparse_rows(
    engine: Any, values: TensorData, columns: TensorData, starts: TensorData, dense: TensorData
) -> TensorData:
    """Computes (rows, n) in CSR @ (n, width): a segment reduction."""
    rows, width = starts.shape[0] - 1, dense.shape[1]
    if values.size == 0 or rows * width == 0:
        return engine.zeros((rows, width), dense.dtype)  # type: ignore[no-any-return]
    out: TensorData = engine.empty((rows, width), dense.dtype)
    device = traits(engine)
    each = min(_WIDTH, _power(width)) if device.is_cpu else 1
    group = 1 if device.is_cpu else min(_GROUP, device.group)
    across, block = -(-width // each), per_work_item(rows, device)
    items = across * -(-rows // block)
    size, argument = -(-items // group) * group, struct(rows, width, across, block)
    text = _program(dense.dtype, "sparse_rows", WIDTH=each)
    engine.launch(text, "sparse_rows", (size,), (group,), [values, columns, starts, dense, out, argument])
    return out


def sparse_pairs(engine: Any, a: TensorData, b: TensorData, rows: TensorData, columns: TensorData) -> TensorData:
    """Returns the dot products of the rows ``rows`` of ``a`` and ``columns`` of ``b``."""
    count, width = rows.size, a.shape[1]
    if count * width == 0:
        return engine.zeros((count,), a.dtype)  # type: ignore[no-any-return]
    out: TensorData = engine.empty((count,), a.dtype)
    device = traits(engine)
    most = 1 << (min(_GROUP, device.group).bit_length() - 1)  # a tree sums powers of two
    lanes = 1 if device.is_cpu else min(_LANES, _power(width), most)
    group = 1 if device.is_cpu else most
    block = per_work_item(count, device)
    items = lanes * -(-count // block)
    text = _program(a.dtype, "sparse_pairs", LANES=lanes, GROUP=group)
    argument = struct(count, width, block)
    size = -(-items // group) * group
    engine.launch(text, "sparse_pairs", (size,), (group,), [a, b, rows, columns, out, argument])
    return out
