"""Convolutions on matrix units: implicit GEMM on zero-padded images with adjacent channels (NHWC).

With stride 1 the results of all pixels of the padded images, those of the border included, read one sequence of
pixels: result p sums over the rows of the filter, each ``kernel width x channels`` adjacent elements from pixel
p + row * width on. So a convolution is a product whose index k has segments; results at border pixels are not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.contraction import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials
from netcl.core.backend.opencl.templates import traits
from netcl.core.tuning.matrix_units import CHUNK, tile_of
from netcl.core.tuning.problems import Contraction, Geometry, segmented

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

Pair = tuple[int, int]

__all__ = ["grad_weight", "run"]


def _channels_last(engine: Any, x: TensorData, size: Pair, low: Pair, padded: Pair) -> TensorData:
    """Images (N, C, *size) as (N, *padded, C), with ``low`` pixels of zeros before them and the rest of zeros after."""
    n, channels = x.shape[:2]
    (high, wide), (rows, columns) = size, padded
    out: TensorData = engine.empty((n, rows, columns, channels), x.dtype)
    if size != padded:
        engine.fill(out, 0)
    engine.copy(
        x, out, shape=(n, channels, high, wide), source_strides=(channels * high * wide, high * wide, wide, 1),
        source_offset=0, out_strides=(rows * columns * channels, 1, columns * channels, channels),
        out_offset=(low[0] * columns + low[1]) * channels,
    )  # fmt: skip
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


def run(
    engine: Any, unit: str, g: Geometry, images: TensorData, weight: TensorData, out: TensorData, kind: str
) -> None:
    """``forward``, or ``grad_input``, in which the images are the gradients of the results and the filters are turned
    around.
    """
    backwards = kind == "grad_input"
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    size, result = (g.out[1:], g.size[1:]) if backwards else (g.size[1:], g.out[1:])
    low = (high - 1 - low_y, wide - 1 - low_x) if backwards else (low_y, low_x)
    rows, columns = result[0] + high - 1, result[1] + wide - 1
    x = _channels_last(engine, images, (size[0], size[1]), low, (rows, columns))
    filters = _filters(engine, weight, (high, wide), backwards)
    m, channels = filters.shape[0], filters.shape[3]
    count = (g.batch * rows * columns) - (high - 1) * columns - (wide - 1)  # up to the last result that is wanted
    line = -(-count // 2) * 2  # results are stored in pairs
    products: TensorData = engine.empty((m, line), out.dtype)
    segment = wide * channels
    c = Contraction(
        m=m, k=(1, 1, high, segment), n=(1, 1, 1, count), a_row=high * segment, a_k=(0, 0, segment, 1),
        b_k=(0, 0, columns * channels, 1), b_n=(0, 0, 0, channels), out_row=line, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    _multiply(engine, unit, c, filters, x, products)
    plane = result[0] * result[1]
    engine.copy(
        products, out, shape=(g.batch, m, *result), source_strides=(rows * columns, line, columns, 1), source_offset=0,
        out_strides=(m * plane, plane, result[1], 1), out_offset=0,
    )  # fmt: skip


def grad_weight(engine: Any, unit: str, g: Geometry, images: TensorData, grad: TensorData, out: TensorData) -> None:
    """The gradient of the filters: for each row of a filter a product over all pixels of the padded images.

    The gradients of border pixels are zeros, so an infinity at an edge of an image makes all sums NaN that read it.
    """
    high, wide = g.kernel[1:]
    (low_y, _), (low_x, _) = g.padding[1:]
    rows, columns = g.out[1] + high - 1, g.out[2] + wide - 1
    x = _channels_last(engine, images, (g.size[1], g.size[2]), (low_y, low_x), (rows, columns))
    count = (g.batch * rows * columns) - (high - 1) * columns - (wide - 1)
    line = -(-g.batch * rows * columns // CHUNK) * CHUNK  # chunks begin at multiples of 16 bytes
    channels, segment = g.channels, wide * g.channels
    grads: TensorData = engine.empty((g.filters, line), grad.dtype)
    engine.fill(grads, 0)
    plane = g.out[1] * g.out[2]
    engine.copy(
        grad, grads, shape=(g.batch, g.filters, *g.out[1:]), source_strides=(g.filters * plane, plane, g.out[2], 1),
        source_offset=0, out_strides=(rows * columns, line, columns, 1), out_offset=0,
    )  # fmt: skip
    sums: TensorData = engine.empty((g.filters, high, wide, channels), out.dtype)
    c = Contraction(
        m=g.filters, k=(1, 1, 1, count), n=(1, 1, 1, segment), a_row=line, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, channels),
        b_n=(0, 0, 0, 1), out_row=high * segment, out_n=(0, 0, 0, 1), batch=(1, high), a_batch=(0, 0),
        b_batch=(0, columns * channels), out_batch=(0, segment),
    )  # fmt: skip
    _multiply(engine, unit, c, grads, x, sums)
    taps = high * wide
    engine.copy(
        sums, out, shape=(g.filters, high, wide, channels), source_offset=0,
        source_strides=(taps * channels, wide * channels, channels, 1),
        out_strides=(channels * taps, wide, 1, taps), out_offset=0,
    )  # fmt: skip
