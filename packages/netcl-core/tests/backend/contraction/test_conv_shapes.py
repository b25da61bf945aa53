"""Convolutions of drawn shapes in every variant, all directions, against float64; the bound of each variant is here."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

# Of |result - exact| over the sum of the products' absolute values, in float32. Sums of a single work-item, which are
# not cut into runs, err with the square root of their length; minimal filtering states its own bounds.
BOUND = {
    "rows": 2e-6, "packed": 2e-6, "channels": 2e-6, "windows": 2e-6, "tiled": 2e-6, "direct": 3e-6, "plain": 3e-6,
    None: 8e-6,
}  # fmt: skip
DIRECTIONS = ("forward", "grad_input", "grad_weight")


class Drawn(NamedTuple):
    """A convolution, with groups at the front of channels and filters."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def out(self) -> tuple[int, ...]:
        """The extent of the output."""
        sizes = zip(self.x[2:], self.weight[2:], self.stride, self.padding, self.dilation)
        return tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)


# 1, primes, and just under and over the edges of tiles (6, 8, 16, 32, 64 rows; 16, 32 columns)
EDGES = (1, 2, 3, 5, 7, 8, 9, 13)
MANY = (*EDGES, 17, 31, 33, 63, 65)


@st.composite
def convolutions(draw: st.DrawFn) -> Drawn:
    """Returns any convolution of bounded work with an output that is not empty."""
    spatial = draw(st.integers(1, 3))
    groups = draw(st.sampled_from((1, 1, 2, 3, 5)))
    depth, rows = (
        (1, draw(st.sampled_from((1, 2))))
        if groups == 5
        else (draw(st.sampled_from(EDGES)), draw(st.sampled_from(MANY)))
    )
    sizes = tuple(draw(st.sampled_from((MANY, EDGES, (1, 3, 5, 8))[spatial - 1])) for _ in range(spatial))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(spatial))
    stride = tuple(draw(st.integers(1, 5)) for _ in range(spatial))
    dilation = tuple(draw(st.integers(1, 3)) for _ in range(spatial))
    padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(spatial))
    drawn = Drawn(
        (draw(st.integers(1, 3)), groups * depth, *sizes),
        (groups * rows, depth, *kernel),
        stride,
        padding,
        dilation,
        groups,
    )
    assume(min(drawn.out) >= 1 and np.prod(drawn.out) * np.prod(drawn.weight) * drawn.x[0] < 2e6)
    return drawn


@st.composite
def three_by_three(draw: st.DrawFn) -> Drawn:
    """Returns one that minimal filtering solves in all directions."""
    channels, filters = (draw(st.sampled_from(MANY)) for _ in range(2))
    sizes = tuple(draw(st.sampled_from(EDGES)) for _ in range(2))
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(2))
    drawn = Drawn((draw(st.integers(1, 3)), channels, *sizes), (filters, channels, 3, 3), (1, 1), padding, (1, 1), 1)
    assume(min(drawn.out) >= 1)
    return drawn


@st.composite
def pictures(draw: st.DrawFn) -> Drawn:
    """Returns one for the kernels of few channels, which solve it in all directions, in one or several row blocks."""
    channels, filters = draw(st.integers(1, 4)), draw(st.sampled_from(MANY))
    kernel = tuple(draw(st.integers(2, 5)) for _ in range(2))
    stride, dilation = (tuple(draw(st.integers(1, most)) for _ in range(2)) for most in (3, 2))
    sizes = tuple(draw(st.sampled_from((*MANY, 97))) for _ in range(2))
    padding = tuple((draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in range(2))
    images = draw(st.sampled_from((1, 2, 19)))
    drawn = Drawn((images, channels, *sizes), (filters, channels, *kernel), stride, padding, dilation, 1)
    assume(min(drawn.out) >= 1 and np.prod(drawn.out) >= 32)
    assume(np.prod(drawn.out) * np.prod(drawn.weight) * images < 2e7)
    return drawn


def exact(c: Drawn, x: Any, weight: Any, grad: Any) -> tuple[Any, Any, Any]:
    """Returns all directions by the definition, tap by tap."""
    padded = np.pad(x, [(0, 0), (0, 0), *c.padding])
    output, grad_padded, grad_weight = np.zeros(grad.shape), np.zeros(padded.shape), np.zeros(weight.shape)
    depth, rows = c.weight[1], c.weight[0] // c.groups
    for tap in product(*map(range, c.weight[2:])):
        steps = zip(tap, c.dilation, c.out, c.stride)
        place = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in steps)
        for g in range(c.groups):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * rows, (g + 1) * rows)
            seen, at = padded[(slice(None), ins, *place)], weight[(outs, slice(None), *tap)]
            output[:, outs] += np.einsum("nc...,fc->nf...", seen, at)
            grad_padded[(slice(None), ins, *place)] += np.einsum("nf...,fc->nc...", grad[:, outs], at)
            flat = [array.reshape(*array.shape[:2], -1) for array in (grad[:, outs], seen)]
            grad_weight[(outs, slice(None), *tap)] += np.einsum("nfp,ncp->fc", *flat)
    inner = tuple(slice(low, low + size) for size, (low, _) in zip(c.x[2:], c.padding))
    return output, grad_padded[(slice(None), slice(None), *inner)], grad_weight


