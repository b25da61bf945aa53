"""Convolution on OpenCL devices: all directions, in one to three dimensions, as contractions over padded images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core import config
from netcl.core.backend.opencl.contraction.cpu import cpu_tiles, images_last
from netcl.core.backend.opencl.contraction.few_channels import small_channels
from netcl.core.backend.opencl.contraction.few_channels.channels_verdict import few_channels_work
from netcl.core.backend.opencl.contraction.fused_epilogue import RESULT, FusedEpilogue, OperandLayout, fuse_epilogue
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.backend.opencl.contraction.launch import contract, epilogue_lanes, is_on_rows
from netcl.core.backend.opencl.contraction.matrix_unit import unit_convolution
from netcl.core.backend.opencl.contraction.minimal_filtering import winograd, winograd_gpu
from netcl.core.backend.opencl.contraction.pads.padding import padded_images, resampled
from netcl.core.backend.opencl.contraction.partial_sums import Matrices, reduce_partials
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.storage import in_float32, value_dtype
from netcl.core.backend.opencl.templates import profile, traits
from netcl.core.dtypes import itemsize
from netcl.core.engine.epilogue import Epilogue, check, run_alone
from netcl.core.tuning.candidates import (
    CONV_WORKSPACE,
    CONVOLUTIONS,
    GPU_CONV_WORKSPACE,
    Convolution,
    algorithm,
    choose,
    convolution_candidates,
    requested,
)
from netcl.core.tuning.conv_plans import ConvPlan, blocks_of, conv_plan, geometry, restricted
from netcl.core.tuning.measurements import fastest_kernel
from netcl.core.tuning.problems import Contraction, Geometry
from netcl.core.tuning.unit_table import UNITS

if TYPE_CHECKING:
    from netcl.core.expr.nodes import Expr
    from netcl.core.storage.data import TensorData

_WORKSPACE = CONV_WORKSPACE
_TILE, _GROUPS = 64, 512  # edge of a GPU kernel's tile, and tiles that keep a GPU busy


def _blocks_for(engine: Any, plan: ConvPlan, dtype: str) -> tuple[bool, tuple[tuple[int, int], ...]]:
    return blocks_of(plan, itemsize(value_dtype(dtype)), _WORKSPACE if traits(engine).is_cpu else GPU_CONV_WORKSPACE)


def _pad(engine: Any, plan: ConvPlan, x: TensorData, first: int, images: int, widened: bool = False) -> TensorData:
    return padded_images(engine, x, plan.planes, plan.extent, plan.low, plan.padded, first, images, widened)


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
    half: str | None = None,
    wide: bool = False,
) -> TensorData:
    """Computes a convolution: ``forward`` (x, weight), ``grad_input`` (grad, weight), ``grad_weight`` (x, grad).

    Images are padded in a workspace of bounded size, a block of images at a time; strided input gradients fall into one
    dense convolution per remainder of the position, strided pointwise convolutions use a gathered copy of the sampled
    positions. ``algo`` is a hint: ``naive`` sums each output in its own work-item, ``tiled_local`` selects the kernel
    that is tiled in local memory, ``implicit_gemm`` the device's. Tests force the ``variant``: ``rows`` (A in place),
    ``packed``, ``windows``, ``tiled``, ``direct``, ``plain``, ``channels``, ``winograd2`` and ``winograd4``, with
    ``_gpu`` for the form of GPUs, or a matrix unit by its name. ``half`` is the half type of a convolution with float32
    operands, or with ``wide`` a float32 result, as ``float32_roles`` allows: they are rounded to it when they are
    loaded or stored.
    """
    dtype = half or a.dtype
    if epilogue is not None:
        check(epilogue, dtype)
    pads, whole = tuple(map(tuple, padding)), None if shape is None else tuple(shape)
    g, result, sizes = _described(kind, a.shape, b.shape, tuple(stride), pads, tuple(dilation), groups, whole)
    if result is None:
        return _sparse(engine, kind, g, a, b, epilogue, algo=algo, variant=variant, half=half, wide=wide)
    forced = variant is not None
    if variant is None:
        variant = _requested(engine, Convolution(kind, g, dtype), sizes, algo)
    out: TensorData = engine.empty(result, "float32" if wide else dtype)
    if out.size == 0:
        return out
    expression, operands = (None, ()) if epilogue is None else epilogue
    stored = (half, a.dtype, b.dtype, wide) if half else dtype
    key = (
        "conv", kind, g, out.shape, stored, variant, config.get("KERNEL_STRATEGY"), config.get("CONV_WINOGRAD"),
        expression, tuple([operand.shape for operand in operands]),
    )  # fmt: skip
    tensors = (a, b, *operands, out)
    if half:
        tensors = tuple(in_float32(x, half) for x in tensors)
    run_planned(engine, key, partial(_convolve, kind, g, variant, expression), tensors, not forced)
    return out


def float32_roles(
    engine: Any,
    kind: str,
    a: TensorData,
    b: TensorData,
    half: str,
    *,
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int] | None = None,
    algo: str | None = None,
    **options: Any,
) -> tuple[bool, bool, bool]:
    """Returns three booleans, for both operands and the result of a convolution in ``half``: True if it may be stored
    in float32, as weights and their gradient may on CPUs and on matrix units. Images would be rounded at each read,
    once for each tap.
    """
    pads, whole = tuple(map(tuple, padding)), None if shape is None else tuple(shape)
    g, result, sizes = _described(kind, a.shape, b.shape, tuple(stride), pads, tuple(dilation), groups, whole)
    if algo is not None or result is None:
        return False, False, False
    p = Convolution(kind, g, half)
    variant = _requested(engine, p, sizes)
    if not traits(engine).is_cpu:
        is_on_unit = variant in UNITS
        return False, is_on_unit and unit_convolution.reads_float32(g, kind), is_on_unit and kind == "grad_weight"
    if _algorithm(engine, p, variant)[0] == "contractions":
        parts = [replace(part.contraction, partial=kind == "grad_weight") for part in conv_plan(kind, g).parts]
        if not all(is_on_rows(_part_kernel(engine, c, variant)) for c in parts):
            return False, False, False
    return False, kind != "grad_weight", kind == "grad_weight"


class _Description(NamedTuple):
    """A call by its shapes and options: its geometry, the shape of its result (None if it skips elements of the
    images), and the sizes that are its key in measurements (None if such a convolution is not measured).
    """

    geometry: Geometry
    result: tuple[int, ...] | None
    sizes: tuple[Any, ...] | None


@lru_cache(maxsize=1024)
def _described(
    kind: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, ...], ...],
    dilation: tuple[int, ...],
    groups: int,
    shape: tuple[int, ...] | None,
) -> _Description:
    g = geometry(kind, a, b, stride, padding, dilation, groups, shape)
    plain = kind == "forward" and len(stride) == 2 and groups == 1 and set(dilation) == {1} and 0 not in a
    sizes = None
    if plain and all(before == after for before, after in padding):
        sizes = (a[0], a[1], b[0], *a[2:], *b[2:], stride, tuple(before for before, _ in padding))
    if g.sparse:
        return _Description(g, None, sizes)
    whole = conv_plan(kind, g).shape  # with the dimensions that were put in front
    return _Description(g, whole[:2] + whole[7 - len(a) :], sizes)


def _requested(engine: Any, p: Convolution, sizes: tuple[Any, ...] | None, algo: str | None = None) -> str | None:
    """Returns the kernel that a measurement, a hint or the device's matrix unit decides; None for the cheapest row."""
    measured = None if sizes is None or algo is not None else fastest_kernel(engine, "conv2d", sizes, p.dtype)
    return requested(traits(engine), profile(engine), p, measured, algo)


