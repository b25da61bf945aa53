"""Winograd convolution (minimal filtering) of 3 x 3 kernels at stride 1 on CPU devices: all three directions.

A tile of t x t results costs (t + 2)^2 products for each pair of channels instead of 9 t^2: 2.25 times fewer for t = 2,
4 times fewer for t = 4. ``ERROR`` bounds the rounding error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.cpu import cpu_tiles
from netcl.core.backend.opencl.contraction.cpu.cpu_tiles import RowStrides
from netcl.core.backend.opencl.contraction.cpu.transposes import transposes_text, windows_text
from netcl.core.backend.opencl.contraction.fused_epilogue import (
    SAME,
    FusedEpilogue,
    members,
    operand_parts,
)
from netcl.core.backend.opencl.contraction.launch import contract
from netcl.core.backend.opencl.templates import Traits, filled_program, struct, traits
from netcl.core.engine.lasting import lasting_or_new
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.tiles import cpu_tile
from netcl.core.tuning.winograd import Problem

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

# Bounds of |result - exact| in float32, by tile, over the sum of the products' absolute values: the largest of a plane,
# since the errors within a tile are correlated.
ERROR = {2: 2e-6, 4: 8e-6}
# Bytes of tiles at a time, which stay in caches from one kernel to the next: of images (a single one may take more) and
# of weights. Blocks are larger if several blocks of images need the same large weights, or if sums continue from one
# block to the next.
_TILES, _WEIGHTS, _WORKSPACE = 8 * 2**20, 5 * 2**20, 12 * 2**20
_UNITS, _ITEMS = 64, 32  # work-items, of sums of weights and of transforms
_SPAN = 4  # most vectors of tiles of a work-item: of few images, with powers of two as distances
# Elements between the tiles of products: at distances of powers of two they would share the same sets of a cache.
_GAP = 16
# Of convolutions in one launch: vectors of tiles and tiles of rows of a block, most bytes of its tiles, and for each
# compute unit the least number of blocks and the number of work-items.
_COLUMNS, _BLOCK_ROWS, _BLOCK, _LEAST_BLOCKS, _OF_A_UNIT = 2, 2, 640 * 2**10, 2, 2
_LEAST_ITEMS = 4  # work-items for each compute unit, of the gradient of weights from few tiles
_ROW_TILES, _RUNS = 4, 32  # of a work-item that transforms weights: tiles of rows, vectors of their panels
# The value of an operand of an epilogue, for a plane.
_OPERAND = "(REALV)(LOAD(e{k}, all.operands[{i}].offset + plane * all.operands[{i}].row))"
# Of the kernels that read images, the matrix and the elements of a window's edge beyond a tile's.
_WINDOWS = {"data_tiles": ("DATA", 2), "gradient_tiles": ("GRADIENT", 0)}


@lru_cache(maxsize=64)
def _tiles_program(device: Traits, dtype: str, tile: int, kernel: str) -> str:
    """Returns the text of ``data_tiles`` or ``gradient_tiles``."""
    matrix, more = _WINDOWS[kernel]
    window = tile + more
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", device.vector), ("TILE", tile), ("TILES_KERNEL", kernel),
        ("TILES_MATRIX", matrix), ("WINDOW", window), ("SPAN", _SPAN),
    )  # fmt: skip
    parts = {"windows": windows_text(device.vector, 1 << (window - 1).bit_length(), window)}
    names = ("storage", "gathered", "winograd_matrices", "winograd_places", "winograd_windows")
    return filled_program((*names, "contract_winograd_windows"), defines, parts)


@lru_cache(maxsize=64)
def _program(device: Traits, dtype: str, tile: int, epilogue: str = "", operands: int = 1) -> str:
    """Returns the text of the kernels for weights and outputs."""
    rows = cpu_tile(device, "float32").rows
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", device.vector), ("TILE", tile), ("ROWS", rows),
        ("OPERANDS", operands), ("SPAN", _SPAN), ("ROW_TILES", _ROW_TILES),
    )  # fmt: skip
    parts = operand_parts(epilogue, operands, "REALV", _OPERAND) | {
        "windows": windows_text(device.vector, 8, 8),
        "transposes": transposes_text(device.vector),
    }
    names = ("storage", "gathered", "contract_operands", "winograd_matrices", "winograd_places", "winograd_targets")
    return filled_program((*names, "winograd_taps", "contract_winograd"), defines, parts, epilogue)


@lru_cache(maxsize=64)
def _gradients_program(device: Traits, dtype: str, tile: int) -> str:
    """Returns the text of the kernel for the products of the gradients of weights, and their transform."""
    rows = cpu_tile(device, "float32").rows
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", device.vector), ("VECTORS", _COLUMNS), ("TILE", tile), ("ROWS", rows),
    )  # fmt: skip
    parts = {"transposes": transposes_text(device.vector)}
    shared = ("storage", "gathered", "winograd_matrices", "winograd_places", "winograd_targets", "winograd_taps")
    return filled_program((*shared, "contract_registers", "contract_winograd_gradients"), defines, parts)


@lru_cache(maxsize=64)
def _images_program(device: Traits, dtype: str, tile: int, epilogue: str = "", operands: int = 1) -> str:
    """Returns the text of the kernel for both transforms and the products in between."""
    rows, window = cpu_tile(device, "float32").rows, tile + 2
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", device.vector), ("VECTORS", _COLUMNS), ("TILE", tile), ("ROWS", rows),
        ("OPERANDS", operands), ("TILES_MATRIX", "DATA"), ("WINDOW", window), ("BLOCK_ROWS", _BLOCK_ROWS),
    )  # fmt: skip
    parts = operand_parts(epilogue, operands, "REALV", _OPERAND) | {
        "windows": windows_text(device.vector, 1 << (window - 1).bit_length(), window),
        "transposes": transposes_text(device.vector),
    }
    shared = ("storage", "gathered", "contract_operands", "winograd_matrices", "winograd_places", "winograd_windows")
    names = (*shared, "winograd_targets", "contract_registers", "contract_winograd_images")
    return filled_program(names, defines, parts, epilogue)


def _blocks(p: Problem, most: int) -> tuple[tuple[int, int], ...]:
    """Returns (first, count) of each block of images; the tiles of a block, of at most so many bytes, are in memory
    together.
    """
    bytes_per_image = 4 * p.products * prod(p.across) * (p.ins + p.outs)
    block = max(1, most // bytes_per_image)
    return tuple((first, min(block, p.batch - first)) for first in range(0, p.batch, block))


def _row_blocks(p: Problem, device: Traits, images: int) -> Iterator[tuple[int, Problem]]:
    """Returns the first plane of results, and the problem, of each block of weights; the tiles of a block are in memory
    together. One block has all weights if there are several blocks of ``images``, as each needs them all.
    """
    rows = cpu_tile(device, "float32").rows
    most = max(rows * device.units, _WEIGHTS // (4 * p.products * p.ins))
    blocks = -(-p.outs // most) if images == 1 else 1
    count = -(-p.outs // (blocks * rows)) * rows
    return ((first, p._replace(outs=min(count, p.outs - first))) for first in range(0, p.outs, count))


class _Tiles(NamedTuple):
    """The tiles of a block of images."""

    total: int
    stride: int  # elements of a row of tiles: whole vectors


def _tiles(p: Problem, images: int, device: Traits) -> _Tiles:
    count = images * prod(p.across)
    return _Tiles(count, -(-count // device.vector) * device.vector)


class _Images(NamedTuple):
    """Planes of images: ``planes`` from element ``first`` on, of images of ``whole`` planes, ``length`` elements in
    all; ``low`` rows and columns of zeros are in front of each.
    """

    planes: int
    whole: int
    size: tuple[int, int]
    low: tuple[int, int]
    first: int
    length: int


@lru_cache(maxsize=512)
def _tiling(p: Problem, tiles: _Tiles, images: _Images, vector: int) -> tuple[int, tuple[int, ...]]:
    """Returns the work-items, and the members of ``tiling``."""
    span = max(1, min(_SPAN, prod(p.across) // vector))
    groups = -(-tiles.stride // (span * vector))
    each = -(-images.planes // max(1, min(images.planes, -(-_ITEMS // groups))))
    plane = prod(images.size)
    argument = (
        images.planes, tiles.total, tiles.stride, images.planes * tiles.stride + _GAP, span, each, *p.across[::-1],
        plane, images.whole * plane, images.first, *images.size, images.length, *images.low,
    )  # fmt: skip
    return groups * -(-images.planes // each), argument


def _transformed(engine: Any, p: Problem, name: str, x: TensorData, first: int, tiles: _Tiles) -> TensorData:
    """Computes the tiles of images (``data_tiles``) or of output gradients (``gradient_tiles``) from image ``first``
    on, in the layout of ``_memory``.
    """
    device = traits(engine)
    _, planes, *size = x.shape
    low = p.low if name == "data_tiles" else (0, 0)
    images = _Images(planes, planes, (size[0], size[1]), low, first * planes * prod(size), x.size)
    units, argument = _tiling(p, tiles, images, device.vector)
    result = _memory(engine, p, planes, tiles)
    text = _tiles_program(device, x.dtype, p.tile, name)
    engine.launch(text, name, (units,), (1,), [x, result, struct(argument)])
    return result


def _memory(engine: Any, p: Problem, planes: int, tiles: _Tiles) -> TensorData:
    """Allocates memory for the tiles of planes: (products, planes * stride), and a gap after each product."""
    result: TensorData = engine.empty((p.products, planes * tiles.stride + _GAP), "float32")
    return result


@lru_cache(maxsize=512)
def _panels(p: Problem, device: Traits) -> tuple[int, int]:
    """Returns the elements of a tile of rows, and of a product, of the tiles of weights."""
    rows = cpu_tile(device, "float32").rows
    panel = -(-p.ins * rows // device.vector) * device.vector
    return panel, -(-p.outs // rows) * panel + _GAP


def _weights(
    engine: Any, whole: Problem, p: Problem, weight: TensorData, first: int, flipped: bool
) -> tuple[TensorData, RowStrides]:
    """Computes the tiles of a block of the weights of the ``whole`` problem, from row ``first`` on, as the
    contraction's panels of rows; ``flipped``: for the gradient of the input.
    """
    device = traits(engine)
    rows = cpu_tile(device, "float32").rows
    panel, step = _panels(p, device)
    steps = (9, whole.outs * 9) if flipped else (p.ins * 9, 9)
    argument = struct(p.outs, p.ins, panel, step, _RUNS, steps, first * steps[0], int(flipped))
    units = -(-p.outs // (rows * _ROW_TILES)) * -(-panel // (_RUNS * device.vector))
    text = _program(device, weight.dtype, p.tile)

    def fill(panels: TensorData) -> None:
        engine.launch(text, "weight_tiles", (units,), (1,), [weight, panels, argument])

    panels = lasting_or_new(engine, weight, ("tiles", p, first, flipped), (p.products, step), "float32", fill)
    return panels, RowStrides(1, rows, panel, (0, step), 0)


@lru_cache(maxsize=512)
def _products(p: Problem, tiles: _Tiles) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, p.ins), n=(1, 1, 1, tiles.stride), a_row=1, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, tiles.stride), b_n=(0, 0, 0, 1), out_row=tiles.stride, out_n=(0, 0, 0, 1),
        batch=(1, p.products), b_batch=(0, p.ins * tiles.stride + _GAP), out_batch=(0, p.outs * tiles.stride + _GAP),
    )  # fmt: skip


@lru_cache(maxsize=512)
def _weight_products(whole: Problem, p: Problem, tiles: _Tiles, row: int, accumulate: bool) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, tiles.total), n=(1, 1, 1, p.ins), a_row=tiles.stride, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, 1), b_n=(0, 0, 0, tiles.stride), out_row=p.ins, out_n=(0, 0, 0, 1), batch=(1, p.products),
        a_offset=row * tiles.stride, a_batch=(0, whole.outs * tiles.stride + _GAP),
        b_batch=(0, p.ins * tiles.stride + _GAP), out_batch=(0, p.outs * p.ins + _GAP), accumulate=accumulate,
        partial=True,
    )  # fmt: skip


def supports_epilogue(fused: FusedEpilogue | None) -> bool:
    """True if ``run`` can fuse the epilogue: each operand has one value for a plane."""
    return fused is None or all(layout.stride_kind == SAME for layout in fused.layouts)


def _in_one_launch(p: Problem, device: Traits) -> bool:
    """True if the tiles of a block of all planes fit a core's cache, and there are enough blocks for all cores."""
    columns = _COLUMNS * device.vector
    blocks = p.batch * prod(p.across) // columns
    short = p.batch * max(p.ins * prod(p.size), p.outs * prod(p.out)) < 1 << 30  # offsets in images have 32 bits
    return short and 4 * p.products * p.ins * columns <= _BLOCK and blocks >= _LEAST_BLOCKS * device.units


