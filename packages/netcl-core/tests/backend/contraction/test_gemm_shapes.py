"""Matrix products of drawn shapes in every variant, against float64; the bound of each variant is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.contraction import gemm
from netcl.core.backend.opencl.templates import Traits
from netcl.core.dtypes import from_bfloat16, numpy_dtype, to_bfloat16


class Variant(NamedTuple):
    """A way to a product: the largest error of float32 sums over the sum of the products' absolute values."""

    bound: float
    forced: str | None
    seen: Traits | None = None  # what the device is taken for


NARROW = Traits(True, 4, 32 * 1024)
GPU, SMALL_GPU = Traits(False, 4, 48 * 1024), Traits(False, 4, 32 * 1024, 128)
# Seen: 3e-7 of each. What one work-item sums in one go, or NumPy, may err with the square root of the length.
VARIANTS = {
    "chosen": Variant(1e-6, None),
    "rows": Variant(5e-7, "rows"),
    "packed": Variant(5e-7, "packed"),
    "dot": Variant(5e-7, "dot"),
    "stream": Variant(5e-7, "stream"),
    "rows of narrow vectors": Variant(5e-7, "rows", NARROW),
    "packed for narrow vectors": Variant(5e-7, "packed", NARROW),
    "direct on a CPU": Variant(1e-6, "direct"),
    "plain": Variant(1e-6, "plain"),
    "chosen on a GPU": Variant(1e-6, None, GPU),
    "direct": Variant(1e-6, "direct", GPU),
    "tiled": Variant(5e-7, "tiled", GPU),
    "tiled for small groups": Variant(5e-7, "tiled", SMALL_GPU),
    "wide": Variant(5e-7, "wide", GPU),
    "windows": Variant(5e-7, "windows", GPU),
    "slices": Variant(5e-7, "slices", GPU),
    "slices for small groups": Variant(5e-7, "slices", SMALL_GPU),
}
OF_CPU_KERNELS = ("rows", "packed", "dot", "stream")
# Half of the last place of what is stored, and of the smallest numbers; nothing for float64, with sums in float64.
STORED = {"float32": (0.0, 0.0), "float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 0.0), "float64": (0.0, 0.0)}

# 0, 1, primes, and just under and over the edges: 4, 6, 8 rows; 16, 32, 64, 128 rows or columns; strips of 256 columns;
# along k steps of 8 and 16, 64 or 384 rows at a time, parts of 1024.
SIDES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257)
DEPTHS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 97, 383, 384, 385, 1023, 1025, 2053, 4099)
MOST = 1 << 20  # products of a case


class Drawn(NamedTuple):
    """Two matrices as stored, with a flag for each: transposed first."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: str = "float32"


@st.composite
def products(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Drawn:
    """Returns any product of bounded work, in batches that broadcast."""
    batch = tuple(draw(st.sampled_from((1, 2, 3))) for _ in range(draw(st.sampled_from((0, 0, 1, 2, 3)))))
    m = draw(st.sampled_from(SIDES))
    n = draw(st.sampled_from(SIDES))
    k = draw(st.sampled_from([k for k in DEPTHS if prod(batch) * m * k * n <= MOST]))
    transpose_a, transpose_b = draw(st.booleans()), draw(st.booleans())

    def of_the_batch() -> tuple[int, ...]:
        ranks = draw(st.integers(0, len(batch)))
        return tuple(draw(st.sampled_from((1, count))) for count in batch[ranks:])

    a = (*of_the_batch(), *((k, m) if transpose_a else (m, k)))
    b = (*of_the_batch(), *((n, k) if transpose_b else (k, n)))
    return Drawn(a, b, transpose_a, transpose_b, draw(st.sampled_from(dtypes)))


def laid_out_for(p: Drawn, forced: str | None) -> Drawn:
    """Returns the product in the layout that a kernel for few rows needs; for few columns it is the transpose."""
    (m, k), (n, _) = (p.a[-2:][:: -1 if p.transpose_a else 1], p.b[-2:][:: 1 if p.transpose_b else -1])
    if forced == "dot":
        return p._replace(a=(*p.a[:-2], m, k), b=(*p.b[:-2], n, k), transpose_a=False, transpose_b=True)
    if forced == "stream":
        return p._replace(a=(*p.a[:-2], k, m), b=(*p.b[:-2], k, n), transpose_a=True, transpose_b=False)
    return p


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def wide(values: Any, dtype: str) -> Any:
    return (from_bfloat16(values) if dtype == "bfloat16" else values).astype(np.float64)


@contextmanager
def seen_as(engine: Any, seen: Traits | None) -> Iterator[None]:
    """Yields the engine's device taken for another one, where ``seen`` is given."""
    if seen is None:
        yield
        return
    before = templates.traits(engine)
    engine._traits = seen
    try:
        yield
    finally:
        engine._traits = before


def check(engine: Any, p: Drawn, variant: Variant) -> None:
    """Checks that the product is within the bound, that every element is written, and the same bits twice."""
    p = laid_out_for(p, variant.forced)
    rng = np.random.default_rng(7)
    arrays = [stored(rng.standard_normal(shape), p.dtype) for shape in (p.a, p.b)]
    left, right = (wide(array, p.dtype) for array in arrays)
    left = np.swapaxes(left, -1, -2) if p.transpose_a else left
    right = np.swapaxes(right, -1, -2) if p.transpose_b else right
    exact, scale = left @ right, np.abs(left) @ np.abs(right)
    a, b = (engine.tensor(array, p.dtype) for array in arrays)
    out = engine.tensor(stored(np.full(exact.shape, np.nan), p.dtype), p.dtype)
    options: dict[str, Any] = {"transpose_a": p.transpose_a, "transpose_b": p.transpose_b}
    with seen_as(engine, variant.seen):
        if variant.forced is None:
            found = [engine.matmul(a, b, **options), engine.matmul(a, b, out=out, **options)]
        else:
            options["variant"] = variant.forced
            found = [gemm.matmul(engine, a, b, **options), gemm.matmul(engine, a, b, out=out, **options)]
        first, second = (engine.read(tensor) for tensor in found)
    assert first.shape == exact.shape, p
    assert np.array_equal(first, second), p
    relative, absolute = STORED[p.dtype]
    bound = variant.bound * (2.0**-29 if p.dtype == "float64" else 1)
    error = np.abs(wide(first, p.dtype) - exact) - relative * np.abs(exact) - absolute
    assert (error <= bound * scale).all(), (p, variant, (error / (scale + 1e-300)).max())


def limits(examples: int) -> Any:
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=slow)


@pytest.fixture
def variant(name: str, engine: Any) -> Variant:
    """Returns the variant of that name, where the engine has it."""
    if engine.name != "cl" and name != "chosen":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    if name in OF_CPU_KERNELS and not templates.traits(engine).is_cpu:
        pytest.skip("needs an OpenCL CPU device: others are not given these kernels")
    return VARIANTS[name]


@pytest.mark.parametrize("name", ["chosen", *OF_CPU_KERNELS])
@limits(40)
@given(p=products())
@example(p=Drawn((3, 2053), (2053, 700)))  # few rows and work enough for the smaller tile
@example(p=Drawn((40, 9001), (9001, 20)))  # few results and long sums, which are cut into parts
def test_drawn_products(engine: Any, variant: Variant, p: Drawn) -> None:
    check(engine, p, variant)


@pytest.mark.deep
@pytest.mark.parametrize("name", VARIANTS)
@limits(100)
@given(p=products(tuple(STORED)))
def test_drawn_products_in_every_variant(engine: Any, variant: Variant, p: Drawn) -> None:
    check(engine, p, variant)
