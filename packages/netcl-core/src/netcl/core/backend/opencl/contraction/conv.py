"""Convolution on OpenCL devices: all directions, in one to three dimensions, as contractions over padded images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from netcl.core.backend.epilogue import Epilogue, check, run_alone
from netcl.core.backend.opencl.contraction import cpu_tiles, implicit_gemm, small_channels, winograd
from netcl.core.backend.opencl.contraction.fused_epilogue import RESULT, Finish, Place, finish_of
from netcl.core.backend.opencl.contraction.padding import padded_images, resampled
from netcl.core.backend.opencl.contraction.partial_sums import add_parts
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.templates import traits
from netcl.core.dtypes import itemsize
from netcl.core.tuning.conv_plans import Plan, blocks_of, geometry, plan_of, restricted
from netcl.core.tuning.measurements import fastest_kernel
from netcl.core.tuning.problems import Contraction, Geometry
from netcl.core.tuning.selector import (
    CONV_WORKSPACE,
    GPU_CONV_WORKSPACE,
    allowed,
    choose_convolution,
    convolution_candidates,
    part_kernel,
    wished_kernel,
)

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_WORKSPACE = CONV_WORKSPACE
_TILE, _GROUPS = 64, 512  # edge of a GPU kernel's tile, and tiles that keep a GPU busy


def _blocks_for(engine: Any, plan: Plan, dtype: str) -> tuple[bool, tuple[tuple[int, int], ...]]:
    return blocks_of(plan, itemsize(dtype), _WORKSPACE if traits(engine).is_cpu else GPU_CONV_WORKSPACE)


def _pad(engine: Any, plan: Plan, x: TensorData, first: int, images: int) -> TensorData:
    return padded_images(engine, x, plan.planes, plan.extent, plan.low, plan.padded, first, images)


def conv(
    engine: Any,
    kind: str,
    a: TensorData,
    b: TensorData,
    *,
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int] | None = None,
    algo: str | None = None,
    epilogue: Epilogue | None = None,
    variant: str | None = None,
) -> TensorData:
    """Convolution: ``forward`` (x, weight), ``grad_input`` (grad, weight), ``grad_weight`` (x, grad).

    Images are padded in a workspace of bounded size, a block of images at a time; strided input gradients fall into
    one dense convolution per remainder of the position, strided pointwise convolutions work on a copy of what they
    meet. ``algo``, a wish: ``naive`` sums each output in a work-item of its own, ``tiled_local`` takes the kernel that
    works through local memory, ``implicit_gemm`` the device's. Tests force the ``variant``: ``rows`` (A as it lies),
    ``packed``, ``windows``, ``tiled``, ``direct``, ``plain``, ``channels``, ``winograd2`` or ``winograd4``.
    """
    if epilogue is not None:
        check(epilogue, a.dtype)
    call = (tuple(stride), tuple(map(tuple, padding)), tuple(dilation), groups, None if shape is None else tuple(shape))
    g = geometry(kind, a.shape, b.shape, *call)
    if g.sparse:
        return _sparse(engine, kind, g, a, b, epilogue, algo=algo, variant=variant)
    if kind == "forward" and algo is None and variant is None:
        variant = _measured(engine, a, b, *call[:4])
    device = traits(engine)
    if variant is None and (algo is not None or kind == "forward"):
        variant = wished_kernel(device, g, algo)
    plan = plan_of(kind, g)
    # The shape without the dimensions that were put in front.
    spatial = len(a.shape) - 2
    out: TensorData = engine.empty(plan.shape[:2] + plan.shape[5 - spatial :], a.dtype)
    if out.size == 0:
        return out
    few, problem, _ = choose_convolution(device, kind, g, a.dtype, variant)
    finish = None
    if few is not None:
        if epilogue is not None and kind == "forward":
            finish = _finish(engine, plan, epilogue, out, "rows")
        small_channels.run(engine, few, a, b, out, finish)
    elif kind == "grad_weight":
        if problem is not None:
            winograd.grad_weight(engine, problem, a, b, out)
        else:
            _summed_over_images(engine, plan, a, b, out, variant)
    else:
        finish = None if epilogue is None else _finish(engine, plan, epilogue, out, "rows" if problem else variant)
        if problem is not None:
            finish = finish if winograd.finishes(finish) else None
            winograd.run(engine, problem, a, b, out, finish, kind == "grad_input")
        elif all(part_kernel(traits(engine), part.contraction, variant) == "windows" for part in plan.parts):
            tiles = _window_tiles(engine, plan, a.dtype)
            finish = finish if tiles[0].splits == 1 else None
            _through_windows(engine, plan, tiles, a, b, out, finish)
        else:
            _per_image(engine, plan, a, b, out, variant, finish)
    if epilogue is not None and finish is None:
        run_alone(engine, epilogue, out)
    return out


def _sparse(
    engine: Any, kind: str, g: Geometry, a: TensorData, b: TensorData, epilogue: Epilogue | None, **wishes: str | None
) -> TensorData:
    """A strided pointwise convolution, as a dense one of the elements that it meets."""
    spatial = a.ndim - 2
    ones = (1,) * spatial
    options: dict[str, Any] = {
        "stride": ones,
        "padding": ((0, 0),) * spatial,
        "dilation": ones,
        "groups": g.groups,
        **wishes,
    }
    if kind == "grad_input":
        met = conv(engine, kind, a, b, shape=(g.batch, g.channels, *g.out[3 - spatial :]), **options)
        out = resampled(engine, "spread", met, g.out, g.size, g.stride)
        if epilogue is not None:
            run_alone(engine, epilogue, out)
        return out
    met = resampled(engine, "sample", a, g.size, g.out, g.stride)
    weight = (g.filters, g.channels // g.groups, *ones)
    shape = weight if kind == "grad_weight" else None
    return conv(engine, kind, met, b, shape=shape, epilogue=epilogue, **options)


def _finish(engine: Any, plan: Plan, epilogue: Epilogue, out: TensorData, variant: str | None) -> Finish | None:
    """The epilogue as part of the contractions; None where it needs a pass of its own. Its places are of image 0."""
    parts = [part.contraction for part in plan.parts]
    lanes = {cpu_tiles.finishes(engine, c, out, part_kernel(traits(engine), c, variant)) for c in parts}
    if len(lanes) != 1 or 0 in lanes:
        return None
    return finish_of(epilogue, [_place(plan, out, operand.shape) for operand in epilogue.operands], lanes.pop())


def _place(plan: Plan, out: TensorData, shape: tuple[int, ...]) -> Place | None:
    c = plan.parts[0].contraction
    if shape == out.shape:
        return Place(0, c.out_row, c.out_batch, RESULT)
    if prod(shape) == 1:
        return Place()
    channels = out.shape[1]
    if prod(shape) == channels == ((1,) * (out.ndim - len(shape)) + shape)[1]:
        return Place(row=1, batch=(0, c.m))
    return None


def _placed(finish: Finish | None, c: Contraction) -> Finish | None:
    """``finish`` where the results of ``c`` begin."""
    if finish is None:
        return None
    places = (p._replace(offset=c.out_offset) if p.along == RESULT else p for p in finish.places)
    return finish._replace(places=tuple(places))


def kernels(engine: Any, x: tuple[int, ...], weight: tuple[int, ...], **options: Any) -> tuple[str, ...]:
    """The variants worth measuring for a forward convolution of these shapes."""
    call = (*(options[name] for name in ("stride", "padding", "dilation", "groups")), None)
    return convolution_candidates(traits(engine), geometry("forward", x, weight, *call))


def _measured(
    engine: Any, x: TensorData, weight: TensorData, stride: Any, padding: Any, dilation: Any, groups: int
) -> str | None:
    """The variant that was measured to be the fastest for a plain 2-d convolution; None where the rule holds."""
    if len(stride) != 2 or groups != 1 or any(step != 1 for step in dilation) or 0 in x.shape:
        return None
    if any(before != after for before, after in padding):
        return None
    sizes = (x.shape[0], x.shape[1], weight.shape[0], *x.shape[2:], *weight.shape[2:])
    pad = tuple(before for before, _ in padding)
    return allowed(fastest_kernel(engine, "conv2d", (*sizes, stride, pad), x.dtype))


def _per_image(
    engine: Any,
    plan: Plan,
    images: TensorData,
    weight: TensorData,
    out: TensorData,
    variant: str | None,
    finish: Finish | None,
) -> None:
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    rows: dict[int, Any] = {}
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        for number, part in enumerate(plan.parts):
            c = restricted(part, first, count)
            if c.empty:
                continue
            chosen = part_kernel(traits(engine), c, variant)
            if chosen in ("rows", "packed"):
                # The weights' panels serve all blocks of images.
                if number not in rows:
                    rows[number] = cpu_tiles.rows_for(engine, c, weight, chosen)
                cpu_tiles.contract_rows(engine, c, rows[number], source_images, out, finish=_placed(finish, c))
            else:
                cpu_tiles.contract(engine, c, weight, source_images, out, variant=chosen, finish=_placed(finish, c))


def _window_tiles(engine: Any, plan: Plan, dtype: str) -> list[implicit_gemm.Tiles]:
    """The tiles of the parts, all with as many splits."""
    _, blocks = _blocks_for(engine, plan, dtype)
    tiles = [implicit_gemm.tiles_of(restricted(part, *blocks[0])) for part in plan.parts]
    return [each._replace(splits=min(each.splits for each in tiles)) for each in tiles]


def _through_windows(
    engine: Any,
    plan: Plan,
    tiles: list[implicit_gemm.Tiles],
    images: TensorData,
    weight: TensorData,
    out: TensorData,
    finish: Finish | None,
) -> None:
    """``_per_image`` by the GPU kernel for convolutions."""
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    splits = tiles[0].splits
    target = out if splits == 1 else engine.empty((splits, out.size), compute_dtype(out.dtype))
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        for part, each in zip(plan.parts, tiles):
            c = restricted(part, first, count)
            if not c.empty:
                implicit_gemm.contract(engine, c, each, weight, source_images, target, out.size, _placed(finish, c))
    if splits > 1:
        add_parts(engine, target, out, splits)


@lru_cache(maxsize=512)
def _image_splits(c: Contraction, counts: tuple[int, ...]) -> int:
    """Parts into which the images of every block are cut where the weights have too few tiles for a GPU."""
    tiles = -(-c.m // _TILE) * -(-prod(c.n) // _TILE) * prod(c.batch)
    common = gcd(*counts)
    return max((s for s in range(1, common + 1) if common % s == 0 and s * tiles <= _GROUPS), default=1)


@lru_cache(maxsize=512)
def _split(c: Contraction, splits: int, part: int) -> Contraction:
    """``c`` as ``splits`` sums over as many images each, ``part`` elements apart."""
    if splits == 1:
        return c
    each = c.k[0] // splits
    return replace(
        c,
        k=(each, *c.k[1:]),
        batch=(splits, c.batch[1]),
        a_batch=(each * c.a_k[0], c.a_batch[1]),
        b_batch=(each * c.b_k[0], c.b_batch[1]),
        out_batch=(part, c.out_batch[1]),
    )


def _summed_over_images(
    engine: Any, plan: Plan, images: TensorData, grad_output: TensorData, out: TensorData, variant: str | None
) -> None:
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    (part,) = plan.parts
    chosen = part_kernel(traits(engine), replace(part.contraction, parts=True), variant)
    on_rows = chosen in ("rows", "packed")
    tiles = implicit_gemm.tiles_of(restricted(part, *blocks[0]))
    if on_rows:
        splits = cpu_tiles.splits_for(engine, restricted(part, *blocks[0]), out.dtype)
    elif chosen == "windows":
        splits = tiles.splits
    else:
        splits = _image_splits(part.contraction, tuple(count for _, count in blocks))
    direct = splits == 1 and len(blocks) == 1
    target = out if direct else engine.empty((splits, out.size), compute_dtype(out.dtype))
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        c = restricted(part, first, count, not direct)
        if on_rows:
            rows = cpu_tiles.rows_for(engine, c, grad_output, chosen)
            cpu_tiles.contract_rows(engine, c, rows, source_images, target, splits=splits, out_part=out.size)
        elif chosen == "windows":
            implicit_gemm.contract(engine, c, tiles, grad_output, source_images, target, out.size)
        else:
            cpu_tiles.contract(engine, _split(c, splits, out.size), grad_output, source_images, target, variant=chosen)
    if not direct:
        add_parts(engine, target, out, splits)


__all__ = ["conv", "kernels"]
