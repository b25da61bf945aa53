"""GEMM on the matrix units of GPUs: one kernel over the rows of ``netcl.core.tuning.unit_table``."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, trailing_args
from netcl.core.backend.opencl.contraction.gpu.gpu_kernels import SHORT, epilogue_source, result_defines, wide_argument
from netcl.core.backend.opencl.contraction.recorded_copies import copied
from netcl.core.backend.opencl.templates import Traits, divisor, source, struct, traits
from netcl.core.device.discovery import manager
from netcl.core.device.drivers.child_probe import driver_key
from netcl.core.engine.registry import engine_for
from netcl.core.tuning.matrix_units import CHUNK, PRODUCTS
from netcl.core.tuning.problems import Contraction, SegmentedRows, dense_steps, segmented
from netcl.core.tuning.unit_table import INSTRUCTIONS, KINDS, Instruction, Kind, UnitTile, kind_of

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

_GROUP_ROWS = 8
_SPLITTERS, _OF_A_SPLITTER = 128, 8  # work-items of a group that splits operands in parts, and elements of one
# The templates that define the units with loads of their own, in order.
_TEMPLATES = {
    "wgmma": ("matrix_unit_nvidia", "matrix_unit_wgmma"),
    "mma": ("matrix_unit_nvidia", "matrix_unit_mma", "matrix_unit_mma_loads", "matrix_unit_fragments"),
    "wgmma_twin": ("matrix_unit_plain", "matrix_unit_wgmma_twin"),
    "mma_twin": ("matrix_unit_plain", "matrix_unit_mma_twin", "matrix_unit_mma_twin_loads", "matrix_unit_fragments"),
}


def _templates(unit: str) -> tuple[str, ...]:
    """Returns the templates of a unit: its own, or the common ones with the fragments of its row."""
    if unit in _TEMPLATES:
        return _TEMPLATES[unit]
    if unit.endswith("_twin"):
        return "matrix_unit_plain", "matrix_unit_elements", "matrix_unit_exchange", "matrix_unit_fragments"
    copies = "matrix_unit_nvidia" if unit.startswith("mma_") else "matrix_unit_plain"
    return copies, "matrix_unit_elements", "matrix_unit_registers", "matrix_unit_fragments"


def kind_defines(kind: Kind) -> tuple[tuple[str, object], ...]:
    """Returns the definitions of the elements of operands, for the templates of units."""
    return (
        ("KIND", f'"{kind.name}"'), ("WORDS", kind.words), ("ELEMENT", kind.element), ("SUM", kind.sum),
        ("ELEMENT_X", kind.value),
    )  # fmt: skip


def _instruction_defines(instruction: Instruction) -> tuple[tuple[str, object], ...]:
    """Returns the definitions of an instruction's fragments."""
    defines: list[tuple[str, object]] = [
        ("LANES", instruction.lanes), ("FRAGMENT_M", instruction.m), ("FRAGMENT_N", instruction.n),
        ("FRAGMENT_K", instruction.k), ("SUMS", instruction.sums.elements),
        ("SUM_ROW(lane, e)", f"({instruction.sums.first})"), ("SUM_COLUMN(lane, e)", f"({instruction.sums.second})"),
    ]  # fmt: skip
    for name, index, held in (("A", "ROW", instruction.a), ("B", "COLUMN", instruction.b)):
        if held is not None:
            defines += [
                (f"{name}_COUNT", held.elements), (f"{name}_{index}(lane, e)", f"({held.first})"),
                (f"{name}_K(lane, e)", f"({held.second})"),
            ]  # fmt: skip
    return tuple(defines)


