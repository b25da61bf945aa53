"""Convolutions on matrix units: implicit GEMM on zero-padded images with adjacent channels (NHWC).

With stride 1 the results of all pixels of the padded images, those of the border included, read one sequence of
pixels: result p sums over the rows of the filter, each ``kernel width x channels`` adjacent elements from pixel
p + row * width on. So a convolution is a product whose index k has segments; results at border pixels are not copied.

With stride s result p reads from pixel s * p + row * width on; rows of results have a distance of ``width`` too, and
1 / s of them are wanted. The gradient by the images is a convolution of stride 1 of the gradients with zeros between
them.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.contraction import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials
from netcl.core.backend.opencl.templates import source, traits
from netcl.core.dtypes import itemsize
from netcl.core.tuning.matrix_units import CHUNK, tile_of
from netcl.core.tuning.problems import Contraction, Geometry, segmented

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

Pair = tuple[int, int]

__all__ = ["grad_weight", "run"]

_ITEMS, _PIXELS, _CHANNELS = 256, 64, 64  # of a work-group of unit_images.cl


@lru_cache(maxsize=4)
def _images_program(size: int) -> str:
    defines = (("BYTES", size), ("ITEMS", _ITEMS), ("PIXELS", _PIXELS), ("CHANNELS", _CHANNELS))
    return source(("unit_images",), defines)


def _channels_last(engine: Any, x: TensorData, low: Pair, padded: Pair, spread: int = 1) -> TensorData:
    """Images (N, C, H, W) as (N, *padded, C): pixels at ``low`` and from there on at distances of ``spread``, zeros
    elsewhere; pixels outside ``padded`` are left out.
    """
    n, channels, high, wide = x.shape
    out: TensorData = engine.empty((n, *padded, channels), x.dtype)
    numbers = [np.int32(number) for number in (channels, high, wide, *padded, *low, spread)]
    groups = -(-prod(padded) // _PIXELS), -(-channels // _CHANNELS), n
    text = _images_program(itemsize(x.dtype))
    engine.launch(
        text, "channels_last", (groups[0] * _ITEMS, *groups[1:]), (_ITEMS, 1, 1), [x, out, *numbers]
    )  # fmt: skip
    return out


def _channels_first(engine: Any, x: TensorData, step: int, columns: int, line: int) -> TensorData:
    """Images (N, C, H, W) as (C, line): image n from ``step`` * n on, rows at distances of ``columns``, and zeros."""
    n, channels, high, wide = x.shape
    out: TensorData = engine.empty((channels, line), x.dtype)
    numbers = [np.int32(number) for number in (n, channels, high, wide, step, columns, line)]
    items = -(-line // _ITEMS) * _ITEMS
    text = _images_program(itemsize(x.dtype))
    engine.launch(text, "channels_first", (items, channels), (_ITEMS, 1), [x, out, *numbers])
    return out


def _filters(engine: Any, weight: TensorData, kernel: Pair, backwards: bool) -> TensorData:
    """The filters (out, in, *kernel) as (out, *kernel, in), or turned around as (in, *kernel, out)."""
    outs, ins = weight.shape[:2]
    high, wide = kernel
    taps = high * wide
    shape, strides, offset = (outs, high, wide, ins), (ins * taps, wide, 1, taps), 0
    if backwards:
        shape, strides, offset = (ins, high, wide, outs), (taps, -wide, -1, ins * taps), taps - 1
    out: TensorData = engine.empty(shape, weight.dtype)
    engine.copy(
        weight, out, shape=shape, source_strides=strides, source_offset=offset,
        out_strides=(taps * shape[3], wide * shape[3], shape[3], 1), out_offset=0,
    )  # fmt: skip
    return out


def _multiply(engine: Any, unit: str, c: Contraction, a: TensorData, b: TensorData, out: TensorData) -> None:
    rows = segmented(c)
    assert rows is not None
    tile = tile_of(unit, traits(engine), rows.dense)
    if tile.splits == 1:
        matrix_units.contract(engine, c, tile, a, b, out, 0)
        return
    sums = engine.empty((tile.splits, out.size), "float32")
    matrix_units.contract(engine, c, tile, a, b, sums, out.size)
    reduce_partials(engine, sums, out, tile.splits)


def _padded(g: Geometry) -> Pair:
    """Rows and columns of the padded images that the filters read; a row has a multiple of the stride's pixels."""
    stride = g.stride[1]
    rows, columns = ((out - 1) * stride + kernel for out, kernel in zip(g.out[1:], g.kernel[1:]))
    return rows, -(-columns // stride) * stride


def run(
    engine: Any, unit: str, g: Geometry, images: TensorData, weight: TensorData, out: TensorData, kind: str
) -> None:
    """``forward``, or ``grad_input``, in which the images are the gradients of the results and the filters are turned
    around.
    """
    backwards = kind == "grad_input"
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    if backwards:
        stride, result = 1, g.size[1:]
        rows, columns = result[0] + high - 1, result[1] + wide - 1
        x = _channels_last(engine, images, (high - 1 - low_y, wide - 1 - low_x), (rows, columns), g.stride[1])
    else:
        stride, result = g.stride[1], g.out[1:]
        rows, columns = _padded(g)
        x = _channels_last(engine, images, (low_y, low_x), (rows, columns))
    filters = _filters(engine, weight, (high, wide), backwards)
    m, channels = filters.shape[0], filters.shape[3]
    step = rows * columns // stride  # from the results of an image to those of the next
    count = (g.batch - 1) * step + (result[0] - 1) * columns + result[1]  # up to the last result that is wanted
    line = -(-count // 2) * 2  # results are stored in pairs
    products: TensorData = engine.empty((m, line), out.dtype)
    segment = wide * channels
    c = Contraction(
        m=m, k=(1, 1, high, segment), n=(1, 1, 1, count), a_row=high * segment, a_k=(0, 0, segment, 1),
        b_k=(0, 0, columns * channels, 1), b_n=(0, 0, 0, stride * channels), out_row=line, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    _multiply(engine, unit, c, filters, x, products)
    plane = result[0] * result[1]
    engine.copy(
        products, out, shape=(g.batch, m, *result), source_strides=(step, line, columns, 1), source_offset=0,
        out_strides=(m * plane, plane, result[1], 1), out_offset=0,
    )  # fmt: skip


def grad_weight(engine: Any, unit: str, g: Geometry, images: TensorData, grad: TensorData, out: TensorData) -> None:
    """The gradient of the filters: for each row of a filter a product over all pixels of the padded images.

    The gradients of border pixels are zeros, so an infinity at an edge of an image makes all sums NaN that read it.
    """
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    stride, (rows, columns) = g.stride[1], _padded(g)
    x = _channels_last(engine, images, (low_y, low_x), (rows, columns))
    step = rows * columns // stride
    count = (g.batch - 1) * step + (g.out[1] - 1) * columns + g.out[2]
    line = -(-count // CHUNK) * CHUNK  # chunks begin at multiples of 16 bytes
    channels, segment = g.channels, wide * g.channels
    grads = _channels_first(engine, grad, step, columns, line)
    sums: TensorData = engine.empty((g.filters, high, wide, channels), out.dtype)
    c = Contraction(
        m=g.filters, k=(1, 1, 1, count), n=(1, 1, 1, segment), a_row=line, a_k=(0, 0, 0, 1),
        b_k=(0, 0, 0, stride * channels), b_n=(0, 0, 0, 1), out_row=high * segment, out_n=(0, 0, 0, 1),
        batch=(1, high), a_batch=(0, 0), b_batch=(0, columns * channels), out_batch=(0, segment),
    )  # fmt: skip
    _multiply(engine, unit, c, grads, x, sums)
    taps = high * wide
    engine.copy(
        sums, out, shape=(g.filters, high, wide, channels), source_offset=0,
        source_strides=(taps * channels, wide * channels, channels, 1),
        out_strides=(channels * taps, wide, 1, taps), out_offset=0,
    )  # fmt: skip
