"""Convolutions on CPU devices over copies in which the images are the last index (see ``tuning.images_last``)."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.contraction.cpu import cpu_tiles
from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue
from netcl.core.backend.opencl.contraction.pads.padding import padded_images
from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.templates import traits
from netcl.core.dtypes import itemsize
from netcl.core.tuning.conv_plans import ConvPlan
from netcl.core.tuning.images_last import blocks_of, with_images_last

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData


def run(
    engine: Any,
    plan: ConvPlan,
    workspace: int,
    images: TensorData,
    weight: TensorData,
    out: TensorData,
    fused: FusedEpilogue | None,
) -> None:
    """Computes the forward direction or the gradient of images in blocks of images: a copy of one takes at most
    ``workspace`` bytes, or has a vector of images. An operand of the epilogue has one value, or one for each channel.
    """
    each, panels = prod(plan.shape[1:]), dict[int, Any]()
    for first, count in _blocks(engine, plan, workspace):
        source = _copied(engine, plan, images, first, count)
        result = engine.empty((each, count), out.dtype)
        for number, part in enumerate(plan.parts):
            c = with_images_last(part, count)
            if not c.empty:
                # The weights' panels serve all blocks of images.
                rows = panels[number] = panels.get(number) or cpu_tiles.rows_for(engine, c, weight)
                cpu_tiles.contract_rows(engine, c, rows, source, result, fused=fused)
        engine.copy(
            result, out, shape=(each, count), source_strides=(count, 1), source_offset=0, out_strides=(1, each),
            out_offset=first * each,
        )  # fmt: skip


def grad_weight(
    engine: Any, plan: ConvPlan, workspace: int, images: TensorData, grad_output: TensorData, out: TensorData
) -> None:
    """Computes the gradient of weights in blocks of images, whose sums are added up."""
    (part,) = plan.parts
    blocks = _blocks(engine, plan, workspace)
    splits = cpu_tiles.splits_for(engine, with_images_last(part, blocks[0][1]), out.dtype)
    direct = splits == 1 and len(blocks) == 1
    target = out if direct else engine.empty((splits, out.size), compute_dtype(out.dtype))
    for first, count in blocks:
        source = _copied(engine, plan, images, first, count)
        grad = _turned(engine, grad_output, grad_output.size // plan.images, first, count)
        c = replace(with_images_last(part, count), partial=not direct, accumulate=first > 0)
        rows = cpu_tiles.rows_for(engine, c, grad)
        cpu_tiles.contract_rows(engine, c, rows, source, target, splits=splits, out_part=out.size)
    if not direct:
        reduce_partials(engine, target, out, splits)


def _blocks(engine: Any, plan: ConvPlan, workspace: int) -> tuple[tuple[int, int], ...]:
    return blocks_of(plan, traits(engine).vector, itemsize("float32"), workspace)


def _copied(engine: Any, plan: ConvPlan, x: TensorData, first: int, count: int) -> TensorData:
    """Returns ``count`` images of x from ``first`` on, padded, with the images as the last index. Rows of images are
    padded faster than rows of pixels, but in two dimensions only.
    """
    if plan.padded[0] != plan.extent[0]:
        x = padded_images(engine, x, plan.planes, plan.extent, plan.low, plan.padded, first, count)
        return _turned(engine, x, plan.planes * prod(plan.padded), 0, count)
    turned = _turned(engine, x, plan.planes * prod(plan.extent), first, count)
    if plan.padded == plan.extent:
        return turned
    planes = plan.planes * plan.extent[0]
    extent, padded = (*plan.extent[1:], count), (*plan.padded[1:], count)
    return padded_images(engine, turned, planes, extent, (*plan.low[1:], 0), padded, 0, 1)


def _turned(engine: Any, x: TensorData, each: int, first: int, count: int) -> TensorData:
    """Returns ``count`` images of ``each`` elements, from ``first`` on, with the images as the last index."""
    out: TensorData = engine.empty((each, count), x.dtype)
    engine.copy(
        x, out, shape=(count, each), source_strides=(each, 1), source_offset=first * each, out_strides=(1, count),
        out_offset=0,
    )  # fmt: skip
    return out
