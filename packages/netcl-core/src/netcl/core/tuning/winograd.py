"""Chooses Winograd convolution (minimal filtering) for 3 x 3 kernels at stride 1.

A tile of t x t results costs (t + 2)^2 products for each pair of channels instead of 9 t^2: 2.25 times fewer for t = 2,
4 times fewer for t = 4.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from netcl.core.tuning.problems import Geometry


class _Costs(NamedTuple):
    """The costs of a form of the kernels, in products: measured on two drivers of CPUs, and on one GPU (H200).

    element: a transformed element. weights: elements of a weight's gradient, relative to elements of a weight.
    launches: of the kernels. whole: tiles of products are computed in whole, multiples of (outs, tiles of images, ins),
    for the weights of (outs, ins, tiles of images). rows: a direct convolution with fewer ``outs`` takes as long as
    with whole tiles. direct: a product of a direct convolution, but of its gradient by the weights. gain: the part of a
    direct convolution's cost above which it is not worth another rounding.
    """

    element: int
    weights: float
    launches: int
    whole: tuple[int, int, int]
    rows: int
    direct: float
    gain: float


_COSTS = {
    "cpu": _Costs(element=30, weights=2, launches=0, whole=(1, 1, 1), rows=0, direct=1, gain=0.85),
    "gpu": _Costs(element=45, weights=1.5, launches=100_000_000, whole=(64, 128, 16), rows=8, direct=1.45, gain=0.9),
}
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
    form: str  # of the kernels: for a "cpu", in vectors of tiles, or a "gpu", with a work-item for each tile

    @property
    def across(self) -> tuple[int, int]:
        """The numbers of tiles down and across an image."""
        return -(-self.out[0] // self.tile), -(-self.out[1] // self.tile)

    @property
    def products(self) -> int:
        """Products of one tile."""
        return (self.tile + 2) ** 2


def cost(p: Problem, kind: str) -> float:
    """Returns the cost of a problem, in products."""
    tiles, costs = p.batch * prod(p.across), _COSTS[p.form]
    gradient = kind == "grad_weight"
    extents = (p.outs, p.ins, tiles) if gradient else (p.outs, tiles, p.ins)
    whole = prod(-(-extent // multiple) * multiple for extent, multiple in zip(extents, costs.whole))
    elements = tiles * (p.ins + p.outs) + (costs.weights if gradient else 1) * p.ins * p.outs
    return p.products * (whole + costs.element * elements) + costs.launches


def direct_cost(is_cpu: bool, kind: str, g: Geometry) -> float:
    """Returns the cost of a direct convolution for which another rounding is worth it; 0 if nothing competes."""
    p = problem_of(kind, g, "cpu" if is_cpu else "gpu", 2)
    if p is None:
        return 0.0
    costs = _COSTS[p.form]
    outs = p.outs if p.outs >= costs.rows else costs.whole[0]
    product = 1.0 if kind == "grad_weight" else costs.direct
    return costs.gain * product * 9 * p.batch * prod(p.out) * p.ins * outs


@lru_cache(maxsize=512)
def problem_of(kind: str, g: Geometry, form: str, tile: int) -> Problem | None:
    """Returns a convolution's problem for the kernels of a ``form``; None if minimal filtering cannot compute it."""
    fits = g.kernel == (1, 3, 3) and g.stride == g.dilation == (1, 1, 1) and g.groups == 1
    if not fits or g.size[0] != 1 or g.out[0] != 1:
        return None
    size, out, low = g.size[1:], g.out[1:], (g.padding[1][0], g.padding[2][0])
    if kind == "grad_input":
        size, out, low = out, size, (2 - low[0], 2 - low[1])
        if any(side < 0 for side in (*low, *(2 - pair[1] for pair in g.padding[1:]))):
            return None
    ins, outs = (g.filters, g.channels) if kind == "grad_input" else (g.channels, g.filters)
    return Problem(g.batch, ins, outs, size, out, low, tile, form)
