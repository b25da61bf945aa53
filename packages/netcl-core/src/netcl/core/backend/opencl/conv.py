"""Convolution on OpenCL devices: all directions, in one to three dimensions, as contractions over padded images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from netcl.core import config
from netcl.core.backend.epilogue import Epilogue, run_alone
from netcl.core.dtypes import itemsize
from netcl.core.measurements import fastest_kernel

from . import contraction, winograd
from .contraction import Contraction
from .epilogue import RESULT, Finish, Place, function_text
from .padding import padded_images
from .templates import traits

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

Triple = tuple[int, int, int]
Pairs = tuple[tuple[int, int], ...]

_WORKSPACE = 16 * 2**20  # bytes of padded images at a time; a single image may take more
_TILE, _GROUPS = 64, 512  # edge of a GPU kernel's tile, and tiles that keep a GPU busy
_TILE_GROUP = 64  # work-items of the smallest group that the tiled kernel takes


@dataclass(frozen=True)
class Geometry:
    """A convolution in three spatial dimensions; missing ones are in front with extent one."""

    batch: int
    channels: int
    filters: int
    groups: int
    size: Triple
    kernel: Triple
    out: Triple
    stride: Triple
    dilation: Triple
    padding: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Part:
    """One contraction of a convolution; its B reads the padded images."""

    contraction: Contraction
    image_axis: str  # "n" where images count through the columns, "k" where they count through the sum
    out_image: int  # elements from one image of the output to the next; 0 where images are summed


@dataclass(frozen=True)
class Plan:
    """The parts of a convolution, which read the same padded images."""

    shape: tuple[int, ...]
    images: int
    planes: int
    extent: Triple
    low: Triple
    padded: Triple
    parts: tuple[Part, ...]


def _triple(values: Sequence[Any], fill: Any) -> tuple[Any, Any, Any]:
    return (fill,) * (3 - len(values)) + tuple(values)


def _steps(extent: Triple) -> Triple:
    return (extent[1] * extent[2], extent[2], 1)


def _scaled(steps: Triple, factors: Triple) -> Triple:
    return (steps[0] * factors[0], steps[1] * factors[1], steps[2] * factors[2])


def geometry(
    kind: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int] | None,
) -> Geometry:
    """Puts the shapes of a call in one form, whichever of input, weight and output they come from."""
    spatial = len(a) - 2
    x = tuple(shape) if kind == "grad_input" and shape is not None else a
    weight = tuple(shape) if kind == "grad_weight" and shape is not None else b
    sizes = zip(x[2:], weight[2:], stride, padding, dilation)
    out = tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)
    if kind != "forward":
        out = (a if kind == "grad_input" else b)[2:]
    return Geometry(
        batch=x[0],
        channels=x[1],
        filters=weight[0],
        groups=groups,
        size=_triple(x[2:], 1),
        kernel=_triple(weight[2:], 1),
        out=_triple(out[-spatial:], 1),
        stride=_triple(stride, 1),
        dilation=_triple(dilation, 1),
        padding=_triple([tuple(pair) for pair in padding], (0, 0)),
    )


def _forward(g: Geometry) -> Plan:
    padded = _padded(g)
    steps, plane, taps, positions = _steps(padded), prod(padded), prod(g.kernel), prod(g.out)
    depth, rows = g.channels // g.groups, g.filters // g.groups
    one = Contraction(
        m=rows, k=(depth, *g.kernel), n=(g.batch, *g.out), a_row=depth * taps, a_k=(taps, *_steps(g.kernel)),
        b_k=(plane, *_scaled(steps, g.dilation)), b_n=(g.channels * plane, *_scaled(steps, g.stride)),
        out_row=positions, out_n=(g.filters * positions, *_steps(g.out)), batch=(1, g.groups),
        a_batch=(0, rows * depth * taps), b_batch=(0, depth * plane), out_batch=(0, rows * positions),
    )  # fmt: skip
    low = (g.padding[0][0], g.padding[1][0], g.padding[2][0])
    parts = (Part(one, "n", g.filters * positions),)
    return Plan((g.batch, g.filters, *g.out), g.batch, g.channels, g.size, low, padded, parts)


def _padded(g: Geometry) -> Triple:
    depth, height, width = (size + low + high for size, (low, high) in zip(g.size, g.padding))
    return depth, height, width


def _grad_weight(g: Geometry) -> Plan:
    padded = _padded(g)
    steps, plane, taps, positions = _steps(padded), prod(padded), prod(g.kernel), prod(g.out)
    depth, rows = g.channels // g.groups, g.filters // g.groups
    one = Contraction(
        m=rows, k=(g.batch, *g.out), n=(depth, *g.kernel), a_row=positions, a_k=(g.filters * positions, *_steps(g.out)),
        b_k=(g.channels * plane, *_scaled(steps, g.stride)), b_n=(plane, *_scaled(steps, g.dilation)),
        out_row=depth * taps, out_n=(taps, *_steps(g.kernel)), batch=(1, g.groups),
        a_batch=(0, rows * positions), b_batch=(0, depth * plane), out_batch=(0, rows * depth * taps),
    )  # fmt: skip
    low = (g.padding[0][0], g.padding[1][0], g.padding[2][0])
    return Plan((g.filters, depth, *g.kernel), g.batch, g.channels, g.size, low, padded, (Part(one, "k", 0),))


@dataclass(frozen=True)
class _Phase:
    """Along one dimension, the input positions first, first + stride, ... (count of them), which meet the kernel's taps
    tap, tap + tap_step, ... (taps of them) at output position start + i - j * step for position i, tap j."""

    first: int
    count: int
    tap: int
    tap_step: int
    taps: int
    start: int
    step: int

    @property
    def lowest(self) -> int:
        return self.start - (self.taps - 1) * self.step

    @property
    def highest(self) -> int:
        return self.start + self.count - 1


def _phases(size: int, kernel: int, stride: int, dilation: int, low: int) -> Iterator[_Phase]:
    # x[y] meets w[k] at output o where o * stride + k * dilation = y + low: given (y + low) mod stride, the taps that
    # can meet it are every tap_step-th, and o falls by dilation / gcd from one to the next.
    common = gcd(dilation, stride)
    tap_step = stride // common
    for remainder in range(stride):
        first_turn = -((remainder - low) // stride)  # the least u with remainder + stride * u - low >= 0
        first = remainder + stride * first_turn - low
        if first >= size:
            continue
        count = -(-(size - first) // stride)
        tap = next((k for k in range(min(tap_step, kernel)) if (k * dilation - remainder) % stride == 0), kernel)
        taps = len(range(tap, kernel, tap_step))
        start = first_turn + (remainder - tap * dilation) // stride if taps else 0
        yield _Phase(first, count, tap, tap_step, taps, start, dilation // common)


def _grad_input(g: Geometry) -> Plan:
    depth, rows, taps = g.filters // g.groups, g.channels // g.groups, prod(g.kernel)
    dims = [
        list(_phases(size, kernel, stride, dilation, pair[0]))
        for size, kernel, stride, dilation, pair in zip(g.size, g.kernel, g.stride, g.dilation, g.padding)
    ]
    met = [[phase for phase in phases if phase.taps] for phases in dims]
    low = tuple(max([0] + [-phase.lowest for phase in phases]) for phases in met)
    high = tuple(max([0] + [phase.highest - size + 1 for phase in phases]) for phases, size in zip(met, g.out))
    padded = tuple(size + before + after for size, before, after in zip(g.out, low, high))
    steps, plane, positions = _steps(padded), prod(padded), prod(g.size)  # type: ignore[arg-type]
    tap_steps, place_steps = _steps(g.kernel), _steps(g.size)
    parts = []
    for phases in product(*dims):
        whole = all(phase.taps for phase in phases)
        one = Contraction(
            m=rows,
            k=(depth, *(phase.taps for phase in phases)) if whole else (0, 1, 1, 1),  # type: ignore[arg-type]
            n=(g.batch, *(phase.count for phase in phases)),  # type: ignore[arg-type]
            a_row=taps,
            a_k=(rows * taps, *(s * phase.tap_step for s, phase in zip(tap_steps, phases))),  # type: ignore[arg-type]
            a_offset=sum(s * phase.tap for s, phase in zip(tap_steps, phases)) if whole else 0,
            b_k=(plane, *(-s * phase.step for s, phase in zip(steps, phases))),  # type: ignore[arg-type]
            b_n=(g.filters * plane, *steps),
            b_offset=sum(s * (phase.start + before) for s, phase, before in zip(steps, phases, low)) if whole else 0,
            out_row=positions,
            out_n=(g.channels * positions, *_scaled(place_steps, g.stride)),
            out_offset=sum(s * phase.first for s, phase in zip(place_steps, phases)),
            batch=(1, g.groups),
            a_batch=(0, depth * rows * taps),
            b_batch=(0, depth * plane),
            out_batch=(0, rows * positions),
        )
        parts.append(Part(one, "n", g.channels * positions))
    shape = (g.batch, g.channels, *g.size)
    return Plan(shape, g.batch, g.filters, g.out, low, padded, tuple(parts))  # type: ignore[arg-type]


_geometry = lru_cache(maxsize=512)(geometry)
_PLANS = {"forward": _forward, "grad_input": _grad_input, "grad_weight": _grad_weight}


@lru_cache(maxsize=512)
def _plan(kind: str, *call: Any) -> Plan:
    return _PLANS[kind](_geometry(kind, *call))


@lru_cache(maxsize=1024)
def _restricted(part: Part, first: int, images: int, parts: bool = False) -> Contraction:
    """The part over ``images`` images from ``first`` on, which lie at the start of the (padded) images."""
    c = part.contraction
    if part.image_axis == "n":
        return replace(c, n=(images, *c.n[1:]), out_offset=c.out_offset + first * part.out_image)
    return replace(c, k=(images, *c.k[1:]), a_offset=c.a_offset + first * c.a_k[0], parts=parts, accumulate=first > 0)


@lru_cache(maxsize=1024)
def _blocks(plan: Plan, bytes_per_element: int) -> tuple[bool, tuple[tuple[int, int], ...]]:
    """Whether padding is needed, and the blocks of images (first, count) that are worked on together."""
    needed = plan.padded != plan.extent and plan.images > 0
    if not needed:
        return False, ((0, plan.images),)
    block = max(1, _WORKSPACE // (plan.planes * prod(plan.padded) * bytes_per_element))
    return True, tuple((first, min(block, plan.images - first)) for first in range(0, plan.images, block))


def _pad(engine: Any, plan: Plan, x: Tensor, first: int, images: int) -> Tensor:
    return padded_images(engine, x, plan.planes, plan.extent, plan.low, plan.padded, first, images)


@contraction.falls_back
def conv(
    engine: Any,
    kind: str,
    a: Tensor,
    b: Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int] | None = None,
    algo: str | None = None,
    epilogue: Epilogue | None = None,
    variant: str | None = None,
) -> Tensor:
    """Convolution: ``forward`` (x, weight), ``grad_input`` (grad, weight), ``grad_weight`` (x, grad).

    Images are padded in a workspace of bounded size, a block of images at a time; strided input gradients fall into
    one dense convolution per remainder of the position. ``algo``, a wish: ``naive`` sums each output in a work-item of
    its own, ``tiled_local`` takes the kernel that works through local memory, ``implicit_gemm`` the device's. Tests
    force the ``variant``: ``rows`` (A as it lies), ``packed``, ``tiled``, ``direct``, ``plain``,
    ``winograd2`` or ``winograd4``.
    """
    call = (tuple(stride), tuple(map(tuple, padding)), tuple(dilation), groups, None if shape is None else tuple(shape))
    if kind == "forward" and algo is None and variant is None:
        variant = _measured(engine, a, b, *call[:4])
    variant = variant or _wish(engine, algo)
    plan = _plan(kind, a.shape, b.shape, *call)
    # The shape without the dimensions that were put in front.
    spatial = len(a.shape) - 2
    out: Tensor = engine.empty(plan.shape[:2] + plan.shape[5 - spatial :], a.dtype)
    if out.size == 0:
        return out
    problem = winograd.chosen(engine, kind, _geometry(kind, a.shape, b.shape, *call), a.dtype, variant)
    finish = None
    if kind == "grad_weight":
        if problem is not None:
            winograd.grad_weight(engine, problem, a, b, out)
        else:
            _summed_over_images(engine, plan, a, b, out, variant)
    else:
        finish = None if epilogue is None else _finish(engine, plan, epilogue, out, "rows" if problem else variant)
        if problem is not None:
            finish = finish if winograd.finishes(finish) else None
            winograd.run(engine, problem, a, b, out, finish, kind == "grad_input")
        else:
            _per_image(engine, plan, a, b, out, variant, finish)
    if epilogue is not None and finish is None:
        run_alone(engine, epilogue, out)
    return out


def _finish(engine: Any, plan: Plan, epilogue: Epilogue, out: Tensor, variant: str | None) -> Finish | None:
    """The epilogue as part of the contractions; None where it needs a pass of its own. Its places are of image 0."""
    for part in plan.parts:
        if not contraction.finishes(engine, part.contraction, out, _variant_of(engine, part.contraction, variant)):
            return None
    places = [_place(plan, out, operand.shape) for operand in epilogue.operands]
    text = function_text(epilogue.expression, len(places), traits(engine).vector)
    if text is None or None in places:
        return None
    return Finish(text, epilogue.operands, tuple(place for place in places if place is not None))


def _place(plan: Plan, out: Tensor, shape: tuple[int, ...]) -> Place | None:
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
    plan = _plan("forward", x, weight, *call)
    filtering = traits(engine).is_cpu and winograd.kernels(_geometry("forward", x, weight, *call))
    return (*contraction.kernels(engine, plan.parts[0].contraction), *(filtering or ()))


def _measured(
    engine: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> str | None:
    """The variant that was measured to be the fastest for a plain 2-d convolution; None where the rule holds."""
    if len(stride) != 2 or groups != 1 or any(step != 1 for step in dilation) or 0 in x.shape:
        return None
    if any(before != after for before, after in padding):
        return None
    sizes = (x.shape[0], x.shape[1], weight.shape[0], *x.shape[2:], *weight.shape[2:])
    pad = tuple(before for before, _ in padding)
    found = fastest_kernel(engine, "conv2d", (*sizes, stride, pad), x.dtype)
    return None if found is not None and found.startswith("winograd") and not config.get("CONV_WINOGRAD") else found


def _wish(engine: Any, algo: str | None) -> str | None:
    if algo == "naive":
        return "direct"
    if algo == "tiled_local" and traits(engine).group >= _TILE_GROUP:
        return "tiled"
    if algo == "implicit_gemm":
        return "rows" if traits(engine).is_cpu else _wish(engine, "tiled_local")
    return None


def _per_image(
    engine: Any, plan: Plan, images: Tensor, weight: Tensor, out: Tensor, variant: str | None, finish: Finish | None
) -> None:
    padding_needed, blocks = _blocks(plan, itemsize(images.dtype))
    rows: dict[int, Any] = {}
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        for number, part in enumerate(plan.parts):
            c = _restricted(part, first, count)
            if c.empty:
                continue
            chosen = _variant_of(engine, c, variant)
            if chosen in ("rows", "packed"):
                # The weights' panels serve all blocks of images.
                if number not in rows:
                    rows[number] = contraction.rows_for(engine, c, weight, chosen)
                contraction.contract_rows(engine, c, rows[number], source_images, out, finish=_placed(finish, c))
            else:
                contraction.contract(engine, c, weight, source_images, out, variant=chosen)


def _variant_of(engine: Any, c: Contraction, variant: str | None) -> str:
    return variant or contraction.planes_variant(traits(engine), c) or contraction.default_variant(engine, c)


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
    engine: Any, plan: Plan, images: Tensor, grad_output: Tensor, out: Tensor, variant: str | None
) -> None:
    padding_needed, blocks = _blocks(plan, itemsize(images.dtype))
    (part,) = plan.parts
    chosen = _variant_of(engine, replace(part.contraction, parts=True), variant)
    on_rows = chosen in ("rows", "packed")
    if on_rows:
        splits = contraction.splits_for(engine, _restricted(part, *blocks[0]), out.dtype)
    else:
        splits = _image_splits(part.contraction, tuple(count for _, count in blocks))
    direct = splits == 1 and len(blocks) == 1
    target = out if direct else engine.empty((splits, out.size), contraction.compute_dtype(out.dtype))
    for first, count in blocks:
        source_images = _pad(engine, plan, images, first, count) if padding_needed else images
        c = _restricted(part, first, count, not direct)
        if on_rows:
            rows = contraction.rows_for(engine, c, grad_output, chosen)
            contraction.contract_rows(engine, c, rows, source_images, target, splits=splits, out_part=out.size)
        else:
            contraction.contract(
                engine, _split(c, splits, out.size), grad_output, source_images, target, variant=chosen
            )
    if not direct:
        contraction.add_parts(engine, target, out, splits)


__all__ = ["Geometry", "Part", "Plan", "conv", "geometry"]
