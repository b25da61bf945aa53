"""Epilogues inside the kernels of products and convolutions: every variant, forced, against NumPy in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, manager
from netcl.core.backend.opencl import templates
from netcl.core.device.health import launch_log
from netcl.core.dtypes import from_bfloat16, numpy_dtype, to_bfloat16
from netcl.core.engine.epilogue import Epilogue, run_alone
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load, parse
from netcl.core.testing import masked

TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
# The dimensions of operands: m rows, n columns of a product or of the images of a convolution.
EPILOGUES = {
    "bias": ("v0 + v1", ("n",)),
    "a value for each row, and a number": ("v0 * v1 + v2", ("m1", "")),
    "residual": ("v0 - v1", ("mn",)),
    "activation": ("v0 / (1.0f + exp(-v0))", ()),
    "two operands": ("fmax(v0 + v1, 0.0f) * 0.5f + v2", ("n", "mn")),
    "a mask": ("v1 > 0.0f ? v0 : v2", ("mn", "1n")),
}
EXACT = EPILOGUES.keys() - {"activation"}  # every driver makes the same bits of their functions
# Stack, rows, terms, columns, whether the operands are transposed: next to the edges of every tile, nothing to sum
PRODUCTS = [
    ((), 65, 20, 131, (False, True)),
    ((), 130, 17, 67, (True, False)),
    ((2,), 9, 5, 33, (True, True)),
    ((), 9, 0, 4, (False, False)),
    ((2,), 3, 4100, 21, (False, True)),  # few tiles of long sums, which are cut in parts
]
# The GEMV kernels of CPUs: one row to more than a block, on both sides of a vector.
THIN = {
    "dot": [((), 1, 37, 9, (False, True)), ((), 3, 5, 21, (False, True)), ((), 70, 33, 2, (False, True))],
    "stream": [((), 1, 37, 300, (False, False)), ((), 4, 6, 21, (False, False)), ((2,), 3, 9, 17, (False, False))],
}
OF_CPUS = {"rows": 1, "packed": 2}  # the most launches of a product with undivided sums
WIDE = ("packed", "wide", "tiled", "broadcast")  # of these a few quick tests have to do
VARIED = [("direct", name, "float32") for name in EPILOGUES] + [("tiled", "two operands", "float32")]
DEEP = [
    (variant, name, dtype)
    for variant, name, dtype in product(("rows", *WIDE, "slices", "direct", "plain"), EPILOGUES, TOLERANCE)
    if (dtype == "float32" or name == "two operands") and (variant, name, dtype) not in VARIED
]
IMAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((3, 5, 9, 11), (9, 5, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (2, 0)), "groups": 1}),
    "in groups, strided": ((2, 20, 9, 8), (18, 10, 3, 3), {"stride": (2, 1), "padding": ((1, 1), (0, 0)), "groups": 2}),
    "sums in parts": ((1, 32, 6, 6), (9, 32, 3, 3), {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "groups": 1}),
    "over a tile": ((2, 3, 13, 12), (70, 3, 1, 1), {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "groups": 1}),
}
OF_IMAGES = {
    "a channel's bias and a residual": ("fmax(v0 + v1, 0.0f) + v2", ("c11", "nchw")),
    "bias": ("v0 + v1", ("c11",)),
}


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def wide(values: Any, dtype: str) -> Any:
    return (from_bfloat16(values) if dtype == "bfloat16" else values).astype(np.float64)


def arrays(shapes: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(7)
    return [stored(rng.standard_normal(shape), dtype) for shape in shapes]


def epilogue_of(engine: Any, text: str, operands: list[Any], dtype: str) -> Epilogue:
    expression = parse(text, [Load(slot, dtype) for slot in range(len(operands) + 1)])
    return Epilogue(expression, tuple(engine.tensor(operand, dtype) for operand in operands))


def exactly(text: str, result: Any, operands: list[Any]) -> Any:
    """Returns the epilogue in float64, on NumPy."""
    engine: Any = engine_for(manager.default("cpu"))
    out = engine.tensor(result, "float64")
    run_alone(engine, epilogue_of(engine, text, operands, "float64"), out)
    return engine.read(out)


def counted(engine: Any, computation: Any) -> tuple[Any, int]:
    """Returns a result and the launches that it took."""
    engine.queue.finish()
    log = launch_log(engine.queue)
    log.clear()
    result = computation()
    count = len(log)
    return engine.read(result), count


def check_product(engine: Any, variant: str, name: str, dtype: str) -> None:
    """Checks every product of a variant with an epilogue: near float64, in float32 the bits of a pass of its own, and
    no launch more than without where the kernel takes it.
    """
    from netcl.core.backend.opencl.contraction import gemm

    text, along = EPILOGUES[name]
    for stack, m, k, n, (first, second) in THIN.get(variant, PRODUCTS):
        if stack and "m1" in along:
            continue  # no place in a stack, so a pass of its own: test_gemm_kernels.py
        shapes = {"n": (n,), "m1": (m, 1), "mn": (*stack, m, n), "1n": (1, n), "": ()}
        a, b, *others = arrays(
            (
                (*stack, *((k, m) if first else (m, k))),
                (*stack, *((n, k) if second else (k, n))),
                *map(shapes.get, along),
            ),
            dtype,
        )
        options = {"transpose_a": first, "transpose_b": second, "variant": variant}
        x, y = engine.tensor(a, dtype), engine.tensor(b, dtype)
        epilogue = epilogue_of(engine, text, others, dtype)
        plain, before = counted(engine, lambda x=x, y=y, o=options: gemm.matmul(engine, x, y, **o))
        found, count = counted(
            engine, lambda x=x, y=y, o=options, e=epilogue: gemm.matmul(engine, x, y, **o, epilogue=e)
        )
        left, right = (wide(one, dtype) for one in (a, b))
        left, right = (np.swapaxes(z, -1, -2) if flag else z for z, flag in ((left, first), (right, second)))
        exact = exactly(text, left @ right, [wide(other, dtype) for other in others])
        # Rounding grows with the absolute values that are summed.
        scale = 1 + np.abs(exact) + 4 * (np.abs(left) @ np.abs(right))
        error = np.abs(wide(found, dtype) - exact) / scale
        assert error.max() < TOLERANCE[dtype], (variant, name, dtype, m, k, n)
        as_vectors = before <= OF_CPUS.get(variant, 0)  # the sums of parts are finished one by one
        in_one = variant != "plain" and (not as_vectors or dtype != "float64" or name == "bias")
        assert count == before + (not in_one), (variant, name, dtype, m, k, n)
        if dtype in ("float32", "float64") and name in EXACT:
            apart = engine.tensor(plain, dtype)
            run_alone(engine, epilogue, apart)
            assert np.array_equal(found, engine.read(apart)), (variant, name, dtype, m, k, n)


def check_images(engine: Any, variant: str, dtype: str = "float32") -> None:
    """Checks the same of convolutions, against the variant without an epilogue and a pass behind it."""
    from netcl.core.backend.opencl.contraction import conv

    for (case, (x, weight, options)), (name, (text, along)) in product(IMAGES.items(), OF_IMAGES.items()):
        call = {**options, "dilation": (1, 1), "variant": variant}
        first, second = (engine.tensor(array, dtype) for array in arrays((x, weight), dtype))
        out = conv.conv(engine, "forward", first, second, **call)
        grad = engine.tensor(arrays((out.shape,), dtype)[0], dtype)
        for kind, one, shape in (("forward", first, None), ("grad_input", grad, x)):
            plain, before = counted(
                engine, lambda k=kind, o=one, w=second, c=call, s=shape: conv.conv(engine, k, o, w, **c, shape=s)
            )
            shapes = {"c11": (plain.shape[1], 1, 1), "nchw": plain.shape}
            epilogue = epilogue_of(engine, text, arrays(map(shapes.get, along), dtype), dtype)
            found, count = counted(
                engine,
                lambda k=kind, o=one, w=second, c=call, s=shape, e=epilogue: conv.conv(
                    engine, k, o, w, **c, shape=s, epilogue=e
                ),
            )
            apart = engine.tensor(plain, dtype)
            run_alone(engine, epilogue, apart)
            if dtype == "float32":
                assert np.array_equal(found, engine.read(apart)), (variant, case, name, kind)
            else:
                exact = wide(engine.read(apart), dtype)
                scale = 1 + np.abs(wide(plain, dtype)) + np.abs(exact)
                assert (np.abs(wide(found, dtype) - exact) / scale).max() < 2 * TOLERANCE[dtype], (variant, case, name)
            assert count == before, (variant, case, name, kind)


@pytest.fixture
def on_opencl(engine: Any) -> Any:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    return engine


@pytest.mark.parametrize(
    ("variant", "name", "dtype"), [*VARIED, *(pytest.param(*each, marks=pytest.mark.deep) for each in DEEP)]
)
def test_products_in_every_variant(on_opencl: Any, variant: str, name: str, dtype: str) -> None:
    check_product(on_opencl, variant, name, dtype)


@pytest.mark.parametrize("variant", THIN)
@pytest.mark.parametrize(
    "name", ["two operands", *(pytest.param(n, marks=pytest.mark.deep) for n in EPILOGUES if n != "two operands")]
)
def test_thin_products(on_opencl: Any, variant: str, name: str) -> None:
    if not on_opencl.handle.profile.is_cpu:
        pytest.skip("needs a CPU: GPUs have no GEMV kernel of their own")
    for dtype in TOLERANCE:
        if "float64" not in dtype or on_opencl.handle.profile.has_fp64:
            check_product(on_opencl, variant, name, dtype)


def test_a_bias_costs_a_thin_product_no_launch(on_opencl: Any) -> None:
    x, w, b = (Tensor.from_host(on_opencl.queue, array) for array in arrays(((1, 9), (5, 9), (5,)), "float32"))
    found, count = counted(on_opencl, lambda: ops.linear(x, w, b))
    expected, more = counted(on_opencl, lambda: ops.linear(x, w) + b)
    assert (count, more) == (1, 2)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        ("direct", "float32"),
        *(
            pytest.param(variant, "float32", marks=pytest.mark.deep)
            for variant in ("rows", "packed", "windows", "tiled")
        ),
        *(pytest.param(variant, "float16", marks=pytest.mark.deep) for variant in ("windows", "tiled", "direct")),
    ],
)
def test_convolutions_in_every_variant(on_opencl: Any, variant: str, dtype: str) -> None:
    check_images(on_opencl, variant, dtype)


def test_blocks_of_images_are_finished_where_they_lie(on_opencl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.contraction import conv

    monkeypatch.setattr(conv, "_WORKSPACE", 1 << 13)  # bytes of padded images, here of one or two at a time
    check_images(on_opencl, "direct")


def test_a_bias_costs_a_gpu_no_launch(on_opencl: Any) -> None:
    with masked(on_opencl.handle, is_cpu=False) as seen:
        engine = engine_for(seen)
        x, w, b, image, taps, each = (
            Tensor.from_host(seen, array)
            for array in arrays(((6, 9), (5, 9), (5,), (2, 3, 5, 5), (4, 3, 3, 3), (4,)), "float32")
        )
        for computation, apart in (
            (lambda: ops.linear(x, w, b), lambda: ops.linear(x, w) + b),
            (lambda: ops.conv2d(image, taps, each), lambda: ops.conv2d(image, taps) + each.reshape(4, 1, 1)),
        ):
            found, count = counted(engine, computation)
            expected, more = counted(engine, apart)
            assert (count, more) == (1, 2)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("variant", ["winograd2_gpu", "winograd4_gpu"])
def test_minimal_filtering_on_gpus_finishes_its_sums(on_opencl: Any, variant: str, dtype: str) -> None:
    from netcl.core.backend.opencl.contraction import conv

    x, weight, *others = arrays(((2, 5, 9, 7), (6, 5, 3, 3), (6, 1, 1), ()), "float32")
    given = [on_opencl.tensor(one, dtype) for one in (x, weight)]
    options = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1, "variant": variant}
    plain = conv.conv(on_opencl, "forward", *given, **options)
    log = launch_log(on_opencl.queue)
    log.clear()
    epilogue = epilogue_of(on_opencl, "fmax(v0 * v2 + v1, 0.0f)", others, dtype)
    fused = conv.conv(on_opencl, "forward", *given, **options, epilogue=epilogue)
    assert log[-1] == "output_tiles"
    run_alone(on_opencl, epilogue, plain)
    tolerance = {"float32": 1e-6, "bfloat16": 3e-2}[dtype]  # the separate pass rounds before and after
    np.testing.assert_allclose(Tensor.float(fused).numpy(), Tensor.float(plain).numpy(), tolerance, tolerance)


@pytest.mark.parametrize("variant", ["winograd2", "winograd4"])
def test_minimal_filtering_in_blocks_has_the_same_bits(
    on_opencl: Any, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from netcl.core.backend.opencl.contraction import conv
    from netcl.core.backend.opencl.contraction.minimal_filtering import winograd
    from netcl.core.backend.opencl.templates import traits

    if not traits(on_opencl).is_cpu:
        pytest.skip("needs an OpenCL CPU device: GPUs have kernels of their own")
    shapes = ((3, 5, 9, 7), (37, 5, 3, 3), (37, 1, 1), (), (3, 37, 9, 7))
    x, weight, bias, factor, grad = arrays(shapes, "float32")
    x, weight, grad = (on_opencl.tensor(one, "float32") for one in (x, weight, grad))
    epilogue = epilogue_of(on_opencl, "fmax(v0 * v2 + v1, 0.0f)", (bias, factor), "float32")
    options = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1, "variant": variant}
    monkeypatch.setitem(vars(on_opencl), "_traits", templates.traits(on_opencl)._replace(units=2))
    found, launches = [], []
    for blocks in ({}, {"_WEIGHTS": 1}, {"_TILES": 1}):
        with monkeypatch.context() as patch:
            for name, most in blocks.items():
                patch.setattr(winograd, name, most)
            log = launch_log(on_opencl.queue)
            log.clear()
            results = [
                conv.conv(on_opencl, "forward", x, weight, **options, epilogue=epilogue),
                conv.conv(on_opencl, "grad_input", grad, weight, shape=x.shape, **options),
                conv.conv(on_opencl, "grad_weight", x, grad, shape=weight.shape, **options),
            ]
            launches.append(len(log))
            found.append([on_opencl.read(one) for one in results])
    assert launches[0] < min(launches[1:])
    for others in found[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(found[0], others))


def test_arguments_fit_the_smallest_devices(on_opencl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenCL asks for room for 1024 bytes of arguments; four operands are the most. Nothing runs here.
    sizes: dict[str, int] = {}

    def note(text: str, name: str, size: Any, local: Any, arguments: Any) -> None:
        sizes[name] = max(sizes.get(name, 0), sum(one.nbytes if isinstance(one, np.void) else 8 for one in arguments))

    monkeypatch.setattr(on_opencl, "launch", note)
    from netcl.core.backend.opencl.contraction import conv, gemm

    a, b, *others = arrays(((9, 5), (5, 7), (7,), (9, 1), (9, 7), ()), "float32")
    epilogue = epilogue_of(on_opencl, "v0 * v1 + v2 * v3 + v4", others, "float32")
    for variant in ("direct", "rows", "tiled", "wide", "slices"):
        gemm.matmul(
            on_opencl, *(on_opencl.tensor(one, "float32") for one in (a, b)), variant=variant, epilogue=epilogue
        )
    x, weight, *others = arrays(((1, 2, 5, 5), (9, 2, 3, 3), (9, 1, 1), (1, 9, 3, 3), (), (9, 1, 1)), "float32")
    epilogue = epilogue_of(on_opencl, "v0 * v1 + v2 * v3 + v4", others, "float32")
    options = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    for variant in ("windows", "winograd2", "winograd4_gpu"):
        given = (on_opencl.tensor(one, "float32") for one in (x, weight))
        conv.conv(on_opencl, "forward", *given, **options, variant=variant, epilogue=epilogue)
    assert {"direct", "contract", "tiled", "wide", "slices", "windows", "output_tiles"} <= sizes.keys()
    assert max(sizes.values()) <= 1024
