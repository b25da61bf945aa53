"""Convolutions on matrix units: implicit GEMM on zero-padded images with adjacent channels (NHWC).

Result p of a convolution sums over the rows of the filter, each ``kernel width x channels`` adjacent elements of the
images. So it is a product whose columns begin at the pixels of the padded images that belong to results, and have a
segment for each row of the filter. The product of the filters' gradient has these pixels as its index k. Channels are
filled up with zeros, so that the elements of a pixel begin at multiples of 16 bytes.

The gradient by the images is a convolution of stride 1 of the gradients with zeros between them.

One launch lays out both operands. The layout of the filters is not kept between calls: it would save no launch, and far
less work than the layout of the images takes. A pointwise convolution needs no layout: it is a product for each image.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import RESULT, FusedEpilogue
from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import Matrices, Places, reduce_partials
from netcl.core.backend.opencl.storage import narrowing, stored_dtype, value_dtype
from netcl.core.backend.opencl.templates import divisor, filled_program, struct, traits
from netcl.core.tuning.matrix_units import CHUNK, tile_of
from netcl.core.tuning.problems import Contraction, Geometry, segmented
from netcl.core.tuning.unit_table import HALVES, UnitTile

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

Pair = tuple[int, int]


_ITEMS, _INNER = 256, 64  # of a work-group of unit_operands.cl
_MOVED = ((16, 256), (64, 64))  # the channels that a work-group moves, and their pixels


@lru_cache(maxsize=64)
def _operands_program(vector: int, other: int, channels: int = 64, rounded: str = "") -> str:
    """Returns the text of the kernel that lays out operands: images by so many pixels at once, and by so many elements
    the other operand, for 0 filters; a work-group moves so many ``channels``. Filters in float32 are ``rounded`` to
    that half type.
    """
    defines = (
        ("ITEMS", _ITEMS), ("PIXELS", dict(_MOVED)[channels]), ("CHANNELS", channels), ("INNER", _INNER),
        ("VECTOR", vector), ("FILTERS", int(not other)), ("OTHER_VECTOR", other),
    )  # fmt: skip
    stored = ["typedef ushort stored_other;", "#define ROUNDED(x) (x)"]
    if rounded:
        stored = ["typedef float stored_other;", narrowing(rounded), "#define ROUNDED(x) narrowed_bits(x)"]
    return filled_program(("division", "unit_operands"), defines, {"other": "\n".join(stored)})


def _vector(plane: int) -> int:
    """Returns the 16-bit elements that are loaded at once from planes of a size: at most 16 bytes."""
    return min(plane & -plane, CHUNK)


class _Padding(NamedTuple):
    """Images of ``shape`` (N, C, H, W) as (N, *padded, inner): pixels from ``low`` on at distances of ``spread``, zeros
    elsewhere and after the channels; pixels outside ``padded`` are left out.
    """

    shape: tuple[int, int, int, int]
    low: Pair
    padded: Pair
    inner: int
    spread: int = 1


class _Segments(NamedTuple):
    """The elements of a padded image under a filter: a segment of ``length`` for each of ``high`` rows, of which the
    first ``valid`` are the channels of ``wide`` pixels, ``inner`` for each.
    """

    high: int
    wide: int
    inner: int

    @property
    def valid(self) -> int:
        """The elements of a segment under the filter."""
        return self.wide * self.inner

    @property
    def length(self) -> int:
        """The elements of a segment, in whole chunks."""
        return -(-self.valid // CHUNK) * CHUNK


class _Filters(NamedTuple):
    """The filters as ``height`` rows of ``length`` elements, by the last ``numbers`` of unit_operands.cl."""

    height: int
    length: int
    numbers: tuple[int, ...]
    vector: int = 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last arguments of unit_operands.cl."""
        return (struct(self.numbers),)

    @property
    def parts(self) -> int:
        """The work-groups of a row."""
        return -(-self.numbers[1] // _INNER)


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


def _filters(g: Geometry, backwards: bool, segments: _Segments) -> _Filters:
    """Returns the filters (out, in, *kernel) as (out, *segments), or turned around as (in, *segments)."""
    outs, ins, taps = g.filters, g.channels, prod(g.kernel)
    row = segments.inner, segments.wide, segments.length // segments.inner
    if backwards:
        return _Filters(ins, segments.high * segments.length, (outs, *row, taps, ins * taps, taps - 1, -1))
    return _Filters(outs, segments.high * segments.length, (ins, *row, ins * taps, taps, 0, 1))


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
def _layout(padding: _Padding, other: _Filters | _Lines, rounded: str) -> _Layout:
    n, channels, high, wide = padding.shape
    plane, padded = high * wide, prod(padding.padded)
    begin = n * padding.inner * padded
    begin += -begin % CHUNK
    whole = padding[1:] == ((0, 0), (high, wide), padding.inner, 1)
    moved = min(count for count, _ in _MOVED if padding.inner <= count or count == _MOVED[-1][0])
    borders = 0 if whole else -(-n * padded // _ITEMS)
    form = struct(
        n, channels, high, divisor(wide), divisor(plane), padding.padded[0], divisor(padding.padded[1]),
        divisor(padded), padding.low, padding.spread, borders, padding.inner,
    )  # fmt: skip
    groups = -(-n * plane // dict(_MOVED)[moved]) * -(-padding.inner // moved) + borders + other.height * other.parts
    return _Layout(
        _operands_program(_vector(plane), other.vector, moved, rounded), groups * _ITEMS,
        (form, np.int64(begin), np.int32(other.length), *other.arguments), begin + other.height * other.length, begin,
    )  # fmt: skip


def _check_dtype(images: TensorData) -> None:
    if images.dtype not in HALVES:
        raise ValueError(f"expected bfloat16 or float16 for a convolution on a matrix unit, got {images.dtype}")


def _laid_out(
    engine: Any, images: TensorData, padding: _Padding, other: TensorData, rows: _Filters | _Lines
) -> tuple[TensorData, int]:
    """Returns both operands in one tensor, and the number of its first element after the images.

    Raises ValueError if the elements do not have 16 bits.
    """
    _check_dtype(images)
    layout = _layout(padding, rows, images.dtype if stored_dtype(other.dtype) == "float32" else "")
    out: TensorData = engine.empty((layout.size,), images.dtype)
    engine.launch(layout.text, "unit_operands", (layout.items,), (_ITEMS,), [images, other, out, *layout.numbers])
    return out, layout.begin


@lru_cache(maxsize=1024)
def _tile(unit: str, device: Any, c: Contraction) -> UnitTile:
    rows = segmented(c)
    assert rows is not None
    return tile_of(unit, device, rows.dense)


def _segments(g: Geometry, kind: str) -> _Segments:
    """Returns the elements under a filter: with a stride of 2 half a chunk for each pixel is enough."""
    channels, stride = (g.filters, 1) if kind == "grad_input" else (g.channels, g.stride[1])
    step = CHUNK // 2 if stride % 2 == 0 and channels <= CHUNK // 2 else CHUNK
    return _Segments(*g.kernel[1:], -(-channels // step) * step)


def _padded(g: Geometry, segments: _Segments) -> Pair:
    """Returns the rows and columns of the padded images that the filters read: lines of whole chunks."""
    rows, columns = ((out - 1) * g.stride[1] + kernel for out, kernel in zip(g.out[1:], g.kernel[1:]))
    return rows, columns + columns * segments.inner % CHUNK // segments.inner


def _pixels(padded: Pair, result: Pair, stride: int, segments: _Segments, out: int = 0) -> matrix_units.Pixels:
    """Returns the first pixels of the filter's places on padded images, for each of the results."""
    rows, columns = padded
    line, length = columns * segments.inner, segments.length
    return matrix_units.Pixels(
        prod(result), result[1], rows * line, stride * line, stride * segments.inner, out, segments.valid,
        max(line - length, 0), length,
    )  # fmt: skip


class _Product(NamedTuple):
    """A direction as a product of filters and padded images: how these are padded, and their pixels."""

    padding: _Padding
    rows: _Filters
    contraction: Contraction
    pixels: matrix_units.Pixels


@lru_cache(maxsize=1024)
def _product(g: Geometry, kind: str) -> _Product:
    backwards = kind == "grad_input"
    segments = _segments(g, kind)
    (low_y, _), (low_x, _) = g.padding[1:]
    rows = _filters(g, backwards, segments)
    if backwards:
        stride, result = 1, g.size[1:]
        padded = result[0] + segments.high - 1, result[1] + segments.wide - 1
        shape = (g.batch, g.filters, *g.out[1:])
        low = segments.high - 1 - low_y, segments.wide - 1 - low_x
        padding = _Padding(shape, low, padded, segments.inner, g.stride[1])
    else:
        stride, result, padded = g.stride[1], g.out[1:], _padded(g, segments)
        padding = _Padding((g.batch, g.channels, *g.size[1:]), (low_y, low_x), padded, segments.inner)
    plane = prod(result)
    c = Contraction(
        m=rows.height, k=(1, 1, 1, rows.length), n=(1, 1, 1, g.batch * plane), a_row=rows.length, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, 1), b_n=(0, 0, 0, stride * segments.inner), out_row=plane, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    return _Product(padding, rows, c, _pixels(padded, result, stride, segments, rows.height * plane))


def run(
    engine: Any, unit: str, g: Geometry, images: TensorData, weight: TensorData, out: TensorData, kind: str,
    fused: FusedEpilogue | None, matrices: Matrices,
) -> None:  # fmt: skip
    """Runs ``forward``, or ``grad_input`` on the gradients of the results as images and on filters turned around;
    ``fused`` takes operands of ``matrices`` if sums are cut (split-K).
    """
    of_images = _of_images(g, kind)
    if of_images is not None:
        _check_dtype(images)
        c, pixels, a, b = of_images, None, weight, images
        tile = _tile(unit, traits(engine), c)
        if fused is not None and tile.splits == 1:
            layouts = (one if one.stride_kind == RESULT else one._replace(batch=(0, 0)) for one in fused.layouts)
            fused = fused._replace(layouts=tuple(layouts))
    else:
        padding, rows, c, pixels = _product(g, kind)
        a, begin = _laid_out(engine, images, padding, weight, rows)
        tile, c, b = _tile(unit, traits(engine), c), replace(c, a_offset=begin), a
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, a, b, out, 0, fused, pixels)
        return
    sums = engine.empty((tile.splits, out.size), "float32")
    matrix_units.contract(engine, c, tile, a, b, sums, out.size, None, pixels)
    reduce_partials(engine, sums, out, tile.splits, fused, matrices)


@lru_cache(maxsize=1024)
def _of_images(g: Geometry, kind: str) -> Contraction | None:
    """Returns a pointwise convolution as a product for each image, or the gradient of its filters as a sum over the
    pixels of all images; None if it is not pointwise, or if rows do not begin at multiples of 16 bytes.
    """
    plane, ins, outs = prod(g.size), g.channels, g.filters
    plain = prod(g.kernel) == prod(g.stride) == 1 and g.size == g.out and not any(map(any, g.padding))
    if not plain or any(size % CHUNK for size in (plane, ins, outs)):
        return None
    if kind == "grad_weight":
        return Contraction(
            m=outs, k=(1, 1, g.batch, plane), n=(1, 1, 1, ins), a_row=plane, a_k=(0, 0, outs * plane, 1),
            b_k=(0, 0, ins * plane, 1), b_n=(0, 0, 0, plane), out_row=ins, out_n=(0, 0, 0, 1),
        )  # fmt: skip
    m, k, a_row, a_k = (ins, outs, 1, ins) if kind == "grad_input" else (outs, ins, ins, 1)
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, plane), a_row=a_row, a_k=(0, 0, 0, a_k), b_k=(0, 0, 0, plane),
        b_n=(0, 0, 0, 1), out_row=plane, out_n=(0, 0, 0, 1), batch=(1, g.batch), b_batch=(0, k * plane),
        out_batch=(0, m * plane),
    )  # fmt: skip


def reads_float32(g: Geometry, kind: str) -> bool:
    """True if filters may be in float32: they are rounded to the half type of the images as they are laid out."""
    return kind != "grad_weight" and _of_images(g, kind) is None


def grad_weight(engine: Any, unit: str, g: Geometry, images: TensorData, grad: TensorData, out: TensorData) -> None:
    """Returns the gradient of the filters: a product over all results."""
    of_images = _of_images(g, "grad_weight")
    if of_images is not None:
        _check_dtype(images)
        _summed(engine, unit, of_images, grad, images, out)
        return
    segments = _segments(g, "grad_weight")
    (low_y, _), (low_x, _) = g.padding[1:]
    stride, padded, result = g.stride[1], _padded(g, segments), g.out[1:]
    high, wide, inner, length = *segments, segments.length
    plane, columns = prod(result), high * length
    count = g.batch * plane
    line = -(-count // CHUNK) * CHUNK  # chunks begin at multiples of 16 bytes
    in_place = plane % CHUNK == 0  # the pixels of an image are a segment
    lines = _Lines((g.batch, 0 if in_place else g.filters, plane), line)
    padding = _Padding((g.batch, g.channels, *g.size[1:]), (low_y, low_x), padded, inner)
    laid_out, begin = _laid_out(engine, images, padding, grad, lines)
    step = stride * inner
    c = Contraction(
        m=g.filters, k=(1, 1, g.batch, plane), n=(1, 1, 1, columns), a_row=plane if in_place else line,
        a_k=(0, 0, (g.filters if in_place else 1) * plane, 1), b_k=(0, 0, plane * step, step), b_n=(0, 0, 0, 1),
        out_row=columns, out_n=(0, 0, 0, 1), a_offset=0 if in_place else begin,
    )  # fmt: skip
    a = grad if in_place else laid_out
    places = Places(high, length, wide, inner, g.channels)
    _summed(engine, unit, c, a, laid_out, out, _pixels(padded, result, stride, segments), places)


def _summed(
    engine: Any, unit: str, c: Contraction, a: TensorData, b: TensorData, out: TensorData,
    pixels: matrix_units.Pixels | None = None, places: Places | None = None,
) -> None:  # fmt: skip
    """Runs a product of few results and long sums; results belong at their ``places``."""
    tile = _tile(unit, traits(engine), replace(c, a_offset=0))
    size = c.m * prod(c.n)
    if tile.splits > 1:
        partial = engine.empty((tile.splits, size), "float32")
        matrix_units.contract(engine, c, tile, a, b, partial, size, pixels=pixels)
        reduce_partials(engine, partial, out, tile.splits, places=places)
    elif places is None:
        matrix_units.contract(engine, c, tile, a, b, out, 0, pixels=pixels)
    else:
        sums: TensorData = engine.empty((size,), value_dtype(out.dtype))
        matrix_units.contract(engine, c, tile, a, b, sums, 0, pixels=pixels)
        high, length, wide, inner, channels = places
        engine.copy(
            sums, out, shape=(c.m, high, wide, channels), source_offset=0,
            source_strides=(high * length, length, inner, 1), out_offset=0,
            out_strides=(channels * high * wide, wide, 1, high * wide),
        )  # fmt: skip