@lru_cache(maxsize=512)
def _filtering(p: Problem, device: Traits, lengths: tuple[int, int]) -> tuple[int, int, tuple[int, ...]]:
    """Returns the work-items, the elements of scratch of all, and the members of ``filtering`` before the
    epilogue's.
    """
    tiles, rows = _tiles(p, p.batch, device), cpu_tile(device, "float32").rows
    columns = _COLUMNS * device.vector
    count = -(-tiles.total // columns)
    blocks = -(-count // (_OF_A_UNIT * device.units))
    data, sums = p.ins * columns + _GAP, _BLOCK_ROWS * rows * columns + _GAP
    scratch = p.products * (data + sums)
    _, of_inputs = _tiling(p, tiles, _Images(p.ins, p.ins, p.size, p.low, 0, lengths[0]), device.vector)
    _, of_outputs = _tiling(p, tiles, _Images(p.outs, p.outs, p.out, (0, 0), 0, lengths[1]), device.vector)
    items = -(-count // blocks)
    return items, items * scratch, (*of_inputs, *of_outputs, blocks, scratch, *_panels(p, device), data, sums)


def _run_in_one_launch(
    engine: Any,
    p: Problem,
    x: TensorData,
    weight: TensorData,
    out: TensorData,
    fused: FusedEpilogue | None,
    flipped: bool,
) -> None:
    """Computes ``run`` with a block of tiles at a time in each core's cache."""
    device = traits(engine)
    text, operands, layouts = fused or ("", (), None)
    panels, _ = _weights(engine, p, p, weight, 0, flipped)
    items, size, filtering = _filtering(p, device, (x.size, out.size))
    scratch: TensorData = engine.empty((size,), "float32")
    argument = struct(filtering, int(layouts is not None), members(layouts))
    program = _images_program(device, out.dtype, p.tile, text, max(1, len(operands)))
    arguments = [x, panels, out, scratch, argument, *(operands or (out,))]
    engine.launch(program, "filter_images", (items,), (1,), arguments)


def run(
    engine: Any,
    p: Problem,
    x: TensorData,
    weight: TensorData,
    out: TensorData,
    fused: FusedEpilogue | None,
    flipped: bool,
) -> None:
    """Computes the forward direction, or with ``flipped`` weights the gradient of the input, into ``out``."""
    device = traits(engine)
    if _in_one_launch(p, device):
        _run_in_one_launch(engine, p, x, weight, out, fused, flipped)
        return
    text, operands, layouts = fused or ("", (), None)
    program = _program(device, out.dtype, p.tile, text, max(1, len(operands)))
    plane = prod(p.out)
    blocks = _blocks(p, _WORKSPACE if 4 * p.products * p.ins * p.outs > _WEIGHTS else _TILES)
    data = rows = None
    for row, part in _row_blocks(p, device, len(blocks)):
        rows = None  # frees its memory first, as below
        rows = _weights(engine, p, part, weight, row, flipped)
        placed = layouts and tuple(layout._replace(offset=layout.offset + row * layout.row) for layout in layouts)
        for first, images in blocks:
            tiles = _tiles(p, images, device)
            if data is None or len(blocks) > 1:
                data = None
                data = _transformed(engine, p, "data_tiles", x, first, tiles)
            sums = _memory(engine, p, part.outs, tiles)
            cpu_tiles.contract_rows(engine, _products(part, tiles), rows, data, sums)
            offset = (first * p.outs + row) * plane
            targets = _Images(part.outs, p.outs, p.out, (0, 0), offset, out.size)
            units, argument = _tiling(p, tiles, targets, device.vector)
            finished = struct(argument, int(placed is not None), members(placed))
            engine.launch(program, "output_tiles", (units,), (1,), [sums, out, finished, *(operands or (out,))])


@lru_cache(maxsize=512)
def _gradients(p: Problem, device: Traits, tiles: _Tiles) -> tuple[int, int, Any]:
    """Returns the work-items, the elements of scratch of all, and the argument of ``filter_gradients``."""
    rows, columns = cpu_tile(device, "float32").rows, _COLUMNS * device.vector
    strips, row_tiles = -(-p.ins // columns), -(-p.outs // rows)
    each = -(-row_tiles // max(1, min(row_tiles, -(-_LEAST_ITEMS * device.units // strips))))
    strip, sums = tiles.stride * columns + _GAP, rows * columns + _GAP
    scratch = p.products * (strip + sums)
    items = strips * -(-row_tiles // each)
    argument = struct(
        p.outs, p.ins, tiles.total, tiles.stride, each, scratch, p.outs * tiles.stride + _GAP,
        p.ins * tiles.stride + _GAP, strip, sums,
    )  # fmt: skip
    return items, items * scratch, argument


def _grad_weight_of_few_tiles(engine: Any, p: Problem, x: TensorData, grad: TensorData, out: TensorData) -> None:
    """Computes ``grad_weight`` with its sums in each core's cache."""
    device = traits(engine)
    tiles = _tiles(p, p.batch, device)
    data = _transformed(engine, p, "data_tiles", x, 0, tiles)
    grads = _transformed(engine, p, "gradient_tiles", grad, 0, tiles)
    items, size, argument = _gradients(p, device, tiles)
    scratch: TensorData = engine.empty((size,), "float32")
    text = _gradients_program(device, out.dtype, p.tile)
    engine.launch(text, "filter_gradients", (items,), (1,), [grads, data, out, scratch, argument])


def grad_weight(engine: Any, p: Problem, x: TensorData, grad: TensorData, out: TensorData) -> None:
    """Computes the gradient of the weights into ``out``."""
    device = traits(engine)
    blocks = _blocks(p, _WORKSPACE)
    stride = _tiles(p, p.batch, device).stride
    if len(blocks) == 1 and 4 * p.products * stride * _COLUMNS * device.vector <= _BLOCK:
        _grad_weight_of_few_tiles(engine, p, x, grad, out)
        return
    program = _program(device, out.dtype, p.tile)
    data = grads = sums = None
    for row, part in _row_blocks(p, device, len(blocks)):
        size = part.outs * p.ins
        sums = None  # frees its memory first, as below
        sums = engine.empty((p.products * (size + _GAP),), "float32")
        for first, images in blocks:
            tiles = _tiles(p, images, device)
            if data is None or grads is None or len(blocks) > 1:
                data = grads = None
                data = _transformed(engine, p, "data_tiles", x, first, tiles)
                grads = _transformed(engine, p, "gradient_tiles", grad, first, tiles)
            products = _weight_products(p, part, tiles, row, first > 0)
            contract(engine, products, grads, data, sums, variant="rows")
        items = min(-(-size // device.vector), _UNITS)
        arguments = [sums, out, *(np.int64(n) for n in (size, size + _GAP, items, 9 * row * p.ins))]
        engine.launch(program, "weight_sums", (items,), (1,), arguments)
