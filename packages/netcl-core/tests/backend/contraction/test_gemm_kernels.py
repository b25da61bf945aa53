"""Matrix products of the engines against NumPy in float64: every dtype, transpose, layout and variant."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from netcl.core.device.health import launch_log
from netcl.core.dtypes import from_bfloat16, numpy_dtype, to_bfloat16

TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}
TRANSPOSES = list(product((False, True), repeat=2))
# One, primes, just under and over tile edges (6, 8; 16, 32; 384), nothing to sum, nothing to write.
SHAPES = [
    (1, 1, 1), (7, 5, 3), (13, 17, 31), (6, 385, 16), (9, 384, 17), (65, 33, 67), (1, 100, 70), (70, 100, 1),
    (4, 2050, 5), (25, 800, 33), (3, 0, 4), (0, 3, 4), (3, 4, 0), (2, 70, 200), (200, 71, 3),
]  # fmt: skip


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def wide(values: Any, dtype: str) -> Any:
    return (from_bfloat16(values) if dtype == "bfloat16" else values).astype(np.float64)


def random_matrices(shapes: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(1)
    return [stored(rng.standard_normal(shape), dtype) for shape in shapes]


def check(engine: Any, dtype: str, a_shape: Any, b_shape: Any, flags: Any, variant: str | None = None) -> None:
    a, b = random_matrices((a_shape, b_shape), dtype)
    transpose_a, transpose_b = flags
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    x, y = engine.tensor(a, dtype), engine.tensor(b, dtype)
    if variant is None:
        result = engine.matmul(x, y, **options)
    else:
        from netcl.core.backend.opencl.contraction import gemm

        result = gemm.matmul(engine, x, y, **options, variant=variant)
    left, right = wide(a, dtype), wide(b, dtype)
    left = np.swapaxes(left, -1, -2) if transpose_a else left
    right = np.swapaxes(right, -1, -2) if transpose_b else right
    expected = np.matmul(left, right)
    assert result.shape == expected.shape
    assert result.dtype == dtype
    # Rounding grows with the absolute values that are summed.
    scale = np.matmul(np.abs(left), np.abs(right)) + 1e-30
    error = np.abs(wide(engine.read(result), dtype) - expected) / scale
    assert error.max(initial=0) < TOLERANCE[dtype], (a_shape, b_shape, flags, variant)


def shapes_of(m: int, k: int, n: int, flags: tuple[bool, bool]) -> tuple[tuple[int, int], tuple[int, int]]:
    return (k, m) if flags[0] else (m, k), (n, k) if flags[1] else (k, n)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_matmul_agrees_with_numpy(engine: Any, dtype: str) -> None:
    for flags, (m, k, n) in product(TRANSPOSES, SHAPES):
        check(engine, dtype, *shapes_of(m, k, n, flags), flags)


OF_LARGE_GPUS = [pytest.param(name, marks=pytest.mark.deep) for name in ("wide", "windows", "slices")]


@pytest.mark.parametrize("variant", ["rows", "packed", "tiled", "direct", *OF_LARGE_GPUS])
def test_every_variant_agrees_with_numpy(engine: Any, variant: str) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    for dtype in ("float32", "bfloat16"):
        for flags, (m, k, n) in product(TRANSPOSES, SHAPES):
            check(engine, dtype, *shapes_of(m, k, n, flags), flags, variant)


def test_batches_broadcast_as_in_numpy(engine: Any) -> None:
    for flags in TRANSPOSES:
        for a, b in [
            ((2, 3), (3,)),
            ((2, 3), (2, 1)),
            ((5,), ()),
            ((), (5,)),
            ((2, 1, 3), (1, 4, 1)),
            ((2, 1, 3, 1), (2, 1, 3)),
            ((0,), ()),
            ((1, 1), (2, 1)),
        ]:
            for m, k, n in ((5, 7, 6), (1, 9, 4), (20, 3, 2)):
                (a_matrix, b_matrix) = shapes_of(m, k, n, flags)
                check(engine, "float32", a + a_matrix, b + b_matrix, flags)


def test_nothing_to_sum_gives_zeros(engine: Any) -> None:
    out = engine.tensor(np.full((3, 4), 7, np.float32), "float32")
    empty = (
        engine.tensor(np.zeros((3, 0), np.float32), "float32"),
        engine.tensor(np.zeros((0, 4), np.float32), "float32"),
    )
    assert engine.matmul(*empty, out=out) is out
    assert (engine.read(out) == 0).all()


def test_out_is_written_in_place_and_noted(engine: Any) -> None:
    a, b = random_matrices(((9, 5), (5, 40)), "float32")
    out = engine.empty((9, 40), "float32")
    before = out.version
    assert engine.matmul(engine.tensor(a, "float32"), engine.tensor(b, "float32"), out=out) is out
    np.testing.assert_allclose(engine.read(out), a @ b, rtol=1e-4, atol=1e-5)
    assert out.version == before + 1


def test_results_are_the_same_bits_from_run_to_run(engine: Any) -> None:
    # Few outputs and a long sum: the sum is cut in parts, which are added in order.
    for m, k, n in ((40, 9000, 20), (130, 500, 70)):
        a, b = random_matrices(((m, k), (k, n)), "float32")
        x, y = engine.tensor(a, "float32"), engine.tensor(b, "float32")
        first = engine.read(engine.matmul(x, y))
        assert all(np.array_equal(first, engine.read(engine.matmul(x, y))) for _ in range(5))


@pytest.mark.parametrize(
    ("variant", "sizes", "launches"),
    [("slices", (2, 2050, 5), 2), ("slices", (3, 100, 70), 1), ("windows", (9, 2050, 20), 2), (None, (90, 700, 3), 2)],
)
def test_gpus_cut_long_sums_in_parts(
    engine: Any, variant: str | None, sizes: tuple[int, int, int], launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.contraction import gemm

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 48 * 1024))
    m, k, n = sizes
    for flags in ((False, False), (False, True)):
        a, b = (engine.tensor(one, "float32") for one in random_matrices(shapes_of(m, k, n, flags), "float32"))
        log = launch_log(engine.queue)
        log.clear()
        first, second = (gemm.matmul(engine, a, b, transpose_b=flags[1], variant=variant) for _ in range(2))
        assert [*log] == 2 * [variant or "slices", "add_parts"][:launches]
        assert np.array_equal(engine.read(first), engine.read(second))
        check(engine, "float32", *shapes_of(m, k, n, flags), flags, variant)


def test_infinities_and_nans_stay_in_their_rows(engine: Any) -> None:
    a, b = random_matrices(((13, 30), (30, 35)), "float32")
    a[3, 4], a[12, 0] = np.nan, np.inf
    result = engine.read(engine.matmul(engine.tensor(a, "float32"), engine.tensor(b, "float32")))
    assert np.isnan(result[3]).all()
    assert np.isinf(result[12]).all()
    assert np.isfinite(np.delete(result, [3, 12], axis=0)).all()


@pytest.mark.deep
@pytest.mark.parametrize("is_cpu", [True, False])
def test_devices_with_little_local_memory_and_narrow_vectors(
    engine: Any, is_cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(is_cpu, 4, 32 * 1024))
    for flags, (m, k, n) in product(TRANSPOSES, SHAPES):
        check(engine, "float32", *shapes_of(m, k, n, flags), flags)


EPILOGUES = {
    "bias": ("v0 + v1", ((9,),)),
    "relu of bias and residual": ("fmax(v0 + v1, 0.0f) * 0.5f + v2", ((9,), (13, 9))),
    "per row, and a number": ("v0 * v1 + v2", ((13, 1), ())),
    "no operand": ("v0 / (1.0f + exp(-v0))", ()),
    "a mask": ("v1 > 0.0f ? v0 : v2", ((13, 9), (1, 9))),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_is_what_a_pass_of_its_own_would_be(engine: Any, name: str) -> None:
    from netcl.core.engine.epilogue import Epilogue, run_alone
    from netcl.core.expr import Load, parse

    text, shapes = EPILOGUES[name]
    for dtype, (m, k, n) in product(("float32", "float16", "float64"), ((13, 40, 9), (13, 3000, 9))):
        a, b, *others = random_matrices(((m, k), (k, n), *shapes), dtype)
        a = (a / np.sqrt(k)).astype(a.dtype)
        expression = parse(text, [Load(slot, dtype) for slot in range(len(shapes) + 1)])
        epilogue = Epilogue(expression, tuple(engine.tensor(other, dtype) for other in others))
        x, y, transposed = (engine.tensor(array, dtype) for array in (a, b, np.ascontiguousarray(b.T)))
        alone = engine.matmul(x, y)
        run_alone(engine, epilogue, alone)
        found = engine.matmul(x, y, epilogue=epilogue)
        tolerance = {"float32": 1e-5, "float64": 1e-13, "float16": 4e-3}[dtype]
        np.testing.assert_allclose(
            wide(engine.read(found), dtype), wide(engine.read(alone), dtype), tolerance, tolerance
        )
        found = engine.matmul(x, transposed, transpose_b=True, epilogue=epilogue)
        np.testing.assert_allclose(
            wide(engine.read(found), dtype), wide(engine.read(alone), dtype), tolerance, tolerance
        )


def test_an_epilogue_of_thin_and_stacked_products(engine: Any) -> None:
    from netcl.core.engine.epilogue import added

    for a_shape, b_shape, beside in (
        ((2, 50), (50, 40), (40,)), ((40, 50), (50, 2), (2,)), ((3, 20, 8), (3, 8, 40), (20, 40)),
        ((2, 1, 20, 8), (1, 3, 8, 40), (40,)), ((3, 20, 8), (3, 8, 40), (3, 20, 40)), ((3, 20, 8), (8, 40), (3, 20, 1)),
    ):  # fmt: skip
        a, b, other = random_matrices((a_shape, b_shape, beside), "float32")
        x, y, z = (engine.tensor(array, "float32") for array in (a, b, other))
        result = engine.matmul(x, y)
        if result.shape == (60, 40):
            z = engine.tensor(other.reshape(60, 1), "float32")
        found = engine.read(engine.matmul(x, y, epilogue=added(z)))
        np.testing.assert_allclose(found, engine.read(result) + engine.read(z), rtol=1e-4, atol=1e-5)


def test_an_epilogue_of_reductions_is_refused(engine: Any) -> None:
    from netcl.core.engine.epilogue import Epilogue
    from netcl.core.errors import ExpressionError
    from netcl.core.expr import Load, reduce

    x = engine.tensor(np.ones((3, 3), np.float32), "float32")
    for expression in (reduce("sum", Load(0, "float32"), 1), Load(0, "float32") + Load(1, "float32")):
        with pytest.raises(ExpressionError, match="an epilogue of float32 results"):
            engine.matmul(x, x, epilogue=Epilogue(expression))
