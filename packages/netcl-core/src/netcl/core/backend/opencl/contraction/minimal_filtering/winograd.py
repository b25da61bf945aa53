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
from netcl.core.backend.opencl.contraction.fused_epilogue import (
    SAME,
    FusedEpilogue,
    OperandLayout,
    members,
    operand_parts,
)
from netcl.core.backend.opencl.contraction.pads.padding import padded_images
from netcl.core.backend.opencl.templates import Traits, filled, source, struct, traits
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.tiles import cpu_tile
from netcl.core.tuning.winograd import Problem

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

# Bounds of |result - exact| in float32, by tile, over the sum of the products' absolute values: the largest of a plane,
# since the errors within a tile are correlated.
ERROR = {2: 2e-6, 4: 8e-6}
# Bytes of tiles at a time, which stay in caches from one kernel to the next: of images, of which a single one may take
# more, and of weights. Where several blocks of images need the same large weights, and where sums are continued from
# one block to the next, blocks are larger.
_TILES, _WEIGHTS, _WORKSPACE = 8 * 2**20, 5 * 2**20, 12 * 2**20
_UNITS = 64


@lru_cache(maxsize=64)
def _program(device: Traits, dtype: str, tile: int, epilogue: str = "", operands: int = 1) -> str:
    rows = cpu_tile(device, "float32").rows
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", device.vector), ("TILE", tile), ("ROWS", rows),
        ("OPERANDS", operands),
    )  # fmt: skip
    parts = operand_parts(
        epilogue, operands, "REALV", "(REALV)(LOAD(e{k}, g.operands[{i}].offset + plane * g.operands[{i}].row))"
    )
    return (
        filled(
            source(("storage", "gathered", "contract_operands", "winograd_matrices", "contract_winograd"), defines),
            parts,
        )
        + epilogue
    )


