"""Convolutions of images with few channels on CPU devices: all three directions, on images as they lie."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.fused_epilogue import Finish, Place, definitions, members
from netcl.core.backend.opencl.contraction.partial_sums import add_parts
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.templates import Traits, source, struct, traits
from netcl.core.tuning.selector import KernelConfig, KernelVariant

if TYPE_CHECKING:
    from netcl.core.tensor_data import TensorData

_MOST_TAPS = 192
_CHANNELS = 8  # up to which it was faster on two drivers
_MORE_CHANNELS, _LARGE_PLANE = 16, 256  # the same for weights whose sums have so many elements of a plane
_LEAST_PRODUCTS = 1 << 20  # below, what other layers have built is as good as another kernel
_POSITIONS = 1024  # of the output in a block: its strip stays in the second-level cache
_FEW_UNITS, _MANY_UNITS, _LARGE = 16, 64, 1 << 26  # work-items, and from how many products on there are many
_SCRATCH = 1 << 23  # elements of all work-items
_DTYPES = ("float32", "float64", "float16", "bfloat16")
_KERNELS = {"forward": "channels_forward", "grad_input": "channels_input", "grad_weight": "channels_weights"}
# Rows and span of what a work-item has in registers, see contract_channels.cl: 32 of 16 lanes, or 16 of at most 8.
_WIDE = {"forward": (8, 2), "grad_input": (9, 2), "grad_weight": (8, 3)}
_NARROW = {"forward": (8, 1), "grad_input": (3, 4), "grad_weight": (4, 3)}


class Problem(NamedTuple):
    """A direction of a convolution in two dimensions."""

    kind: str
    batch: int
    channels: int
    filters: int
    size: tuple[int, int]
    out: tuple[int, int]
    sides: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    low: tuple[int, int]

    @property
    def taps(self) -> int:
        """Products of an element of the output."""
        return self.channels * prod(self.sides)

    @property
    def products(self) -> int:
        """Products in all."""
        return self.batch * self.filters * self.taps * prod(self.out)


class _Tile(NamedTuple):
    rows: int
    span: int
    vector: int


class _Plan(NamedTuple):
    units: int
    scratch: int  # elements of a work-item
    argument: Any


@lru_cache(maxsize=512)
def problem_of(kind: str, g: Any) -> Problem | None:
    """The problem of a convolution's geometry; None where this way does not lead."""
    flat = g.size[0] == g.kernel[0] == g.out[0] == g.groups == 1 and g.padding[0][0] == 0
    low = (g.padding[1][0], g.padding[2][0])
    if not flat or prod(g.kernel) == 1 or 0 in (g.batch, g.channels, g.filters, *g.size, *g.out) or min(low) < 0:
        return None
    pairs = (g.size[1:], g.out[1:], g.kernel[1:], g.stride[1:], g.dilation[1:])
    p = Problem(kind, g.batch, g.channels, g.filters, *pairs, low)
    return p if p.taps <= _MOST_TAPS else None


def _tile(device: Traits, kind: str, dtype: str) -> _Tile:
    vector = device.vector // 2 if dtype == "float64" else device.vector
    return _Tile(*(_WIDE if device.vector == 16 else _NARROW)[kind], vector)


def config(device: Traits, dtype: str) -> KernelConfig:
    """What the forward direction runs with."""
    tile = _tile(device, "forward", dtype)
    columns = tile.span * tile.vector
    return KernelConfig(
        KernelVariant.CONV2D_IMPLICIT_GEMM, tile.rows, columns, 1, tile.rows * columns, 1, (1, 1),
        use_local_memory=False, vector_width=tile.vector,
    )  # fmt: skip


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


