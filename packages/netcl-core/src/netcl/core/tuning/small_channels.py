"""Chooses direct convolution for images with few channels on CPU devices, and distributes its work."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core.tuning.problems import Geometry
from netcl.core.tuning.traits import Traits

MOST_TAPS = 192
MOST_TOGETHER = 8  # blocks of a few vectors that are summed at once
_CHANNELS = 8  # up to which it was faster on two drivers
_MORE_CHANNELS, _LARGE_PLANE = 16, 256  # the same for weights, by the elements of a plane in a sum
_LEAST_PRODUCTS = 1 << 20  # below, kernels built for other layers are as good
_POSITIONS = 1024  # of the output in a block: its strip stays in the second-level cache
_FEW_UNITS, _MANY_UNITS, _LARGE = 16, 64, 1 << 26  # work-items, and from how many products on there are many
_LEAST_VECTORS = 16  # of elements of a plane that a work-item computes or sums
_SCRATCH = 1 << 23  # elements of all work-items
_DTYPES = ("float32", "float64", "float16", "bfloat16")
# Rows and span of the register tile of a work-item, see contract_channels.cl: 32 of 16 lanes, or 16 of at most 8.
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


class Tile(NamedTuple):
    """The register tile of a work-item: rows, vectors of a row, lanes of a vector."""

    rows: int
    span: int
    vector: int


class Share(NamedTuple):
    """The work of a work-item: rows of an image in a block, blocks of an image, blocks of its own and in all;
    ``scratch`` elements: ``strip`` for the weights, the rest for ``run`` rows or columns of the image.
    """

    units: int
    block: int
    blocks: int
    each: int
    total: int
    scratch: int
    strip: int
    run: int
    together: int = 1  # blocks with sums added at once; strips are ``apart`` elements from each other
    apart: int = 0


@lru_cache(maxsize=512)
def problem_of(kind: str, g: Geometry) -> Problem | None:
    """Returns the problem of a convolution's geometry; None if the kernels cannot compute it."""
    flat = g.size[0] == g.kernel[0] == g.out[0] == g.groups == 1 and g.padding[0][0] == 0
    low = (g.padding[1][0], g.padding[2][0])
    if not flat or prod(g.kernel) == 1 or 0 in (g.batch, g.channels, g.filters, *g.size, *g.out) or min(low) < 0:
        return None
    pairs = (g.size[1:], g.out[1:], g.kernel[1:], g.stride[1:], g.dilation[1:])
    p = Problem(kind, g.batch, g.channels, g.filters, *pairs, low)
    return p if p.taps <= MOST_TAPS else None


def tile_of(device: Traits, kind: str, dtype: str) -> Tile:
    """Returns the tile of a direction's kernel."""
    vector = device.vector // 2 if dtype == "float64" else device.vector
    return Tile(*(_WIDE if device.vector == 16 else _NARROW)[kind], vector)


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


@lru_cache(maxsize=512)
def share_of(p: Problem, tile: Tile) -> Share | None:
    """Returns the distribution of a problem over work-items; None if the scratch of a work-item is too small for it."""
    backwards = p.kind == "grad_input"
    height, columns = p.size[0] if backwards else p.out[0], p.out[1]
    reach = (p.sides[0] - 1) * p.dilation[0]
    together, apart = 1, 0
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
        apart = p.channels * p.sides[1] * p.stride[0] * run * columns + tile.span * tile.vector
        scratch = strip + apart
    total = p.batch * blocks
    needed = min(total, _FEW_UNITS if p.products < _LARGE else _MANY_UNITS)
    # Each work-item prepares a panel of weights, or clears and adds up a vector for each weight.
    needed = min(needed, max(2, p.batch * prod(p.out) // (_LEAST_VECTORS * tile.vector)))
    if p.kind == "grad_weight":
        together = max(1, min(MOST_TOGETHER, MOST_TOGETHER * tile.vector // (block * columns), total // needed))
        scratch += (together - 1) * apart
    scratch = _up(scratch, 16)
    units = min(needed, _SCRATCH // scratch)
    if units < min(needed, _FEW_UNITS) or (backwards and prod(p.out) < tile.span * tile.vector):
        return None
    each = -(-total // units)
    return Share(-(-total // each), block, blocks, each, total, scratch, strip, run, together, apart)


def problem_on(device: Traits, kind: str, g: Geometry, dtype: str) -> Problem | None:
    """Returns the problem of a convolution's geometry; None if the kernels cannot compute it on this device."""
    p = problem_of(kind, g) if device.is_cpu and dtype in _DTYPES else None
    return None if p is None or share_of(p, tile_of(device, kind, dtype)) is None else p


def pays(p: Problem) -> bool:
    """True if the kernels are expected to be faster than contractions."""
    large = p.kind == "grad_weight" and prod(p.out) >= _LARGE_PLANE
    return p.channels <= (_MORE_CHANNELS if large else _CHANNELS) and p.products >= _LEAST_PRODUCTS
