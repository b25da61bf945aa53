"""Unpacking packed matrices on OpenCL devices, and products with them: of few rows directly, of more by panels of
unpacked rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.templates import filled_program, per_work_item, traits
from netcl.core.packed.formats import FORMATS, GROUP, Field

if TYPE_CHECKING:
    from netcl.core.expr.kernel_source import KernelText
    from netcl.core.tensor.data import TensorT

_FEW = 4  # rows of x for which the matrix is unpacked in registers
_LANES = 32  # work-items of a row of the matrix on a GPU
_LOCAL = 128
_UNITS = 64  # work-items on a CPU
_PANEL = 1 << 22  # numbers that are unpacked at a time
_C = {"uint8": "uchar", "int8": "char", "uint16": "ushort", "float16": "half"}
_FIELD = re.compile(r"\b(\w+)\(")


def _read(field: Field, index: str) -> str:
    """Returns the OpenCL C of a field at an index in a block."""
    if field.is_vector:
        kind = _C[field.dtype]
        return f"(*(__global const packed_{kind}16*)({field.name} + block * {field.count} + 16 * ({index})))"
    place = f"block * {field.count} + ({index})"
    if field.dtype == "float16":
        return f"vload_half({place}, {field.name})"
    if field.is_bits:
        return f"convert_uchar16(((ushort16)({field.name}[{place}]) >> LANES16) & (ushort16)1)"
    return f"(float){field.name}[{place}]"


def _in_c(text: str, fields: Mapping[str, Field]) -> str:
    """Returns an expression of the table in OpenCL C: calls of fields become reads of buffers."""
    match = next((match for match in _FIELD.finditer(text) if match[1] in fields), None)
    if match is None:
        return text
    depth, end = 1, match.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inside = text[match.end() : end - 1]
    return text[: match.start()] + _read(fields[match[1]], inside) + _in_c(text[end:], fields)


@lru_cache(maxsize=64)
def program(format: str, dtype: str, kernel: str, defines: tuple[tuple[str, object], ...] = ()) -> KernelText:
    """Returns the text of a kernel of packed matrices."""
    row = FORMATS[format]
    fields = {field.name: field for field in row.fields}
    kinds = {field.name: _C[field.dtype] for field in row.fields}
    parts = {
        "fields": ", ".join(f"read {kind} {name}" for name, kind in kinds.items()),
        "declared": ", ".join(f"__global const {kind}* {name}" for name, kind in kinds.items()),
        "names": ", ".join(fields),
        "levels": ", ".join(map(str, row.levels)),
        "codes": _in_c(row.codes, fields),
        "scale": _in_c(row.scale, fields),
        "offset": _in_c(row.offset, fields),
    }
    own = (("LEVELS", int(bool(row.levels))), ("OFFSET", int(bool(row.offset))), ("ZERO", row.zero))
    sizes = (("GROUPS", row.block // GROUP), (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", GROUP // 2))
    return filled_program(("storage", "packed_blocks", kernel), (*own, *sizes, *defines), parts)


def _columns(parts: Sequence[Any], format: str) -> int:
    row = FORMATS[format]
    return int(parts[0].shape[1]) // row.fields[0].count * row.block


def _unpack(engine: Any, parts: Sequence[TensorT], format: str, out: TensorT, first: int) -> None:
    row, device = FORMATS[format], traits(engine)
    blocks = out.size // row.block
    each = per_work_item(blocks, device, row.block)
    numbers = [np.int64(number) for number in (first * out.shape[1] // row.block, blocks, each)]
    text = program(format, out.dtype, "packed_unpack")
    engine.launch(text, "packed_unpack", (-(-blocks // each),), None, [*parts, out, *numbers])


def packed_unpack(engine: Any, parts: Sequence[TensorT], *, format: str, dtype: str) -> TensorT:
    """Returns the numbers (rows, columns) of a packed matrix."""
    out: TensorT = engine.empty((parts[0].shape[0], _columns(parts, format)), dtype)
    if out.size:
        _unpack(engine, parts, format, out, 0)
    return out


def _few(engine: Any, x: TensorT, parts: Sequence[TensorT], format: str, rows: int) -> TensorT:
    device, blocks = traits(engine), x.shape[1] // FORMATS[format].block
    out: TensorT = engine.empty((x.shape[0], rows), x.dtype)
    lanes = 1 if device.is_cpu else _LANES
    group = 1 if device.is_cpu else _LOCAL
    each = -(-rows // _UNITS) if device.is_cpu else 1
    items = -(-rows // each) * lanes
    defines = (("LANES", lanes), ("GROUP", group), ("ROWS", x.shape[0]))
    numbers = [np.int64(number) for number in (rows, blocks, each)]
    text = program(format, x.dtype, "packed_rows", defines)
    engine.launch(text, "packed_rows", (-(-items // group) * group,), (group,), [x, *parts, out, *numbers])
    return out


def packed_product(engine: Any, x: TensorT, parts: Sequence[TensorT], *, format: str, turned: bool) -> TensorT:
    """Returns x (m, columns) times the transpose of a packed matrix, or ``turned`` x (m, rows) times the matrix."""
    rows = parts[0].shape[0]
    if not turned and x.shape[0] <= _FEW and x.dtype != "float64":
        return _few(engine, x, parts, format, rows)
    matrix = packed_unpack(engine, parts, format=format, dtype=x.dtype)
    result: TensorT = engine.matmul(x, matrix, transpose_b=not turned)
    return result