def computed(engine: Any, c: Drawn, arrays: Any, variant: str | None) -> list[Any]:
    x, weight, grad = (engine.tensor(array, "float32") for array in arrays)
    options: dict[str, Any] = {name: getattr(c, name) for name in ("stride", "padding", "dilation", "groups")}
    operands = {"forward": (x, weight, None), "grad_input": (grad, weight, c.x), "grad_weight": (x, grad, c.weight)}
    results = []
    for kind, (a, b, shape) in operands.items():
        if variant is None:
            found = engine.conv(kind, a, b, shape=shape, **options)
        else:
            from netcl.core.backend.opencl.contraction import conv

            found = conv.conv(engine, kind, a, b, shape=shape, variant=variant, **options)
        results.append(engine.read(found))
    return results


def check(engine: Any, c: Drawn, variant: str | None, bound: float) -> None:
    """Checks every direction: within the bound, and the same bits twice.

    An error of minimal filtering is of the size of a tile's other sums, also if a sum itself has only products with
    padding: there the bound is of the largest sum of a plane.
    """
    rng = np.random.default_rng(5)
    shapes = (c.x, c.weight, (c.x[0], c.weight[0], *c.out))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    values = [array.astype(np.float64) for array in arrays]
    found, again = (computed(engine, c, arrays, variant) for _ in range(2))
    scales = exact(c, *(np.abs(value) for value in values))
    for name, ours, twice, true, scale in zip(DIRECTIONS, found, again, exact(c, *values), scales):
        assert np.array_equal(ours, twice), (name, c)
        if variant is not None and variant.startswith("winograd"):
            scale = scale.max(axis=(-2, -1), keepdims=True)
        error = np.abs(ours - true) / (scale + 1e-30)
        assert error.max() < bound, (name, variant, c, error.max())


def limits(examples: int) -> Any:
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=slow)


def is_opencl_cpu(engine: Any) -> bool:
    return engine.name == "cl" and engine.handle.profile.is_cpu


@limits(6)
@given(convolutions())
def test_drawn_convolutions(engine: Any, c: Drawn) -> None:
    check(engine, c, None, BOUND[None])


@pytest.mark.deep
@pytest.mark.parametrize("variant", ["rows", "packed", "channels", "windows", "tiled", "direct", "plain", None])
@limits(60)
@given(c=convolutions())
def test_drawn_convolutions_in_every_variant(engine: Any, variant: str | None, c: Drawn) -> None:
    if engine.name != "cl" and variant is not None:
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    check(engine, c, variant, BOUND[variant])


@pytest.mark.deep
@pytest.mark.parametrize("tile", [2, 4])
@limits(40)
@given(c=three_by_three())
def test_drawn_minimal_filtering(engine: Any, tile: int, c: Drawn) -> None:
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: others have no minimal filtering")
    from netcl.core.backend.opencl.contraction.minimal_filtering import winograd

    check(engine, c, f"winograd{tile}", winograd.ERROR[tile])


@pytest.mark.deep
@limits(60)
@given(c=pictures())
def test_drawn_pictures(engine: Any, c: Drawn) -> None:
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: others have no kernels for few channels")
    check(engine, c, "channels", BOUND["channels"])


@pytest.mark.deep
def test_long_sums_of_gpus_come_in_parts(engine: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    for groups, stride in ((1, 1), (2, 2)):
        weight = (70, 64 // groups, 3, 3)
        c = Drawn((4, 64, 12, 12), weight, (stride, stride), ((1, 1), (1, 1)), (1, 1), groups)
        check(engine, c, "windows", BOUND["windows"])


def test_gradients_of_pictures(engine: Any) -> None:
    # Three rows and work enough for the smaller tile of the CPU kernel, and for the kernels for few channels.
    c = Drawn((8, 3, 32, 32), (24, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    for variant in ("rows", None) if engine.name == "cl" else (None,):
        check(engine, c, variant, BOUND["rows"])