def _algorithm(engine: Any, p: Convolution, variant: str | None) -> tuple[str, Any]:
    """Returns the algorithm and its problem, without the kernels for few channels on drivers that compute them
    wrongly.
    """
    chosen = algorithm(traits(engine), p, variant)
    if chosen[0] != "channels" or variant is not None or few_channels_work(engine):
        return chosen
    return algorithm(traits(engine), p, variant, without=("channels",))


def _part_kernel(engine: Any, c: Contraction, variant: str | None) -> str:
    """Returns the kernel of one contraction of a convolution: the cheapest one if the algorithm cannot compute it."""
    return choose(traits(engine), c, "conv2d") if variant is None or variant in CONVOLUTIONS else variant


def _convolve(
    kind: str,
    g: Geometry,
    variant: str | None,
    expression: Expr | None,
    engine: Any,
    a: TensorData,
    b: TensorData,
    *others: TensorData,
) -> None:
    """Computes one direction of a convolution of ``a`` and ``b`` into the last of ``others``; with an ``expression``
    the tensors before it are the operands of the epilogue.
    """
    *operands, out = others
    epilogue = None if expression is None else Epilogue(expression, tuple(operands))
    plan = conv_plan(kind, g)
    name, problem = _algorithm(engine, Convolution(kind, g, value_dtype(a.dtype)), variant)
    fused = None
    if variant in UNITS:
        if kind == "grad_weight":
            unit_convolution.grad_weight(engine, variant, g, a, b, out)
        else:
            if epilogue is not None:
                layouts = [_operand_layout(plan, out, operand.shape) for operand in operands]
                fused = fuse_epilogue(epilogue, layouts, 1)
            unit_convolution.run(engine, variant, g, a, b, out, kind, fused, _matrices(plan, out))
    elif name == "channels":
        if epilogue is not None and kind == "forward":
            fused = _fuse(engine, plan, epilogue, out, "rows")
        small_channels.run(engine, problem, a, b, out, fused)
    elif name == "images_last":
        if kind == "grad_weight":
            images_last.grad_weight(engine, plan, _WORKSPACE, a, b, out)
        else:
            if epilogue is not None:
                layouts = [_operand_layout(plan, out, operand.shape) for operand in operands]
                layouts = [None if layout is None or layout.stride_kind == RESULT else layout for layout in layouts]
                fused = fuse_epilogue(epilogue, layouts, traits(engine).vector)
            images_last.run(engine, plan, _WORKSPACE, a, b, out, fused)
    elif name == "contractions":
        if kind == "grad_weight":
            _summed_over_images(engine, plan, a, b, out, variant)
        else:
            fused = None if epilogue is None else _fuse(engine, plan, epilogue, out, variant)
            whole = all(_part_kernel(engine, part.contraction, variant) == "windows" for part in plan.parts)
            (_by_implicit_gemm if whole else _per_image)(engine, plan, a, b, out, variant, fused)
    else:
        filtering: Any = winograd_gpu if problem.form == "gpu" else winograd
        if kind == "grad_weight":
            filtering.grad_weight(engine, problem, a, b, out)
        else:
            # Contractions with epilogues of as many lanes.
            as_kernel = "rows" if CONVOLUTIONS[name].lanes is None else "direct"
            fused = None if epilogue is None else _fuse(engine, plan, epilogue, out, as_kernel)
            fused = fused if winograd.supports_epilogue(fused) else None
            filtering.run(engine, problem, a, b, out, fused, kind == "grad_input")
    if epilogue is not None and fused is None:
        run_alone(engine, epilogue, out)


