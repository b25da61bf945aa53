"""The choice of Winograd convolution (minimal filtering) for 3 x 3 kernels at stride 1, on CPU devices.

A tile of t x t results costs (t + 2)^2 products for each pair of channels instead of 9 t^2: 2.25 times fewer for t = 2,
4 times fewer for t = 4.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core import config
from netcl.core.tuning.problems import Geometry
from netcl.core.tuning.traits import Traits

__all__ = ["DTYPES", "Problem", "chosen", "kernels", "problem_of"]

# The cost of a transformed element, in products, measured on two drivers; of a weight's gradient twice that.
_ELEMENT = 30
_GAIN = 0.85  # of the products' cost without tiles: above it is not worth another rounding
DTYPES = ("float32", "float16", "bfloat16")


class Problem(NamedTuple):
    """A convolution in the form of its forward direction: ``ins`` planes of ``size`` give ``outs`` of ``out``."""

    batch: int
    ins: int
    outs: int
    size: tuple[int, int]
    out: tuple[int, int]
    low: tuple[int, int]
    tile: int

    @property
    def across(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        return -(-self.out[0] // self.tile), -(-self.out[1] // self.tile)

    @property
    def products(self) -> int:
        """Products of one tile."""
        return (self.tile + 2) ** 2


def _cost(p: Problem, kind: str) -> int:
    """Of a problem, in products."""
    tiles, pairs = p.batch * prod(p.across), p.ins * p.outs
    weights = 2 * pairs if kind == "grad_weight" else pairs
    return p.products * (tiles * pairs + _ELEMENT * (tiles * (p.ins + p.outs) + weights))


@lru_cache(maxsize=512)
def problem_of(kind: str, g: Geometry, tile: int | None) -> Problem | None:
    """The problem of a convolution's geometry; None if minimal filtering cannot compute it, or (``tile`` None) does not
    pay.
    """
    fits = g.kernel == (1, 3, 3) and g.stride == g.dilation == (1, 1, 1) and g.groups == 1
    if not fits or g.size[0] != 1 or g.out[0] != 1:
        return None
    size, out, low = g.size[1:], g.out[1:], (g.padding[1][0], g.padding[2][0])
    if kind == "grad_input":
        size, out, low = out, size, (2 - low[0], 2 - low[1])
        if any(side < 0 for side in (*low, *(2 - pair[1] for pair in g.padding[1:]))):
            return None
    ins, outs = (g.filters, g.channels) if kind == "grad_input" else (g.channels, g.filters)
    problems = (Problem(g.batch, ins, outs, size, out, low, t) for t in ((tile,) if tile else (4, 2)))
    cost, found = min((_cost(problem, kind), problem) for problem in problems)
    return found if tile or cost < _GAIN * 9 * g.batch * prod(out) * ins * outs else None


def kernels(g: Geometry) -> tuple[str, ...]:
    """The kernels to measure for a forward convolution of a geometry."""
    return tuple(f"winograd{tile}" for tile in (2, 4) if problem_of("forward", g, tile) is not None)


def chosen(device: Traits, kind: str, g: Geometry, dtype: str, wanted: str | None) -> Problem | None:
    """The problem if minimal filtering computes it: ``wanted`` is winograd2 or winograd4, or None and it pays."""
    if not device.is_cpu or dtype not in DTYPES:
        return None
    if wanted is None:
        return problem_of(kind, g, None) if config.get("CONV_WINOGRAD") else None
    return problem_of(kind, g, int(wanted[-1])) if wanted.startswith("winograd") else None
