"""Convolutions on matrix units: implicit GEMM on zero-padded images with adjacent channels (NHWC).

With stride 1 the results of all pixels of the padded images, those of the border included, read one sequence of
pixels: result p sums over the rows of the filter, each ``kernel width x channels`` adjacent elements from pixel
p + row * width on. So a convolution is a product whose index k has segments; results at border pixels are not stored.

With stride s result p reads from pixel s * p + row * width on; rows of results have a distance of ``width`` too, and
1 / s of them are wanted. The gradient by the images is a convolution of stride 1 of the gradients with zeros between
them.

One launch lays out both operands. The layout of the filters is not kept between calls: it would save no launch, only
work that is small next to that of the images.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue
from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import Matrices, reduce_partials
from netcl.core.backend.opencl.templates import source, traits
from netcl.core.dtypes import itemsize
from netcl.core.tuning.matrix_units import CHUNK, tile_of
from netcl.core.tuning.problems import Contraction, Geometry, segmented
from netcl.core.tuning.unit_table import UnitTile

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

Pair = tuple[int, int]

__all__ = ["grad_weight", "run"]

_ITEMS, _PIXELS, _CHANNELS, _EACH = 256, 64, 64, 4  # of a work-group of unit_operands.cl


@lru_cache(maxsize=4)
def _operands_program(size: int, filters: bool) -> str:
    """The text of the kernel that lays out operands of elements of ``size`` bytes: images, and filters or images."""
    defines = (
        ("BYTES", size), ("ITEMS", _ITEMS), ("PIXELS", _PIXELS), ("CHANNELS", _CHANNELS), ("EACH", _EACH),
        ("FILTERS", int(filters)),
    )  # fmt: skip
    return source(("unit_operands",), defines)


class _Padding(NamedTuple):
    """Images of ``shape`` (N, C, H, W) as (N, *padded, C): pixels at ``low`` and from there on at distances of
    ``spread``, zeros elsewhere; pixels outside ``padded`` are left out.
    """

    shape: tuple[int, int, int, int]
    low: Pair
    padded: Pair
    spread: int = 1


class _Rows(NamedTuple):
    """The other operand as ``height`` rows of ``length`` elements, by the ``numbers`` of unit_operands.cl."""

    height: int
    length: int
    numbers: tuple[int, ...]
    filters: bool


def _filters(g: Geometry, backwards: bool) -> _Rows:
    """The filters (out, in, *kernel) as (out, *kernel, in), or turned around as (in, *kernel, out)."""
    outs, ins, taps = g.filters, g.channels, prod(g.kernel)
    if backwards:
        return _Rows(ins, taps * outs, (outs, taps, ins * taps, taps - 1, -1), True)
    return _Rows(outs, taps * ins, (ins, ins * taps, taps, 0, 1), True)


def _laid_out(
    engine: Any, images: TensorData, padding: _Padding, other: TensorData, rows: _Rows
) -> tuple[TensorData, int]:
    """Both operands in one tensor, and the number of its first element that is not of the images."""
    n, channels, *_ = padding.shape
    begin = n * channels * prod(padding.padded)
    begin += -begin % CHUNK
    out: TensorData = engine.empty((begin + rows.height * rows.length,), images.dtype)
    numbers = (*padding.shape, *padding.padded, *padding.low, padding.spread)
    groups = n * -(-prod(padding.padded) // _PIXELS) * -(-channels // _CHANNELS)
    groups += rows.height * -(-rows.length // (_ITEMS * _EACH))
    text = _operands_program(itemsize(images.dtype), rows.filters)
    engine.launch(
        text, "unit_operands", (groups * _ITEMS,), (_ITEMS,),
        [images, other, out, *map(np.int32, numbers), np.int64(begin), *map(np.int32, (rows.length, *rows.numbers))],
    )  # fmt: skip
    return out, begin


@lru_cache(maxsize=1024)
def _tile(unit: str, device: Any, c: Contraction) -> UnitTile:
    rows = segmented(c)
    assert rows is not None
    return tile_of(unit, device, rows.dense)


def _padded(g: Geometry) -> Pair:
    """Rows and columns of the padded images that the filters read; a row has a multiple of the stride's pixels."""
    stride = g.stride[1]
    rows, columns = ((out - 1) * stride + kernel for out, kernel in zip(g.out[1:], g.kernel[1:]))
    return rows, -(-columns // stride) * stride


class _Product(NamedTuple):
    """A direction as a product of filters and padded images: how these are padded, and the results as images."""

    padding: _Padding
    rows: _Rows
    contraction: Contraction
    images: matrix_units.Images


@lru_cache(maxsize=1024)
def _product(g: Geometry, kind: str) -> _Product:
    backwards = kind == "grad_input"
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    rows = _filters(g, backwards)
    if backwards:
        stride, result = 1, g.size[1:]
        padded = result[0] + high - 1, result[1] + wide - 1
        shape = (g.batch, g.filters, *g.out[1:])
        padding = _Padding(shape, (high - 1 - low_y, wide - 1 - low_x), padded, g.stride[1])
    else:
        stride, result, padded = g.stride[1], g.out[1:], _padded(g)
        padding = _Padding((g.batch, g.channels, *g.size[1:]), (low_y, low_x), padded)
    columns, plane = padded[1], result[0] * result[1]
    step = padded[0] * columns // stride  # from the results of an image to those of the next
    count = (g.batch - 1) * step + (result[0] - 1) * columns + result[1]  # up to the last result that is wanted
    segment = rows.length // high
    channels = segment // wide
    c = Contraction(
        m=rows.height, k=(1, 1, high, segment), n=(1, 1, 1, count), a_row=rows.length, a_k=(0, 0, segment, 1),
        b_k=(0, 0, columns * channels, 1), b_n=(0, 0, 0, stride * channels), out_row=plane, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    return _Product(padding, rows, c, matrix_units.Images(step, columns, *result, rows.height * plane))


def run(
    engine: Any, unit: str, g: Geometry, images: TensorData, weight: TensorData, out: TensorData, kind: str,
    fused: FusedEpilogue | None, matrices: Matrices,
) -> None:  # fmt: skip
    """``forward``, or ``grad_input``, in which the images are the gradients of the results and the filters are turned
    around; ``fused`` takes operands of ``matrices`` if sums are cut (split-K).
    """
    padding, rows, c, form = _product(g, kind)
    both, begin = _laid_out(engine, images, padding, weight, rows)
    tile, c = _tile(unit, traits(engine), c), replace(c, a_offset=begin)
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, both, both, out, 0, fused, form)
        return
    sums = engine.empty((tile.splits, out.size), "float32")
    matrix_units.contract(engine, c, tile, both, both, sums, out.size, None, form)
    reduce_partials(engine, sums, out, tile.splits, fused, matrices)


def grad_weight(engine: Any, unit: str, g: Geometry, images: TensorData, grad: TensorData, out: TensorData) -> None:
    """The gradient of the filters: for each row of a filter a product over all pixels of the padded images.

    The gradients of border pixels are zeros, so an infinity at an edge of an image makes all sums NaN that read it.
    """
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    stride, (rows, columns) = g.stride[1], _padded(g)
    step = rows * columns // stride
    count = (g.batch - 1) * step + (g.out[1] - 1) * columns + g.out[2]
    line = -(-count // CHUNK) * CHUNK  # chunks begin at multiples of 16 bytes
    channels, segment = g.channels, wide * g.channels
    lines = _Rows(g.filters, line, (g.filters, *g.out[1:], step, columns), False)
    padding = _Padding((g.batch, channels, *g.size[1:]), (low_y, low_x), (rows, columns))
    both, begin = _laid_out(engine, images, padding, grad, lines)
    sums: TensorData = engine.empty((g.filters, high, wide, channels), out.dtype)
    c = Contraction(
        m=g.filters, k=(1, 1, 1, count), n=(1, 1, 1, segment), a_row=line, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, stride * channels), b_n=(0, 0, 0, 1), out_row=high * segment, out_n=(0, 0, 0, 1),
        batch=(1, high), a_batch=(0, 0), b_batch=(0, columns * channels), out_batch=(0, segment), a_offset=begin,
    )  # fmt: skip
    tile = _tile(unit, traits(engine), replace(c, a_offset=0))
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, both, both, sums, 0)
    else:
        partial = engine.empty((tile.splits, out.size), "float32")
        matrix_units.contract(engine, c, tile, both, both, partial, out.size)
        reduce_partials(engine, partial, sums, tile.splits)
    taps = high * wide
    engine.copy(
        sums, out, shape=(g.filters, high, wide, channels), source_offset=0,
        source_strides=(taps * channels, wide * channels, channels, 1),
        out_strides=(channels * taps, wide, 1, taps), out_offset=0,
    )  # fmt: skip
