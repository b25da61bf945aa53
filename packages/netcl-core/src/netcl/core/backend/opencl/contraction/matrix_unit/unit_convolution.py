"""Convolutions on matrix units: implicit GEMM on zero-padded images with adjacent channels (NHWC).

Result p of a convolution sums over the rows of the filter, each ``kernel width x channels`` adjacent elements of the
images. So it is a product with segments along k, and its columns begin at the pixels of the padded images that belong
to results. The product of the filters' gradient has these pixels as its index k.

The gradient by the images is a convolution of stride 1 of the gradients with zeros between them.

One launch lays out both operands. The layout of the filters is not kept between calls: it would save no launch, and far
less work than the layout of the images takes.
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
from netcl.core.backend.opencl.templates import divisor, source, struct, traits
from netcl.core.tuning.matrix_units import CHUNK, tile_of
from netcl.core.tuning.problems import Contraction, Geometry, segmented
from netcl.core.tuning.unit_table import HALVES, UnitTile

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

Pair = tuple[int, int]


_ITEMS, _PIXELS, _CHANNELS, _INNER = 256, 64, 64, 64  # of a work-group of unit_operands.cl


@lru_cache(maxsize=32)
def _operands_program(vector: int, other: int) -> str:
    """Returns the text of the kernel that lays out operands: images by so many pixels at once, and by so many elements
    the other operand, for 0 filters.
    """
    defines = (
        ("ITEMS", _ITEMS), ("PIXELS", _PIXELS), ("CHANNELS", _CHANNELS), ("INNER", _INNER), ("VECTOR", vector),
        ("FILTERS", int(not other)), ("OTHER_VECTOR", other),
    )  # fmt: skip
    return source(("division", "unit_operands"), defines)


def _vector(plane: int) -> int:
    """Returns the 16-bit elements that are loaded at once from planes of a size: at most 16 bytes."""
    return min(plane & -plane, CHUNK)


class _Padding(NamedTuple):
    """Images of ``shape`` (N, C, H, W) as (N, *padded, C): pixels from ``low`` on at distances of ``spread``, zeros
    elsewhere; pixels outside ``padded`` are left out.
    """

    shape: tuple[int, int, int, int]
    low: Pair
    padded: Pair
    spread: int = 1


class _Filters(NamedTuple):
    """The filters as ``height`` rows of ``length`` elements, by the last ``numbers`` of unit_operands.cl."""

    height: int
    length: int
    numbers: tuple[int, ...]
    vector: int = 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last arguments of unit_operands.cl."""
        return tuple(map(np.int32, self.numbers))

    @property
    def parts(self) -> int:
        """The work-groups of a row."""
        return -(-self.numbers[0] // _INNER)


class _Lines(NamedTuple):
    """Images of ``shape`` (N, C, pixels) as C lines of ``length`` elements, the pixels of all images and zeros."""

    shape: tuple[int, int, int]
    length: int

    @property
    def height(self) -> int:
        return self.shape[1]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last arguments of unit_operands.cl."""
        return np.int32(self.shape[1]), struct(divisor(self.shape[2]))

    @property
    def vector(self) -> int:
        """The elements that a work-item writes."""
        return _vector(self.shape[2])

    @property
    def parts(self) -> int:
        """The work-groups of a line."""
        return -(-self.length // (_ITEMS * self.vector))


def _filters(g: Geometry, backwards: bool) -> _Filters:
    """Returns the filters (out, in, *kernel) as (out, *kernel, in), or turned around as (in, *kernel, out)."""
    outs, ins, taps = g.filters, g.channels, prod(g.kernel)
    if backwards:
        return _Filters(ins, taps * outs, (outs, taps, ins * taps, taps - 1, -1))
    return _Filters(outs, taps * ins, (ins, ins * taps, taps, 0, 1))


class _Layout(NamedTuple):
    """The launch that lays out both operands: the kernel's text, its work-items, the arguments after the tensors, the
    elements, and the number of the first element after the images.
    """

    text: str
    items: int
    numbers: tuple[Any, ...]
    size: int
    begin: int


@lru_cache(maxsize=1024)
def _layout(padding: _Padding, other: _Filters | _Lines) -> _Layout:
    n, channels, high, wide = padding.shape
    plane, padded = high * wide, prod(padding.padded)
    begin = n * channels * padded
    begin += -begin % CHUNK
    whole = padding == _Padding(padding.shape, (0, 0), (high, wide))
    borders = 0 if whole else -(-n * padded // _ITEMS)
    form = struct(
        n, channels, high, divisor(wide), divisor(plane), padding.padded[0], divisor(padding.padded[1]),
        divisor(padded), padding.low, padding.spread, borders,
    )  # fmt: skip
    groups = -(-n * plane // _PIXELS) * -(-channels // _CHANNELS) + borders + other.height * other.parts
    return _Layout(
        _operands_program(_vector(plane), other.vector), groups * _ITEMS,
        (form, np.int64(begin), np.int32(other.length), *other.arguments), begin + other.height * other.length, begin,
    )  # fmt: skip


def _laid_out(
    engine: Any, images: TensorData, padding: _Padding, other: TensorData, rows: _Filters | _Lines
) -> tuple[TensorData, int]:
    """Returns both operands in one tensor, and the number of its first element after the images.

    Raises ValueError if the elements do not have 16 bits.
    """
    if images.dtype not in HALVES:
        raise ValueError(f"expected bfloat16 or float16 for a convolution on a matrix unit, got {images.dtype}")
    layout = _layout(padding, rows)
    out: TensorData = engine.empty((layout.size,), images.dtype)
    engine.launch(layout.text, "unit_operands", (layout.items,), (_ITEMS,), [images, other, out, *layout.numbers])
    return out, layout.begin


@lru_cache(maxsize=1024)
def _tile(unit: str, device: Any, c: Contraction) -> UnitTile:
    rows = segmented(c)
    assert rows is not None
    return tile_of(unit, device, rows.dense)


def _padded(g: Geometry) -> Pair:
    """Returns the rows and columns of the padded images that the filters read."""
    rows, columns = ((out - 1) * g.stride[1] + kernel for out, kernel in zip(g.out[1:], g.kernel[1:]))
    return rows, columns


def _pixels(padded: Pair, result: Pair, stride: int, channels: int, out: int = 0) -> matrix_units.Pixels:
    """Returns the first pixels of the filter's places on padded images, for each of the results."""
    rows, columns = padded
    line = columns * channels
    return matrix_units.Pixels(prod(result), result[1], rows * line, stride * line, stride * channels, out)


class _Product(NamedTuple):
    """A direction as a product of filters and padded images: how these are padded, and their pixels."""

    padding: _Padding
    rows: _Filters
    contraction: Contraction
    pixels: matrix_units.Pixels


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
    plane, segment = prod(result), rows.length // high
    channels = segment // wide
    c = Contraction(
        m=rows.height, k=(1, 1, high, segment), n=(1, 1, 1, g.batch * plane), a_row=rows.length, a_k=(0, 0, segment, 1),
        b_k=(0, 0, padded[1] * channels, 1), b_n=(0, 0, 0, stride * channels), out_row=plane, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    return _Product(padding, rows, c, _pixels(padded, result, stride, channels, rows.height * plane))


def run(
    engine: Any, unit: str, g: Geometry, images: TensorData, weight: TensorData, out: TensorData, kind: str,
    fused: FusedEpilogue | None, matrices: Matrices,
) -> None:  # fmt: skip
    """Runs ``forward``, or ``grad_input`` on the gradients of the results as images and on filters turned around;
    ``fused`` takes operands of ``matrices`` if sums are cut (split-K).
    """
    padding, rows, c, pixels = _product(g, kind)
    both, begin = _laid_out(engine, images, padding, weight, rows)
    tile, c = _tile(unit, traits(engine), c), replace(c, a_offset=begin)
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, both, both, out, 0, fused, pixels)
        return
    sums = engine.empty((tile.splits, out.size), "float32")
    matrix_units.contract(engine, c, tile, both, both, sums, out.size, None, pixels)
    reduce_partials(engine, sums, out, tile.splits, fused, matrices)


def grad_weight(engine: Any, unit: str, g: Geometry, images: TensorData, grad: TensorData, out: TensorData) -> None:
    """Returns the gradient of the filters: for each row of a filter a product over all results."""
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    stride, padded, result, channels = g.stride[1], _padded(g), g.out[1:], g.channels
    plane, segment = prod(result), wide * channels
    count = g.batch * plane
    line = -(-count // CHUNK) * CHUNK  # chunks begin at multiples of 16 bytes
    lines = _Lines((g.batch, g.filters, plane), line)
    padding = _Padding((g.batch, channels, *g.size[1:]), (low_y, low_x), padded)
    both, begin = _laid_out(engine, images, padding, grad, lines)
    sums: TensorData = engine.empty((g.filters, high, wide, channels), out.dtype)
    c = Contraction(
        m=g.filters, k=(1, 1, 1, count), n=(1, 1, 1, segment), a_row=line, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, stride * channels), b_n=(0, 0, 0, 1), out_row=high * segment, out_n=(0, 0, 0, 1),
        batch=(1, high), a_batch=(0, 0), b_batch=(0, padded[1] * channels), out_batch=(0, segment), a_offset=begin,
    )  # fmt: skip
    pixels = _pixels(padded, result, stride, channels)
    tile = _tile(unit, traits(engine), replace(c, a_offset=0))
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, both, both, sums, 0, pixels=pixels)
    else:
        partial = engine.empty((tile.splits, out.size), "float32")
        matrix_units.contract(engine, c, tile, both, both, partial, out.size, pixels=pixels)
        reduce_partials(engine, partial, sums, tile.splits)
    taps = high * wide
    engine.copy(
        sums, out, shape=(g.filters, high, wide, channels), source_offset=0,
        source_strides=(taps * channels, wide * channels, channels, 1),
        out_strides=(channels * taps, wide, 1, taps), out_offset=0,
    )  # fmt: skip
