"""Unpacking packed matrices on OpenCL devices, and products with them: of few rows directly, of more by panels of
unpacked rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.templates import Traits, filled_program, largest_group, per_work_item, profile, traits
from netcl.core.engine.packed_formats import FORMATS, GROUP, Field, Format
from netcl.core.expr import Load
from netcl.core.process.opencl import cl
from netcl.core.tuning.unit_table import compute_capability

if TYPE_CHECKING:
    from netcl.core.expr.kernel_source import KernelText
    from netcl.core.storage.data import TensorT

_FEW = 4  # rows of x on a GPU for which the matrix is unpacked in registers
_FEW_CPU = 32  # the same on a CPU; for 64 rows panels take about the same time
_TILE = 4  # of them that a CPU multiplies together
_LOCAL = 256  # work-items of a group on a GPU
_UNITS = 4  # work-items of a core of a CPU; each rounds x, which takes as long as 20,000 numbers of the matrix
_PANEL, _PANEL_GPU = 1 << 24, 1 << 27  # numbers that are unpacked at a time
# Of packed_rows.cl: groups of a unit, the distance between them, and their scales; rows of the matrix for how many
# work-items of a GPU.
_SHORT, _LONG = (8, 64), (4, 32)
_OF_UNITS = {"Q4_K": (4, 1, 2, *_LONG), "Q5_K": (4, 1, 2, *_LONG), "Q6_K": (2, 4, 2, *_SHORT)}
_OF_OTHERS = (2, 1, 1, *_SHORT)
_DIGITS = 1 << 14  # bytes of local memory on a GPU for the digits of x
_C = {"uint8": "uchar", "int8": "char", "uint16": "ushort", "float16": "half"}
_FIELD, _SHIFT = re.compile(r"\b(\w+)\("), re.compile(r"(<<|>>) byte\(")
_BYTE = re.compile(r"\b(byte|word)(?=\()")


def _read(field: Field, index: str) -> str:
    """Returns the OpenCL C of a field at an index in a block."""
    if field.is_vector:
        kind = _C[field.dtype]
        return f"as_uint4(*(__global const packed_{kind}16*)({field.name} + block * {field.count} + 16 * ({index})))"
    place = f"block * {field.count} + ({index})"
    if field.dtype == "float16":
        return f"HALF_AT({place}, {field.name})"
    if field.is_bits:
        return f"as_uint4(convert_uchar16(((ushort16)({field.name}[{place}]) >> LANES16) & (ushort16)1))"
    return f"(float){field.name}[{place}]"


def _wide(field: Field, index: str) -> str:
    """Returns the OpenCL C of a field at an index and the next one: 32 bytes."""
    return f"*(__global const packed_uint8*)({field.name} + block * {field.count} + 16 * ({index}))"


def _eight(field: Field, index: str, block: int) -> str:
    """Returns the same for eight times 32 neighbours, of the even groups if each group has its own."""
    if field.count == 16:
        return f"convert_float8((*(__global const packed_{_C[field.dtype]}16*)({field.name} + block * 16)).even)"
    if field.count == 8:
        return f"convert_float8(*(__global const packed_uchar8*)({field.name} + block * 8))"
    if block > 32:
        return _read(field, index)
    if field.dtype == "float16":
        return f"EIGHT_HALVES({field.name} + block)"
    return f"convert_float8(*(__global const packed_uchar8*)({field.name} + block))"


def _pair(field: Field, index: str) -> str:
    """Returns the same for the two scales of a unit of packed_rows.cl."""
    if field.count == 8:
        return f"two_bytes({field.name} + block * 8 + ({index}))"
    if field.count == 16:
        return f"(float2)({field.name}[block * 16 + ({index})], {field.name}[block * 16 + ({index}) + 4])"
    return _read(field, index)


def _in_c(text: str, fields: Mapping[str, Field], read: Callable[[Field, str], str] = _read) -> str:
    """Returns an expression of the table in OpenCL C: calls of fields become reads of buffers."""
    match = next((match for match in _FIELD.finditer(text) if match[1] in fields), None)
    if match is None:
        return text
    depth, end = 1, match.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inside = text[match.end() : end - 1]
    return text[: match.start()] + read(fields[match[1]], inside) + _in_c(text[end:], fields, read)


@lru_cache(maxsize=64)
def program(format: str, dtype: str, kernel: str, defines: tuple[tuple[str, object], ...] = ()) -> KernelText:
    """Returns the text of a kernel of packed matrices."""
    row = FORMATS[format]
    fields = {field.name: field for field in row.fields}
    eight = partial(_eight, block=row.block)
    kinds = {field.name: _C[field.dtype] for field in row.fields}
    parts = {
        "fields": ", ".join(f"read {kind} {name}" for name, kind in kinds.items()),
        "declared": ", ".join(f"__global const {kind}* {name}" for name, kind in kinds.items()),
        "names": ", ".join(fields),
        "levels": ", ".join(map(str, row.levels)),
        "of_row": ", ".join(f"{field.name} + base * {field.count}" for field in row.fields),
        "codes": _in_c(_SHIFT.sub(r"\1 word(", row.codes), fields),
        "wide": _in_c(_BYTE.sub(r"\g<0>8", _SHIFT.sub(r"\1 word(", row.codes)), fields, _wide),
        "scale": _in_c(row.scale, fields),
        "offset": _in_c(row.offset, fields),
        "scale2": f"(float2)({_in_c(row.scale, fields, _pair)})",
        "offset2": f"(float2)({_in_c(row.offset, fields, _pair)})",
        "scale8": _in_c(row.scale, fields, eight).replace("power(", "power8("),
        "second8": _in_c(row.scale, fields, eight).replace(".even", ".odd"),
        "offset8": _in_c(row.offset, fields, eight),
    }
    signed = bool(row.levels) or any(field.dtype == "int8" and field.is_vector for field in row.fields)
    levels, offset = int(bool(row.levels)), int(bool(row.offset))
    own = ("LEVELS", levels), ("OFFSET", offset), ("ZERO", row.zero), ("SIGNED", int(signed))
    sizes = (("GROUPS", row.block // GROUP), (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", GROUP // 2))
    return filled_program(
        ("storage", "half_at", "packed_blocks", *(("packed_around",) if kernel != "packed_unpack" else ()), kernel),
        (*own, *sizes, *defines),
        parts,
    )


def _columns(parts: Sequence[Any], format: str) -> int:
    row = FORMATS[format]
    return int(parts[0].shape[1]) // row.fields[0].count * row.block


def _unpack(engine: Any, parts: Sequence[TensorT], format: str, out: TensorT, first: int) -> None:
    device, groups = traits(engine), out.size // GROUP
    each = per_work_item(groups, device, GROUP)
    numbers = [np.int64(number) for number in (first * out.shape[1] // GROUP, groups, each)]
    text = program(format, out.dtype, "packed_unpack")
    engine.launch(text, "packed_unpack", (-(-groups // each),), None, [*parts, out, *numbers])


def packed_unpack(engine: Any, parts: Sequence[TensorT], *, format: str, dtype: str) -> TensorT:
    """Returns the numbers (rows, columns) of a packed matrix."""
    out: TensorT = engine.empty((parts[0].shape[0], _columns(parts, format)), dtype)
    if out.size:
        _unpack(engine, parts, format, out, 0)
    return out


def packed_fused(
    engine: Any,
    x: TensorT,
    parts: Sequence[TensorT],
    extras: Sequence[TensorT | None] = (None, None, None),
    *,
    format: str,
    eps: float = 0.0,
    gate: str = "",
) -> TensorT:
    """Returns the product of few rows of x, which reads the matrix once, with norm, bias, gate and residual around."""
    device, row, count = traits(engine), FORMATS[format], x.shape[0]
    rows = parts[0].shape[0] // (2 if gate else 1)
    out: TensorT = engine.empty((count, rows), x.dtype)
    given = [extra for extra in extras if extra is not None]
    around = around_defines(gate, *(extra is not None for extra in extras))
    sizes = [np.int64(number) for number in (count, rows, x.shape[1] // row.block)]
    tile = next((tile for tile in (min(count, _TILE), 1) if _fits(tile, x.shape[1], device)), 0)
    if device.is_cpu and tile:
        each = -(-rows // (_UNITS * device.units))
        text = program(format, x.dtype, "packed_dots", (*dots_defines(row, tile), *around))
        args = [cl.LocalMemory(size) for size in _local_sizes(tile, x.shape[1])]
        args += [*sizes, np.int64(each), np.float32(eps)]
        grid = -(-count // tile), -(-rows // each)
        engine.launch(text, "packed_dots", grid, (1, 1), [x, *parts, *given, out, *args])
        return out
    group = 1 if device.is_cpu else largest_group(_LOCAL, device)
    own = rows_defines(row, x.dtype, count, group, min(_DIGITS, device.local_memory // 4), _has_dots(engine))
    text = program(format, x.dtype, "packed_rows", (*own, *around))
    near, lanes = (dict(own)[name] for name in ("NEAR", "LANES"))
    sets = -(-rows // (near // 2 if gate else near))
    size = -(-sets * lanes // group) * group
    engine.launch(text, "packed_rows", (size,), (group,), [x, *parts, *given, out, *sizes[1:], np.float32(eps)])
    return out


def around_defines(gate: str, *extras: bool) -> tuple[tuple[str, object], ...]:
    """Returns the definitions of packed_around.cl: the gate, and whether there are norm, bias and residual."""
    return (*zip(("NORM", "BIAS", "RESIDUAL"), map(int, extras)), ("GATE", ("", "silu", "gelu").index(gate)))


def dots_defines(row: Format, tile: int) -> tuple[tuple[str, object], ...]:
    """Returns the definitions of packed_dots.cl for a format and ``tile`` rows of x."""
    own_scales = int("scales(g)" in row.scale)
    return ("ROWS", tile), ("SINGLE", own_scales), ("WHOLE", int(row.block > 32))


def rows_defines(
    row: Format, dtype: str, count: int, group: int, local: int, dots: bool
) -> tuple[tuple[str, int], ...]:
    """Returns the definitions of packed_rows.cl for ``count`` rows of x; ``local`` is the memory for their digits."""
    digits, limit = (3, 22) if dtype == "float32" else (2, 15)
    members, distance, scales, near, lanes = _OF_UNITS.get(row.name, _OF_OTHERS)
    segment = max(1, local // (GROUP * members * digits * count))
    x = ("ROWS", count), ("DIGITS", digits), ("LIMIT", limit), ("SEGMENT", segment)
    unit = ("MEMBERS", members), ("DISTANCE", distance), ("SCALES", scales)
    items = ("NEAR", max(2, near // count)), ("LANES", min(lanes, group)), ("GROUP", group)
    return *x, *unit, *items, ("DOT4", int(dots))


def _has_dots(engine: Any) -> bool:
    """True if the device multiplies and adds four bytes by one instruction."""
    device = profile(engine)
    capability = compute_capability(device)
    return "cl_khr_integer_dot_product" in device.extensions if capability is None else capability >= (6, 1)


def _local_sizes(count: int, columns: int) -> tuple[int, int, int]:
    """Returns the bytes of rows of x in shorts, of their scales and of their sums, see packed_dots.cl."""
    padded = -(-columns // 256) * 8
    return 2 * count * columns, 4 * count * padded, 4 * count * padded


def _fits(count: int, columns: int, device: Traits) -> bool:
    return sum(_local_sizes(count, columns)) <= device.local_memory


def _by_panels(engine: Any, x: TensorT, parts: Sequence[TensorT], format: str, turned: bool) -> TensorT:
    """Returns the product of many rows of x: with panels of rows of the matrix that are unpacked for it."""
    rows, columns = parts[0].shape[0], _columns(parts, format)
    step = max(1, (_PANEL if traits(engine).is_cpu else _PANEL_GPU) // columns)
    if rows <= step:
        whole: TensorT = packed_unpack(engine, parts, format=format, dtype=x.dtype)
        result: TensorT = engine.matmul(x, whole, transpose_b=not turned)
        return result
    m = x.shape[0]
    out: TensorT = engine.zeros((m, columns), x.dtype) if turned else engine.empty((m, rows), x.dtype)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        panel = engine.empty((count, columns), x.dtype)
        _unpack(engine, parts, format, panel, first)
        if turned:
            some = engine.empty((m, count), x.dtype)
            _move(engine, x, some, (m, count), (rows, first), (count, 0))
            product = engine.matmul(some, panel)
            (out,) = engine.run((Load(0, x.dtype) + Load(1, x.dtype),), (out, product))
        else:
            product = engine.matmul(x, panel, transpose_b=True)
            _move(engine, product, out, (m, count), (count, 0), (rows, first))
    return out


def _move(
    engine: Any, source: TensorT, out: TensorT, shape: tuple[int, int], read: tuple[int, int], written: tuple[int, int]
) -> None:
    """Copies a block of a matrix; ``read`` and ``written`` are the length of a row and the first column."""
    engine.copy(
        source, out, shape=shape, source_strides=(read[0], 1), source_offset=read[1], out_strides=(written[0], 1),
        out_offset=written[1],
    )  # fmt: skip


def packed_product(engine: Any, x: TensorT, parts: Sequence[TensorT], *, format: str, turned: bool) -> TensorT:
    """Returns x (m, columns) times the transpose of a packed matrix, or ``turned`` x (m, rows) times the matrix."""
    device = traits(engine)
    most = _FEW_CPU if device.is_cpu and _fits(min(x.shape[0], _TILE), x.shape[1], device) else _FEW
    if turned or x.shape[0] > most or x.dtype == "float64":
        return _by_panels(engine, x, parts, format, turned)
    return packed_fused(engine, x, parts, format=format)