def _blocks(p: Problem, most: int) -> tuple[tuple[int, int], ...]:
    """(first, count) of the images whose tiles, of at most so many bytes, are in memory together."""
    bytes_per_image = 4 * p.products * prod(p.across) * (p.ins + p.outs)
    block = max(1, most // bytes_per_image)
    return tuple((first, min(block, p.batch - first)) for first in range(0, p.batch, block))


def _row_blocks(p: Problem, device: Traits, images: int) -> Iterator[tuple[int, Problem]]:
    """The first plane of results, and the problem, of each block of weights whose tiles are in memory together: all if
    there are several blocks of ``images``, each of which needs them all.
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


@lru_cache(maxsize=512)
def _tiling(
    p: Problem,
    tiles: _Tiles,
    planes: int,
    extent: tuple[int, int],
    offset: int,
    vector: int,
    image: int,
    layouts: tuple[OperandLayout, ...] | None = None,
) -> tuple[int, Any]:
    """The work-items, and the argument of the kernels, for tiles of ``planes`` of images of ``image`` elements."""
    groups = tiles.stride // vector
    items = max(1, min(groups, -(-_UNITS // planes)))
    plane = prod(extent)
    argument = struct(
        planes, tiles.total, tiles.stride, items, p.across[1], prod(p.across), extent[1], plane, image, offset,
        extent, int(layouts is not None), members(layouts),
    )  # fmt: skip
    return planes * items, argument


def _padded(
    engine: Any, x: TensorData, first: int, images: int, low: tuple[int, int], extent: tuple[int, int]
) -> tuple[TensorData, int]:
    """Images whose planes have ``extent``, and the offset of the first; x itself if its planes have it."""
    planes, size = x.shape[1], (x.shape[2], x.shape[3])
    if size == extent and low == (0, 0):
        return x, first * planes * prod(size)
    return padded_images(engine, x, planes, (1, *size), (0, *low), (1, *extent), first, images), 0


def _transformed(
    engine: Any, p: Problem, name: str, x: TensorData, first: int, images: int, tiles: _Tiles
) -> TensorData:
    """The tiles of images (``data_tiles``) or of output gradients (``gradient_tiles``): (products, planes, stride)."""
    device = traits(engine)
    edge = 2 if name == "data_tiles" else 0
    extent = (p.across[0] * p.tile + edge, p.across[1] * p.tile + edge)
    images_in, offset = _padded(engine, x, first, images, p.low if edge else (0, 0), extent)
    planes = x.shape[1]
    result: TensorData = engine.empty((p.products, planes, tiles.stride), "float32")
    units, argument = _tiling(p, tiles, planes, extent, offset, device.vector, planes * prod(extent))
    engine.launch(_program(device, x.dtype, p.tile), name, (units,), (1,), [images_in, result, argument])
    return result


def _weights(
    engine: Any, whole: Problem, p: Problem, weight: TensorData, first: int, flipped: bool
) -> tuple[TensorData, RowStrides]:
    """The tiles of a block of the weights of the ``whole`` problem, from row ``first`` on, as the contraction's panels
    of rows; ``flipped``: for the gradient of the input.
    """
    device = traits(engine)
    rows = cpu_tile(device, "float32").rows
    tiles = -(-p.outs // rows)
    panel = -(-p.ins * rows // device.vector) * device.vector
    steps = (9, whole.outs * 9) if flipped else (p.ins * 9, 9)
    panels: TensorData = engine.empty((p.products, tiles * panel), "float32")
    argument = struct(p.outs, p.ins, panel, steps, first * steps[0], int(flipped))
    text = _program(device, weight.dtype, p.tile)
    engine.launch(text, "weight_tiles", (tiles,), (1,), [weight, panels, argument])
    return panels, RowStrides(1, rows, panel, (0, tiles * panel), 0)


@lru_cache(maxsize=512)
def _products(p: Problem, tiles: _Tiles) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, p.ins), n=(1, 1, 1, tiles.stride), a_row=1, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, tiles.stride), b_n=(0, 0, 0, 1), out_row=tiles.stride, out_n=(0, 0, 0, 1),
        batch=(1, p.products), b_batch=(0, p.ins * tiles.stride), out_batch=(0, p.outs * tiles.stride),
    )  # fmt: skip


@lru_cache(maxsize=512)
def _weight_products(whole: Problem, p: Problem, tiles: _Tiles, row: int, accumulate: bool) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, tiles.total), n=(1, 1, 1, p.ins), a_row=tiles.stride, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, 1), b_n=(0, 0, 0, tiles.stride), out_row=p.ins, out_n=(0, 0, 0, 1), batch=(1, p.products),
        a_offset=row * tiles.stride, a_batch=(0, whole.outs * tiles.stride), b_batch=(0, p.ins * tiles.stride),
        out_batch=(0, p.outs * p.ins), accumulate=accumulate, partial=True,
    )  # fmt: skip


def supports_epilogue(fused: FusedEpilogue | None) -> bool:
    """True if ``run`` can fuse the epilogue: each operand has one value for a plane."""
    return fused is None or all(layout.stride_kind == SAME for layout in fused.layouts)


def run(
    engine: Any,
    p: Problem,
    x: TensorData,
    weight: TensorData,
    out: TensorData,
    fused: FusedEpilogue | None,
    flipped: bool,
) -> None:
    """The forward direction, or with ``flipped`` weights the gradient of the input, into ``out``."""
    device = traits(engine)
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
                data = _transformed(engine, p, "data_tiles", x, first, images, tiles)
            sums: TensorData = engine.empty((p.products, part.outs, tiles.stride), "float32")
            cpu_tiles.contract_rows(engine, _products(part, tiles), rows, data, sums)
            offset = (first * p.outs + row) * plane
            units, argument = _tiling(p, tiles, part.outs, p.out, offset, device.vector, p.outs * plane, placed)
            engine.launch(program, "output_tiles", (units,), (1,), [sums, out, argument, *(operands or (x,))])


def grad_weight(engine: Any, p: Problem, x: TensorData, grad: TensorData, out: TensorData) -> None:
    """The gradient of the weights into ``out``."""
    device = traits(engine)
    program = _program(device, out.dtype, p.tile)
    blocks = _blocks(p, _WORKSPACE)
    data = grads = sums = None
    for row, part in _row_blocks(p, device, len(blocks)):
        size = part.outs * p.ins
        sums = None  # frees its memory first, as below
        # Whole vectors are read, also at the end.
        sums = engine.empty((p.products * size + device.vector,), "float32")
        for first, images in blocks:
            tiles = _tiles(p, images, device)
            if data is None or grads is None or len(blocks) > 1:
                data = grads = None
                data = _transformed(engine, p, "data_tiles", x, first, images, tiles)
                grads = _transformed(engine, p, "gradient_tiles", grad, first, images, tiles)
            products = _weight_products(p, part, tiles, row, first > 0)
            cpu_tiles.contract(engine, products, grads, data, sums, variant="rows")
        items = min(-(-size // device.vector), _UNITS)
        arguments = [sums, out, *(np.int64(n) for n in (size, items, 9 * row * p.ins))]
        engine.launch(program, "weight_sums", (items,), (1,), arguments)
