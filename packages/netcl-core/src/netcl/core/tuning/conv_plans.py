"""Writes a convolution as contractions over padded images, for each direction, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any

from netcl.core.tuning.problems import Contraction, Geometry, Triple


@dataclass(frozen=True)
class ConvPart:
    """One contraction of a convolution; its B reads the padded images."""

    contraction: Contraction
    image_axis: str  # "n" if images are an index of the columns, "k" if they are an index of the sum
    out_image: int  # elements from one image of the output to the next; 0 if images are summed


@dataclass(frozen=True)
class ConvPlan:
    """The parts of a convolution, which read the same padded images."""

    shape: tuple[int, ...]
    images: int
    planes: int
    extent: Triple
    low: Triple
    padded: Triple
    parts: tuple[ConvPart, ...]


def _triple(values: Sequence[Any], fill: Any) -> tuple[Any, Any, Any]:
    return (fill,) * (3 - len(values)) + tuple(values)


def _steps(extent: Triple) -> Triple:
    return (extent[1] * extent[2], extent[2], 1)


def _scaled(steps: Triple, factors: Triple) -> Triple:
    return (steps[0] * factors[0], steps[1] * factors[1], steps[2] * factors[2])


@lru_cache(maxsize=512)
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
    """Returns the geometry of a call, from the shapes of two of input, weight and output."""
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


def _forward(g: Geometry) -> ConvPlan:
    padded = _padded(g)
    steps, plane, taps, positions = _steps(padded), prod(padded), prod(g.kernel), prod(g.out)
    depth, rows = g.channels // g.groups, g.filters // g.groups
    contraction = Contraction(
        m=rows, k=(depth, *g.kernel), n=(g.batch, *g.out), a_row=depth * taps, a_k=(taps, *_steps(g.kernel)),
        b_k=(plane, *_scaled(steps, g.dilation)), b_n=(g.channels * plane, *_scaled(steps, g.stride)),
        out_row=positions, out_n=(g.filters * positions, *_steps(g.out)), batch=(1, g.groups),
        a_batch=(0, rows * depth * taps), b_batch=(0, depth * plane), out_batch=(0, rows * positions),
    )  # fmt: skip
    low = (g.padding[0][0], g.padding[1][0], g.padding[2][0])
    parts = (ConvPart(contraction, "n", g.filters * positions),)
    return ConvPlan((g.batch, g.filters, *g.out), g.batch, g.channels, g.size, low, padded, parts)


def _padded(g: Geometry) -> Triple:
    depth, height, width = (size + low + high for size, (low, high) in zip(g.size, g.padding))
    return depth, height, width


def _grad_weight(g: Geometry) -> ConvPlan:
    padded = _padded(g)
    steps, plane, taps, positions = _steps(padded), prod(padded), prod(g.kernel), prod(g.out)
    depth, rows = g.channels // g.groups, g.filters // g.groups
    contraction = Contraction(
        m=rows, k=(g.batch, *g.out), n=(depth, *g.kernel), a_row=positions, a_k=(g.filters * positions, *_steps(g.out)),
        b_k=(g.channels * plane, *_scaled(steps, g.stride)), b_n=(plane, *_scaled(steps, g.dilation)),
        out_row=depth * taps, out_n=(taps, *_steps(g.kernel)), batch=(1, g.groups),
        a_batch=(0, rows * positions), b_batch=(0, depth * plane), out_batch=(0, rows * depth * taps),
    )  # fmt: skip
    low = (g.padding[0][0], g.padding[1][0], g.padding[2][0])
    return ConvPlan(
        (g.filters, depth, *g.kernel), g.batch, g.channels, g.size, low, padded, (ConvPart(contraction, "k", 0),)
    )


@dataclass(frozen=True)
class _Phase:
    """Along one dimension, the input positions first, first + stride, ... (count of them), which use the kernel's taps
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
    # x[y] is multiplied by w[k] at output o if o * stride + k * dilation = y + low: for each (y + low) mod stride, the
    # taps that can use it are every tap_step-th, and o falls by dilation / gcd from one to the next.
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


def _grad_input(g: Geometry) -> ConvPlan:
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
        contraction = Contraction(
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
        parts.append(ConvPart(contraction, "n", g.channels * positions))
    shape = (g.batch, g.channels, *g.size)
    return ConvPlan(shape, g.batch, g.filters, g.out, low, padded, tuple(parts))  # type: ignore[arg-type]


_PLANS = {"forward": _forward, "grad_input": _grad_input, "grad_weight": _grad_weight}


@lru_cache(maxsize=512)
def conv_plan(kind: str, g: Geometry) -> ConvPlan:
    """Returns the contractions of a direction."""
    return _PLANS[kind](g)


def dense(g: Geometry) -> Geometry:
    """Returns the geometry of a sparse convolution, on only those elements it reads."""
    return replace(g, size=g.out, stride=(1, 1, 1), dilation=(1, 1, 1))


@lru_cache(maxsize=1024)
def restricted(part: ConvPart, first: int, images: int, partial: bool = False) -> Contraction:
    """Returns the part over ``images`` images from ``first`` on, which are at the start of the (padded) images."""
    c = part.contraction
    if part.image_axis == "n":
        return replace(c, n=(images, *c.n[1:]), out_offset=c.out_offset + first * part.out_image)
    return replace(
        c, k=(images, *c.k[1:]), a_offset=c.a_offset + first * c.a_k[0], partial=partial, accumulate=first > 0
    )


@lru_cache(maxsize=1024)
def blocks_of(plan: ConvPlan, bytes_per_element: int, workspace: int) -> tuple[bool, tuple[tuple[int, int], ...]]:
    """True if padding is needed, and the blocks of images (first, count) that are padded together."""
    needed = plan.padded != plan.extent and plan.images > 0
    if not needed:
        return False, ((0, plan.images),)
    block = max(1, workspace // (plan.planes * prod(plan.padded) * bytes_per_element))
    return True, tuple((first, min(block, plan.images - first)) for first in range(0, plan.images, block))