def _sparse(
    engine: Any, kind: str, g: Geometry, a: TensorData, b: TensorData, epilogue: Epilogue | None, **wishes: Any
) -> TensorData:
    """Computes a strided pointwise convolution, as a dense convolution of the sampled elements."""
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
        sampled = conv(engine, kind, a, b, shape=(g.batch, g.channels, *g.out[3 - spatial :]), **options)
        out = resampled(engine, "spread", sampled, g.out, g.size, g.stride)
        if epilogue is not None:
            run_alone(engine, epilogue, out)
        return out
    sampled = resampled(engine, "sample", a, g.size, g.out, g.stride)
    weight = (g.filters, g.channels // g.groups, *ones)
    shape = weight if kind == "grad_weight" else None
    return conv(engine, kind, sampled, b, shape=shape, epilogue=epilogue, **options)


def _fuse(
    engine: Any, plan: ConvPlan, epilogue: Epilogue, out: TensorData, variant: str | None
) -> FusedEpilogue | None:
    """Returns the epilogue fused into the contractions, with offsets for image 0; None if it needs a separate
    kernel.
    """
    parts = [part.contraction for part in plan.parts]
    lanes = {epilogue_lanes(engine, c, out, _part_kernel(engine, c, variant)) for c in parts}
    if len(lanes) != 1 or 0 in lanes:
        return None
    return fuse_epilogue(
        epilogue, [_operand_layout(plan, out, operand.shape) for operand in epilogue.operands], lanes.pop()
    )


def _operand_layout(plan: ConvPlan, out: TensorData, shape: tuple[int, ...]) -> OperandLayout | None:
    c = plan.parts[0].contraction
    if shape == out.shape:
        return OperandLayout(0, c.out_row, c.out_batch, RESULT)
    if prod(shape) == 1:
        return OperandLayout()
    channels = out.shape[1]
    if prod(shape) == channels == ((1,) * (out.ndim - len(shape)) + shape)[1]:
        return OperandLayout(row=1, batch=(0, c.m))
    return None


def _matrices(plan: ConvPlan, out: TensorData) -> Matrices:
    """Returns the planes of the results, as matrices of a group's channels."""
    return Matrices(prod(out.shape[2:]), plan.parts[0].contraction.m, plan.parts[0].contraction.batch[1])


def _at_output_offset(fused: FusedEpilogue | None, c: Contraction) -> FusedEpilogue | None:
    """Returns ``fused`` with the operands' offset at the first result of ``c``."""
    if fused is None:
        return None
    layouts = (p._replace(offset=c.out_offset) if p.stride_kind == RESULT else p for p in fused.layouts)
    return fused._replace(layouts=tuple(layouts))


def kernels(engine: Any, x: tuple[int, ...], weight: tuple[int, ...], **options: Any) -> tuple[str, ...]:
    """Returns the variants worth measuring for a forward convolution of these shapes."""
    call = (*(options[name] for name in ("stride", "padding", "dilation", "groups")), None)
    return convolution_candidates(traits(engine), geometry("forward", x, weight, *call))


def _per_image(
    engine: Any,
    plan: ConvPlan,
    images: TensorData,
    weight: TensorData,
    out: TensorData,
    variant: str | None,
    fused: FusedEpilogue | None,
) -> None:
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    rows: dict[int, Any] = {}
    for first, count in blocks:
        parts = [restricted(part, first, count) for part in plan.parts]
        kernels = [_part_kernel(engine, c, variant) for c in parts]
        widened = all(map(is_on_rows, kernels))
        source_images = _pad(engine, plan, images, first, count, widened) if padding_needed else images
        for number, (c, chosen) in enumerate(zip(parts, kernels)):
            if c.empty:
                continue
            if is_on_rows(chosen):
                # The weights' panels serve all blocks of images.
                if number not in rows:
                    rows[number] = cpu_tiles.rows_for(engine, c, weight, chosen)
                cpu_tiles.contract_rows(engine, c, rows[number], source_images, out, fused=_at_output_offset(fused, c))
            else:
                contract(engine, c, weight, source_images, out, variant=chosen, fused=_at_output_offset(fused, c))


def _by_implicit_gemm(
    engine: Any,
    plan: ConvPlan,
    images: TensorData,
    weight: TensorData,
    out: TensorData,
    variant: str | None,
    fused: FusedEpilogue | None,
) -> None:
    """Computes ``_per_image`` by the implicit GEMM kernel, with split-K if there are few tiles."""
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    firsts = [restricted(part, *blocks[0]) for part in plan.parts]
    blockings = [gpu_kernels.blocking("windows", traits(engine), c) for c in firsts]
    splits = min(each.splits for each in blockings)
    target = out if splits == 1 else engine.empty((splits, out.size), compute_dtype(out.dtype))
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        for part, each in zip(plan.parts, blockings):
            c = restricted(part, first, count)
            if not c.empty:
                within = _at_output_offset(fused, c) if splits == 1 else None
                block = each._replace(splits=splits)
                gpu_kernels.contract(engine, "windows", c, block, weight, source_images, target, out.size, within)
    if splits > 1:
        reduce_partials(engine, target, out, splits, fused, _matrices(plan, out))


@lru_cache(maxsize=512)
def _image_splits(c: Contraction, counts: tuple[int, ...]) -> int:
    """Returns the number of partial sums over the images of a block, if the weights have too few tiles for a GPU."""
    tiles = -(-c.m // _TILE) * -(-prod(c.n) // _TILE) * prod(c.batch)
    common = gcd(*counts)
    return max((s for s in range(1, common + 1) if common % s == 0 and s * tiles <= _GROUPS), default=1)


@lru_cache(maxsize=512)
def _split(c: Contraction, splits: int, part: int) -> Contraction:
    """Returns ``c`` as ``splits`` partial sums over equally many images, ``part`` elements from one to the next."""
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
    engine: Any, plan: ConvPlan, images: TensorData, grad_output: TensorData, out: TensorData, variant: str | None
) -> None:
    padding_needed, blocks = _blocks_for(engine, plan, images.dtype)
    (part,) = plan.parts
    chosen = _part_kernel(engine, replace(part.contraction, partial=True), variant)
    on_rows = is_on_rows(chosen)
    block = gpu_kernels.blocking("windows", traits(engine), restricted(part, *blocks[0]))
    if on_rows:
        splits = cpu_tiles.splits_for(engine, restricted(part, *blocks[0]), out.dtype)
    elif chosen == "windows":
        splits = block.splits
    else:
        splits = _image_splits(part.contraction, tuple(count for _, count in blocks))
    direct = splits == 1 and len(blocks) == 1
    target = out if direct else engine.empty((splits, out.size), compute_dtype(out.dtype))
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count, on_rows) if padding_needed else images
        c = restricted(part, first, count, not direct)
        if on_rows:
            rows = cpu_tiles.rows_for(engine, c, grad_output, chosen)
            cpu_tiles.contract_rows(engine, c, rows, source_images, target, splits=splits, out_part=out.size)
        elif chosen == "windows":
            gpu_kernels.contract(engine, chosen, c, block, grad_output, source_images, target, out.size)
        else:
            contract(engine, _split(c, splits, out.size), grad_output, source_images, target, variant=chosen)
    if not direct:
        reduce_partials(engine, target, out, splits)