def _multiply(tile: UnitTile, along: tuple[bool, bool], kind: Kind) -> tuple[str, str]:
    """Returns the definition of one instruction wgmma: ``sums`` += the tiles described by ``a`` and ``b``."""
    sums = [f"sums[{j}][{e}]" for j in range(tile.n // 8) for e in range(4)]
    count, name = len(sums), kind.name
    registers = ",".join(f"%{i}" for i in range(count))
    across = f", {int(not along[0])}, {int(not along[1])}" if kind.words == 1 else ""
    text = "//@ { .reg .pred p; setp.ne.b32 p, 1, 0; "
    text += f"wgmma.mma_async.sync.aligned.m64n{tile.n}k{16 // kind.words}.f32.{name}.{name} "
    text += f"{{{registers}}}, %{count}, %{count + 1}, p, 1, 1{across}; }}"
    operands = ", ".join(f'"+f"({register})' for register in sums)
    return "WGMMA(sums, a, b)", f'asm volatile("{text}" : {operands} : "l"(a), "l"(b) : "memory")'


class Pixels(NamedTuple):
    """Pixels of padded images, of 16 bits, at which columns or rows of B begin: ``plane`` of an image and ``wide`` of a
    row; elements from one image, row and pixel to the next; if the columns of the result are images (``of_columns``),
    its elements from one image to the next. A pixel has segments: the first ``valid`` of ``segment`` elements are
    taken, and after a segment ``jump`` elements of memory are skipped.
    """

    plane: int
    wide: int
    image: int
    row: int
    pixel: int
    out: int
    valid: int
    jump: int
    segment: int

    @property
    def of_columns(self) -> bool:
        """True if columns of B and of the result are pixels, False if rows of B are."""
        return self.out > 0

    @property
    def argument(self) -> Any:
        """The argument of the kernel."""
        return struct(divisor(self.plane), divisor(self.wide), divisor(self.segment), self[2:-1])


class Layout(NamedTuple):
    """The properties of a contraction that the kernel's text depends on: if A and B are contiguous along k, if chunks
    of both begin at multiples of 16 bytes, if results are stored in pairs, if columns or terms (rows of B) are
    ``pixels``, if chunks of these are ``masked``, and if k has ``segments``.
    """

    a_along: bool
    b_along: bool
    aligned: bool
    pairs: bool
    pixels: str | None = None
    masked: bool = False
    segments: bool = False


@lru_cache(maxsize=256)
def program(
    device: Traits,
    dtype: str,
    tile: UnitTile,
    layout: Layout,
    epilogue: str = "",
    operands: int = 0,
    stored: tuple[tuple[str, object], ...] = (),
) -> str:
    """Returns the text of the kernel on a unit; ``stored`` are the ``result_defines`` of the tensor of the results."""
    partial, planes, instruction = tile.splits > 1, PRODUCTS[tile.parts], INSTRUCTIONS[tile.base]
    kind, twin = KINDS[kind_of(tile, dtype)], tile.unit.endswith("_twin")
    paired = instruction.sums.elements > 1 and not instruction.text
    result: tuple[tuple[str, object], ...] = (("RESULT", "OUT_STORAGE"), ("STORE_RESULT", "OUT_STORE"), *stored)
    if partial:
        result = (("RESULT", "SUM"), ("STORE_RESULT(x, p, i)", "((p)[i] = (x))"))
    defines: tuple[tuple[str, object], ...] = (
        ("SPAN_M", tile.m), ("SPAN_N", tile.n), ("SPAN_K", tile.k), ("WARPS_M", tile.warps_m),
        ("WARPS_N", tile.warps_n), ("STAGES", tile.stages), ("GROUP_ROWS", _GROUP_ROWS),
        ("A_ALONG", int(layout.a_along)), ("B_ALONG", int(layout.b_along)), ("CHUNKS_ALIGNED", int(layout.aligned)),
        ("PAIRS", int(layout.pairs and paired and not (partial or stored))),
        ("COLUMN_PIXELS", int(layout.pixels == "columns")), ("TERM_PIXELS", int(layout.pixels == "terms")),
        ("MASKED", int(layout.masked)), ("SEGMENTS", int(layout.segments)),
        *kind_defines(kind), *_instruction_defines(instruction), ("ATTRIBUTES", "" if twin else instruction.attributes),
        ("UNROLLED", int(not twin)), ("PARTS", tile.parts), ("PRODUCTS", len(planes)),
        ("A_PLANES", sum(a << 2 * i for i, (a, _) in enumerate(planes))),
        ("B_PLANES", sum(b << 2 * i for i, (_, b) in enumerate(planes))),
        *result, SHORT,
    )  # fmt: skip
    if tile.unit == "wgmma":
        defines = (*defines, _multiply(tile, (layout.a_along, layout.b_along), kind))
    names = ("contract_product", "division", "matrix_unit_tile", *_templates(tile.unit), "contract_matrix_unit")
    multiply = {"multiply_accumulate": instruction.text.get(kind.name, "")}
    return epilogue_source(device, dtype, ("roles", *names), defines, epilogue, operands, multiply)


@lru_cache(maxsize=1024)
def _in_words(rows: SegmentedRows, words: int) -> SegmentedRows:
    """Returns a contraction with sizes and distances of operands in words (``words`` per element); for the argument of
    the kernel only, since steps of 1 along k stay 1.
    """
    if words == 1:
        return rows
    c = rows.dense
    steps = dense_steps(c)
    assert steps is not None
    a_k, b_k, b_n, _ = steps

    def scaled(distances: tuple[int, int]) -> tuple[int, int]:
        return distances[0] * words, distances[1] * words

    n, k = prod(c.n), prod(c.k)
    dense = replace(
        c, k=(1, 1, 1, k * words), a_k=(0, 0, 0, a_k * words if a_k != 1 else 1), a_row=c.a_row * words,
        b_k=(0, 0, 0, b_k * words if b_k != 1 else 1), n=(1, 1, 1, n), b_n=(0, 0, 0, b_n * words),
        out_n=(0, 0, 0, steps[3]), a_offset=c.a_offset * words, b_offset=c.b_offset * words,
        a_batch=scaled(c.a_batch), b_batch=scaled(c.b_batch),
    )  # fmt: skip
    return SegmentedRows(dense, rows.segment * words, rows.a_jump * words, rows.b_jump * words)


@lru_cache(maxsize=1024)
def _layout(rows: SegmentedRows, words: int, depth: int, pixels: Pixels | None) -> Layout:
    """Returns the layout of a contraction in elements, for tiles of ``depth`` along k."""
    c, steps = rows.dense, dense_steps(rows.dense)
    assert steps is not None
    a_k, b_k, b_n, out_n = steps
    a_along, b_along = a_k == 1, b_k == 1
    distances: tuple[int, ...] = (
        c.a_row if a_along else a_k, b_n if b_along else b_k, c.a_offset, c.b_offset, *c.a_batch, *c.b_batch,
        *rows[-2:],
    )  # fmt: skip
    of_columns = pixels is not None and pixels.of_columns
    of_images: tuple[int, ...] = ()
    if pixels is not None:
        distances = (*distances, pixels.image, pixels.row, pixels.pixel, pixels.jump)
        of_images = (pixels.plane, pixels.out) if pixels.of_columns else ()
    results = (c.out_row, c.out_offset, *c.out_batch, prod(c.n), *of_images)
    return Layout(
        a_along, b_along, all(step * words % CHUNK == 0 for step in distances),
        out_n == 1 and all(step % 2 == 0 for step in results),
        None if pixels is None else "columns" if of_columns else "terms",
        pixels is not None and of_columns and (pixels.valid < pixels.segment or prod(c.k) % depth != 0), rows.jumps,
    )  # fmt: skip


def contract(
    engine: Any,
    c: Contraction,
    tile: UnitTile,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    out_part: int,
    fused: FusedEpilogue | None = None,
    pixels: Pixels | None = None,
) -> None:
    """Runs a product into ``out``: partial sum s goes to ``out`` + s * ``out_part`` in float32; without split-K, the
    result. Columns of B and the result, or rows of B, may be ``pixels``. The index k may have segments of a multiple of
    eight.
    """
    epilogue, count, more = trailing_args(fused, b)
    stored = result_defines(out)
    launch = _launch(traits(engine), a.dtype, tile, c, out_part, epilogue, count, pixels, stored)
    operands, whole = [a, b], []
    if tile.parts or launch.rounded:
        planes = planes_of(engine, a, tile.parts)
        operands = [planes, planes if b is a else planes_of(engine, b, tile.parts)]
    if tile.parts:
        whole = [a, b, np.int64(a.size), np.int64(b.size)]
    engine.launch(
        launch.text, "matrix_unit", launch.size, launch.group, [*operands, out, *launch.numbers, *whole, *more]
    )


class _Launch(NamedTuple):
    """The launch of a product: the kernel's text, the work-items of all groups and of one, the arguments between the
    result and the whole operands, and True if float32 operands are rounded before.
    """

    text: str
    size: tuple[int, int, int]
    group: tuple[int, int, int]
    numbers: tuple[Any, ...]
    rounded: bool


@lru_cache(maxsize=1024)
def _launch(
    device: Traits,
    dtype: str,
    tile: UnitTile,
    c: Contraction,
    out_part: int,
    epilogue: str,
    count: int,
    pixels: Pixels | None,
    stored: tuple[tuple[str, object], ...],
) -> _Launch:
    rows = segmented(c)
    if rows is None or (rows.jumps and rows.segment % CHUNK):
        raise ValueError(f"{tile.unit}: no kernel for this contraction: its segments must be multiples of {CHUNK}")
    words, instruction = KINDS[kind_of(tile, dtype)].words, INSTRUCTIONS[tile.base]
    layout = _layout(rows, words, tile.k, pixels)
    along = layout.a_along and layout.b_along
    if words > 1 and not instruction.across and not along:
        raise ValueError(f"{tile.unit}: operands of {dtype} must be contiguous along k")
    if rows.jumps and (tile.parts or not (layout.a_along and (along or layout.pixels == "terms"))):
        raise ValueError(f"{tile.unit}: operands with segments must be contiguous along k, and not be in parts")
    rows = _in_words(rows, words)
    c = rows.dense
    form = tile._replace(splits=min(tile.splits, 2))
    text = program(device, dtype, form, layout, epilogue, count, stored)
    items = instruction.lanes * tile.warps_m * tile.warps_n
    groups = -(-prod(c.n) // tile.n) * -(-c.m // tile.m)
    part = -(-prod(c.k) // (tile.splits * tile.k)) * tile.k
    numbers = (
        wide_argument(c), np.int32(tile.splits), np.int32(part), np.int64(out_part),
        *([struct(divisor(rows.segment)), np.int32(rows.a_jump), np.int32(rows.b_jump)] if rows.jumps else []),
        *([] if pixels is None else [pixels.argument]),
    )  # fmt: skip
    size = (groups * items, 1, prod(c.batch) * tile.splits)
    return _Launch(text, size, (items, 1, 1), numbers, instruction.rounded and words > 1)


def split_program(parts: int) -> str:
    """Returns the text of the kernel that splits float32 into bfloat16 planes, or for 0 ``parts`` rounds it to TF32."""
    if not parts:
        return source(("matrix_unit_round",), ())
    return source(("matrix_unit_split",), (("PARTS", parts),))


_RECENT = 4  # planes that a recording keeps: the gradients of a product take its operands again


def planes_of(engine: Any, x: TensorData, parts: int) -> TensorData:
    """Returns the bfloat16 planes of a float32 operand, (parts, elements), or for 0 ``parts`` its elements rounded to
    TF32; within a recording, which replays writes in order, it returns the planes of the last products if x has not
    been written since.
    """
    return copied(engine, x, "planes", parts, partial(_split, engine, x, parts), _RECENT)


def _split(engine: Any, x: TensorData, parts: int) -> TensorData:
    if not parts:
        rounded: TensorData = engine.empty((x.size,), "float32")
        items = -(-x.size // _SPLITTERS) * _SPLITTERS
        engine.launch(split_program(0), "round_tf32", (items,), (_SPLITTERS,), [x, rounded, np.int64(x.size)])
        return rounded
    planes: TensorData = engine.empty((parts, x.size), "bfloat16")
    items = -(-x.size // (_OF_A_SPLITTER * _SPLITTERS)) * _SPLITTERS
    engine.launch(split_program(parts), "split_parts", (items,), (_SPLITTERS,), [x, planes, np.int64(x.size)])
    return planes


def engine_of_driver(key: str) -> Any:
    """Returns the engine of the first device with the driver ``key``, for a trial in a child process.

    Raises LookupError if there is no such device.
    """
    for selector, _, device in manager.numbered():
        if driver_key(device) == key:
            return engine_for(manager.default(selector))
    raise LookupError(f"the child does not find the device {key}")