@lru_cache(maxsize=512)
def _plan(p: Problem, tile: _Tile, places: tuple[Place, ...] | None = None) -> _Plan | None:
    """How a problem is shared out; None where too little of it fits in the scratch of a work-item."""
    backwards = p.kind == "grad_input"
    height, columns = p.size[0] if backwards else p.out[0], p.out[1]
    reach = (p.sides[0] - 1) * p.dilation[0]
    blocks = -(-height // max(1, _POSITIONS // columns * (p.stride[0] if backwards else 1)))
    block = -(-height // blocks)
    if backwards:
        strip = _up(p.taps, tile.rows) * p.filters
        met = ((block + reach) // p.stride[0] + 1) * columns
        # Not a multiple of 4 KB, where stores would wait for loads.
        run = _up(met, tile.span * tile.vector) + (tile.span + 1) * tile.vector
        line = max(p.low[1] + p.size[1], (columns - 1) * p.stride[1] + (p.sides[1] - 1) * p.dilation[1] + 1)
        scratch = strip + _up(p.taps, tile.rows) * run + line
    else:
        if p.kind == "forward":
            strip = _up(p.filters, tile.rows) * p.taps + tile.rows * tile.span * tile.vector
        else:
            strip = _up(p.filters, tile.rows) * _up(p.taps, tile.span) * tile.vector
        run = block + reach // p.stride[0]
        scratch = strip + p.channels * p.sides[1] * p.stride[0] * run * columns + tile.span * tile.vector
    scratch = _up(scratch, 16)
    total = p.batch * blocks
    wanted = min(total, _FEW_UNITS if p.products < _LARGE else _MANY_UNITS)
    units = min(wanted, _SCRATCH // scratch)
    if units < min(wanted, _FEW_UNITS) or (backwards and prod(p.out) < tile.span * tile.vector):
        return None
    each = -(-total // units)
    argument = struct(
        p.channels, p.filters, p.taps, p.size, p.out, p.sides, p.stride, p.dilation, p.low, block, blocks, each, total,
        scratch, strip, run, int(places is not None), members(places),
    )  # fmt: skip
    return _Plan(-(-total // each), scratch, argument)


def kernels(device: Traits, g: Any) -> tuple[str, ...]:
    """The variant worth measuring for a forward convolution of a geometry."""
    p = problem_of("forward", g) if device.is_cpu else None
    return ("channels",) if p is not None and _plan(p, _tile(device, p.kind, "float32")) is not None else ()


def chosen(engine: Any, kind: str, g: Any, dtype: str, variant: str | None) -> Problem | None:
    """The problem where it is to be solved this way: ``variant`` channels, or None and it pays."""
    device = traits(engine)
    if not device.is_cpu or dtype not in _DTYPES or variant not in (None, "channels"):
        return None
    p = problem_of(kind, g)
    if p is None or _plan(p, _tile(device, p.kind, dtype)) is None:
        return None
    return p if variant or _pays(p) else None


def _pays(p: Problem) -> bool:
    large = p.kind == "grad_weight" and prod(p.out) >= _LARGE_PLANE
    return p.channels <= (_MORE_CHANNELS if large else _CHANNELS) and p.products >= _LEAST_PRODUCTS


@lru_cache(maxsize=64)
def _program(kind: str, dtype: str, tile: _Tile, epilogue: str, operands: int) -> str:
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", tile.vector), ("ROWS", tile.rows), ("SPAN", tile.span),
        ("MOST_TAPS", _MOST_TAPS), *definitions(epilogue, operands),
    )  # fmt: skip
    names = ("storage", "contract_operands", "contract_channels", f"contract_{_KERNELS[kind]}")
    return source(names, defines) + epilogue


def run(engine: Any, p: Problem, a: TensorData, b: TensorData, out: TensorData, finish: Finish | None = None) -> None:
    """One direction, of operands as ``conv`` has them, into ``out``; the forward one takes an epilogue."""
    text, operands, places = finish or ("", (), None)
    tile = _tile(traits(engine), p.kind, out.dtype)
    plan = _plan(p, tile, places)
    assert plan is not None  # chosen() has seen to it
    weights = p.kind == "grad_weight"
    program = _program(p.kind, out.dtype, tile, text, max(1, len(operands)))
    scratch: TensorData = engine.empty((plan.units * plan.scratch,), compute_dtype(out.dtype))
    target = engine.empty((plan.units, out.size), compute_dtype(out.dtype)) if weights else out
    more = (operands or (a,)) if p.kind == "forward" else ()
    engine.launch(program, _KERNELS[p.kind], (plan.units,), (1,), [a, b, target, scratch, plan.argument, *more])
    if weights:
        add_parts(engine, target, out, plan.units)


__all__ = ["Problem", "chosen", "kernels", "problem_of", "run"]
