"""Convolutions of the engines, all three directions, against sums over taps in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from netcl.core.dtypes import from_bfloat16, numpy_dtype, to_bfloat16
from netcl.core.tuning.conv_plans import geometry
from netcl.core.tuning.images_last import plan_on

# Of the sums of absolute values. Minimal filtering adds to it, see backend/opencl/winograd.py.
TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}


class Case(NamedTuple):
    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


CASES = {
    "plain": Case((2, 3, 8, 8), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "asymmetric": Case((3, 2, 7, 9), (5, 2, 3, 2), (2, 3), ((1, 0), (2, 1)), (1, 1), 1),
    "grouped and dilated": Case((2, 4, 9, 8), (6, 2, 3, 3), (1, 2), ((0, 0), (3, 2)), (2, 3), 2),
    "depthwise": Case((2, 6, 9, 8), (6, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 6),
    "depthwise, two filters each, strided": Case((2, 6, 9, 8), (12, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 6),
    "stride above kernel": Case((1, 3, 11, 11), (4, 3, 2, 2), (5, 3), ((0, 0), (0, 0)), (1, 1), 1),
    "1d": Case((2, 3, 13), (4, 3, 5), (2,), ((4, 1),), (3,), 1),
    "3d": Case((2, 3, 5, 6, 7), (4, 3, 2, 3, 1), (1, 2, 1), ((1, 0), (1, 1), (0, 2)), (2, 1, 1), 1),
    "pointwise, strided": Case((2, 4, 6, 6), (7, 4, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise": Case((2, 4, 6, 6), (7, 4, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "padding above kernel": Case((2, 2, 10, 10), (3, 2, 3, 3), (4, 4), ((1, 1), (0, 5)), (2, 2), 1),
    "stride and dilation share a factor": Case((2, 2, 10, 12), (3, 2, 3, 4), (4, 6), ((2, 2), (3, 5)), (6, 4), 1),
    "no images": Case((0, 3, 8, 8), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "over tile edges": Case((20, 5, 17, 19), (33, 5, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one of all": Case((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "reduced to a point": Case((3, 4, 5, 5), (6, 4, 5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
}


def stored(values: Any, dtype: str) -> Any:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(numpy_dtype(dtype))


def wide(values: Any, dtype: str) -> Any:
    return (from_bfloat16(values) if dtype == "bfloat16" else values).astype(np.float64)


def meetings(case: Case) -> Any:
    """Returns (tap, padded positions of it, filters, channels) for each tap and group, and the output's extent."""
    sizes = zip(case.x[2:], case.weight[2:], case.stride, case.padding, case.dilation)
    out = tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)
    depth, rows = case.weight[1], case.weight[0] // case.groups
    met = []
    for tap in product(*map(range, case.weight[2:])):
        place = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, case.dilation, out, case.stride)
        )
        for g in range(case.groups):
            met.append((tap, place, slice(g * rows, (g + 1) * rows), slice(g * depth, (g + 1) * depth)))
    return met, out


def reference(case: Case, x: Any, weight: Any, grad: Any) -> tuple[Any, Any, Any]:
    """Returns output, input gradient and weight gradient by the definition."""
    met, out = meetings(case)
    padded = np.pad(x, [(0, 0), (0, 0), *case.padding])
    output, grad_padded, grad_weight = np.zeros(grad.shape), np.zeros(padded.shape), np.zeros(weight.shape)
    for tap, place, filters, channels in met:
        seen, at = (slice(None), channels, *place), (filters, slice(None), *tap)
        output[:, filters] += np.einsum("nc...,fc->nf...", padded[seen], weight[at])
        grad_padded[seen] += np.einsum("nf...,fc->nc...", grad[:, filters], weight[at])
        grad_weight[at] += (
            np.einsum("nc...,nf...->fc...", padded[seen], grad[:, filters])
            .reshape(weight[at].shape + (-1,))
            .sum(axis=-1)
            if grad.size
            else 0
        )
    inner = tuple(slice(low, low + size) for size, (low, _) in zip(case.x[2:], case.padding))
    return output, grad_padded[(slice(None), slice(None), *inner)], grad_weight


def data(case: Case, dtype: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    grad = (case.x[0], case.weight[0], *meetings(case)[1])
    return tuple(stored(rng.standard_normal(shape), dtype) for shape in (case.x, case.weight, grad))  # type: ignore[return-value]


def compute(engine: Any, case: Case, dtype: str, arrays: Any, variant: str | None = None) -> list[Any]:
    x, weight, grad = (engine.tensor(array, dtype) for array in arrays)
    options: dict[str, Any] = {name: getattr(case, name) for name in ("stride", "padding", "dilation", "groups")}
    if variant is None:
        call = engine.conv
    else:
        from netcl.core.backend.opencl.contraction import conv

        def call(*args: Any, **kwargs: Any) -> Any:
            return conv.conv(engine, *args, **kwargs, variant=variant)

    return [
        call("forward", x, weight, **options),
        call("grad_input", grad, weight, shape=case.x, **options),
        call("grad_weight", x, grad, shape=case.weight, **options),
    ]


def check(engine: Any, name: str, dtype: str, variant: str | None = None) -> None:
    case = CASES[name]
    arrays = data(case, dtype)
    results = compute(engine, case, dtype, arrays, variant)
    values = [wide(array, dtype) for array in arrays]
    expected = reference(case, *values)
    scales = reference(case, *(np.abs(value) for value in values))
    for direction, result, value, scale in zip(("forward", "grad_input", "grad_weight"), results, expected, scales):
        assert result.shape == value.shape
        assert result.dtype == dtype
        error = np.abs(wide(engine.read(result), dtype) - value) / (scale + 1e-30)
        assert error.max(initial=0) < TOLERANCE[dtype], (name, direction, variant)


@pytest.mark.parametrize("name", CASES)
def test_conv_agrees_with_the_definition(engine: Any, name: str) -> None:
    check(engine, name, "float32")


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_conv_in_other_dtypes(engine: Any, dtype: str) -> None:
    for name in ("plain", "asymmetric", "grouped and dilated", "3d", "over tile edges"):
        check(engine, name, dtype)


@pytest.mark.parametrize(
    "variant",
    ["rows", "packed", "channels", "images_last", pytest.param("windows", marks=pytest.mark.deep), "tiled", "direct"],
)
def test_every_variant_agrees_with_the_definition(engine: Any, variant: str) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    for name in CASES:
        check(engine, name, "float32", variant)
    check(engine, "asymmetric", "bfloat16", variant)


def test_small_convolutions_in_every_variant(engine: Any) -> None:
    for name in ("stride above kernel", "1d", "pointwise, strided", "stride and dilation share a factor"):
        for variant in ("packed", "tiled", "direct") if engine.name == "cl" else (None,):
            check(engine, name, "float32", variant)


def test_images_are_worked_on_in_blocks_of_bounded_size(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    module = import_module(f"netcl.core.backend.{'opencl.contraction' if engine.name == 'cl' else 'cpu'}.conv")
    monkeypatch.setattr(module, "_WORKSPACE", 6000)
    for name in ("plain", "asymmetric", "over tile edges", "no images"):
        check(engine, name, "float32")
    check(engine, "over tile edges", "float16")


def test_gradients_are_the_adjoint(engine: Any) -> None:
    # <conv(x, w), g> = <x, grad_input> = <w, grad_weight>, whatever the reference says.
    for name in ("asymmetric", "stride and dilation share a factor", "3d"):
        arrays = data(CASES[name], "float64")
        output, grad_input, grad_weight = (engine.read(t) for t in compute(engine, CASES[name], "float64", arrays))
        x, weight, grad = arrays
        whole = np.vdot(output, grad)
        assert np.isclose(whole, np.vdot(x, grad_input))
        assert np.isclose(whole, np.vdot(weight, grad_weight))


def test_results_are_the_same_bits_from_run_to_run(engine: Any) -> None:
    case = Case((64, 1, 8, 8), (8, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    arrays = data(case, "float32")
    first = [engine.read(t) for t in compute(engine, case, "float32", arrays)]
    for _ in range(5):
        again = [engine.read(t) for t in compute(engine, case, "float32", arrays)]
        assert all(np.array_equal(a, b) for a, b in zip(first, again))


def test_a_replay_computes_what_the_calls_computed(engine: Any) -> None:
    # Padding, panels and parts are temporaries: they must be written again by every replay, whatever came between.
    name = "asymmetric"
    arrays = data(CASES[name], "float32")
    expected = [engine.read(t) for t in compute(engine, CASES[name], "float32", arrays)]
    x, weight, grad = (engine.tensor(array, "float32", persistent=True) for array in arrays)
    options: dict[str, Any] = {key: getattr(CASES[name], key) for key in ("stride", "padding", "dilation", "groups")}
    recording = engine.new_recording()
    engine.recording = recording
    try:
        results = [
            engine.conv("forward", x, weight, **options),
            engine.conv("grad_input", grad, weight, shape=x.shape, **options),
            engine.conv("grad_weight", x, grad, shape=weight.shape, **options),
        ]
    finally:
        engine.recording = None
    for _ in range(2):
        compute(engine, CASES["plain"], "float32", data(CASES["plain"], "float32"))
        recording.replay()
        assert all(np.array_equal(engine.read(t), value) for t, value in zip(results, expected))


@pytest.mark.deep
def test_a_device_that_is_no_cpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    for name in ("plain", "depthwise", "asymmetric", "over tile edges"):
        check(engine, name, "float32")


def is_opencl_cpu(engine: Any) -> bool:
    return engine.name == "cl" and engine.handle.profile.is_cpu


@contextmanager
def launches(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yields the names of the kernels, or of NumPy's functions, that are launched within the block."""
    names: list[str] = []
    launch = engine.launch

    def note(*args: Any, **kwargs: Any) -> None:
        names.append(args[1] if engine.name == "cl" else args[0].__name__)
        launch(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "launch", note)
        yield names


def test_an_algorithm_that_is_asked_for_is_taken(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl import ops

    case = CASES["plain"]
    arrays = data(case, "float32")
    x, weight = (engine.tensor(array, "float32") for array in arrays[:2])
    padded = reference(case, *(array.astype(np.float64) for array in arrays))[0]
    taken = {}
    for algo in ("naive", "im2col", "implicit_gemm", "tiled_local", "winograd"):
        with launches(engine, monkeypatch) as taken[algo]:
            found = ops.conv2d(x, weight, padding=1, algo=algo)
        np.testing.assert_allclose(engine.read(found), padded, rtol=1e-4, atol=1e-4)
    if engine.name == "cl":
        assert taken["naive"][-1] == "direct"
        assert taken["tiled_local"][-1] == "tiled"
        assert "unfold" in taken["im2col"]
        assert "unfold" not in taken["implicit_gemm"]
    else:
        assert taken["naive"] == ["_direct"]
        assert taken["im2col"][0] == "_im2col"
    grouped = CASES["grouped and dilated"]
    arrays = data(grouped, "float32")
    x, weight = (engine.tensor(array, "float32") for array in arrays[:2])
    options = {name: getattr(grouped, name) for name in ("stride", "padding", "dilation", "groups")}
    wanted = reference(grouped, *(array.astype(np.float64) for array in arrays))[0]
    for algo in ("naive", "im2col"):
        found = engine.read(ops.conv2d(x, weight, algo=algo, **options))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_an_epilogue_of_convolutions(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.engine.epilogue import Epilogue, run_alone
    from netcl.core.expr import Load, parse

    expression = parse("fmax(v0 + v1, 0.0f) + v2", [Load(slot, "float32") for slot in range(3)])
    for name in ("asymmetric", "grouped and dilated", "1d", "3d", "over tile edges", "pointwise, strided"):
        case = CASES[name]
        arrays = data(case, "float32")
        x, weight, grad = (engine.tensor(array, "float32") for array in arrays)
        options: dict[str, Any] = {key: getattr(case, key) for key in ("stride", "padding", "dilation", "groups")}
        rng = np.random.default_rng(3)
        for kind, first, second, shape in (
            ("forward", x, weight, grad.shape),
            ("grad_input", grad, weight, x.shape),
            ("grad_weight", x, grad, weight.shape),
        ):
            beside = [rng.standard_normal(s).astype(np.float32) for s in ((shape[1],) + (1,) * (len(shape) - 2), shape)]
            epilogue = Epilogue(expression, tuple(engine.tensor(array, "float32") for array in beside))
            call = options if kind == "forward" else {**options, "shape": shape}
            alone = engine.conv(kind, first, second, **call)
            run_alone(engine, epilogue, alone)
            found = engine.conv(kind, first, second, **call, epilogue=epilogue)
            np.testing.assert_allclose(engine.read(found), engine.read(alone), rtol=1e-4, atol=1e-4)


def test_depthwise_convolutions_have_kernels_of_their_own(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((3, 5, 9, 40), (10, 1, 3, 3), (1, 1), ((1, 1), (2, 0)), (1, 1), 5)
    arrays = data(case, "float32")
    with launches(engine, monkeypatch) as names:
        results = [engine.read(t) for t in compute(engine, case, "float32", arrays)]
    if is_opencl_cpu(engine):
        assert "planes" in names
        assert "taps" in names
        assert "contract" not in names
    values = [array.astype(np.float64) for array in arrays]
    scales = reference(case, *(np.abs(value) for value in values))
    for found, value, scale in zip(results, reference(case, *values), scales):
        assert (np.abs(found - value) / (scale + 1e-30)).max() < TOLERANCE["float32"]


PICTURES = {
    "a block with a tail": Case((3, 3, 9, 7), (9, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "several blocks": Case((18, 1, 45, 40), (5, 1, 5, 3), (1, 1), ((2, 2), (0, 2)), (1, 1), 1),
    "strided": Case((2, 3, 40, 47), (17, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    "strided and dilated": Case((2, 2, 30, 31), (6, 2, 4, 3), (3, 2), ((4, 0), (1, 6)), (2, 3), 1),
    "1d": Case((2, 2, 300), (4, 2, 5), (3,), ((4, 1),), (3,), 1),
}


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(dtype, marks=pytest.mark.deep) for dtype in ("float64", "float16", "bfloat16"))]
)
def test_few_channels_are_read_as_they_lie(engine: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: others have no kernels for few channels")
    for name, case in PICTURES.items():
        arrays = data(case, dtype)
        with launches(engine, monkeypatch) as names:
            results = [engine.read(t) for t in compute(engine, case, dtype, arrays, "channels")]
        assert names == ["channels_forward", "channels_input", "channels_weights", "add_parts"], name
        again = [engine.read(t) for t in compute(engine, case, dtype, arrays, "channels")]
        values = [wide(array, dtype) for array in arrays]
        scales = reference(case, *(np.abs(value) for value in values))
        for found, twice, value, scale in zip(results, again, reference(case, *values), scales):
            assert np.array_equal(found, twice)
            assert (np.abs(wide(found, dtype) - value) / (scale + 1e-30)).max() < TOLERANCE[dtype], (name, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_of_small_images_are_summed_over_several_at_once(
    engine: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planes of one vector, of one and a part, and of less; numbers of images that no batch divides."""
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: others have no kernels for few channels")
    from netcl.core.backend.opencl.contraction import conv

    for images, size in ((75, (4, 4)), (61, (4, 5)), (300, (3, 3)), (9, (8, 16))):
        case = Case((images, 3, *size), (9, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        arrays = data(case, dtype)
        x, weight, grad = (engine.tensor(array, dtype) for array in arrays)
        options: dict[str, Any] = {key: getattr(case, key) for key in ("stride", "padding", "dilation", "groups")}
        with launches(engine, monkeypatch) as names:
            weights = conv.conv(engine, "grad_weight", x, grad, shape=weight.shape, variant="channels", **options)
            found = engine.read(weights)
        assert names == ["channels_weights", "add_parts"]
        values = [wide(array, dtype) for array in arrays]
        value, scale = reference(case, *values)[2], reference(case, *(np.abs(one) for one in values))[2]
        assert (np.abs(wide(found, dtype) - value) / scale).max() < TOLERANCE[dtype], (images, size)


def test_few_channels_have_their_kernels_where_there_is_work(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for case, own in ((Case((16, 3, 32, 32), (16, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1), True),
                      (CASES["plain"], False)):  # fmt: skip
        arrays = data(case, "float32")
        with launches(engine, monkeypatch) as names:
            compute(engine, case, "float32", arrays)
        assert any(name.startswith("channels") for name in names) == (own and is_opencl_cpu(engine))
        assert "pad" not in names or not own or not is_opencl_cpu(engine)


def test_few_channels_finish_their_sums(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl import ops

    rng = np.random.default_rng(4)
    for side in (32, 13):
        shapes = ((16, 3, side, side), (20, 3, 3, 3), (20,))
        x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in shapes)
        given = [engine.tensor(array, "float32") for array in (x, weight, bias)]
        with launches(engine, monkeypatch) as names:
            found = engine.read(ops.conv2d(*given, padding=1))
        if is_opencl_cpu(engine):
            assert names == ["channels_forward"]
        plain = engine.read(ops.conv2d(*given[:2], padding=1))
        assert np.array_equal(found, plain + bias[:, None, None])


MANY = {
    "strided": Case((32, 12, 10, 10), (20, 12, 4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    "rows that are no vectors, grouped": Case((32, 16, 7, 9), (24, 8, 5, 3), (1, 1), ((2, 2), (1, 0)), (1, 2), 2),
    "taps that some positions lack": Case((48, 24, 11, 14), (48, 24, 2, 2), (3, 3), ((0, 0), (0, 0)), (1, 1), 1),
    "1d": Case((48, 24, 45), (40, 24, 7), (2,), ((3, 3),), (1,), 1),
    "3d": Case((32, 8, 5, 6, 7), (12, 8, 3, 3, 3), (1, 2, 1), ((1, 0), (1, 1), (0, 2)), (1, 1, 1), 1),
    "to a point": Case((64, 32, 4, 4), (40, 32, 4, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
}


@pytest.mark.parametrize("workspace", [1 << 24, 40_000])
def test_images_are_the_last_index_where_columns_are_no_runs(
    engine: Any, workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: others read images as they lie")
    from netcl.core.backend.opencl.contraction import conv

    monkeypatch.setattr(conv, "_WORKSPACE", workspace)
    monkeypatch.setattr(engine, "plans", {})
    total = 0
    for name, case in MANY.items():
        arrays = data(case, "float32")
        with launches(engine, monkeypatch) as names:
            results = compute(engine, case, "float32", arrays)
        total += turned(engine, case)
        least = 2 * turned(engine, case)  # copies, there and back
        assert names.count("copy") >= least > 0, name
        assert (names.count("copy") > least) == (workspace < 1 << 24), name
        asked = compute(engine, case, "float32", arrays, "images_last")
        values = [array.astype(np.float64) for array in arrays]
        scales = reference(case, *(np.abs(value) for value in values))
        for result, again, value, scale in zip(results, asked, reference(case, *values), scales):
            found = engine.read(result)
            assert np.array_equal(found, engine.read(again))
            assert (np.abs(found - value) / (scale + 1e-30)).max() < TOLERANCE["float32"], name
    assert total >= 12  # of 18: vectors of eight lanes have more runs than vectors of sixteen


def turned(engine: Any, case: Case) -> int:
    """Returns the number of directions that are computed with the images as the last index."""
    from netcl.core.backend.opencl.templates import traits

    g = geometry("forward", *case, None)
    device = traits(engine)
    return sum(plan_on(device, kind, g, "float32") is not None for kind in ("forward", "grad_input", "grad_weight"))


def test_epilogues_of_convolutions_with_images_last(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl import ops

    case = MANY["strided"]
    arrays = data(case, "float32")
    x, weight = (engine.tensor(array, "float32") for array in arrays[:2])
    bias = engine.tensor(np.random.default_rng(5).standard_normal(20).astype(np.float32), "float32")
    options: dict[str, Any] = {"stride": 2, "padding": 1}
    with launches(engine, monkeypatch) as names:
        found = engine.read(ops.conv2d(x, weight, bias, **options))
    if is_opencl_cpu(engine):
        assert names == ["copy", "pad", "contract", "copy"]
    assert np.array_equal(found, engine.read(ops.conv2d(x, weight, **options)) + engine.read(bias)[:, None, None])


WINOGRAD = {
    "whole tiles": Case((2, 16, 8, 8), (24, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "cut tiles, no padding": Case((3, 5, 13, 9), (7, 5, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "much padding": Case((1, 9, 5, 6), (3, 9, 3, 3), (1, 1), ((2, 2), (2, 1)), (1, 1), 1),
    "one of all": Case((1, 1, 1, 1), (1, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one image each time": Case((5, 20, 17, 19), (33, 20, 3, 3), (1, 1), ((1, 1), (0, 2)), (1, 1), 1),
}


@pytest.mark.parametrize(
    ("variant", "blocks"),
    [
        *product(("winograd2", "winograd4", "winograd2_gpu", "winograd4_gpu"), ("of images", "of weights")),
        *product(("winograd2", "winograd4"), ("in one launch",)),
    ],
)
def test_minimal_filtering_stays_within_its_bounds(
    engine: Any, variant: str, blocks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy's engine has no kernels")
    if not variant.endswith("_gpu") and not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: GPUs have kernels of their own")
    from netcl.core.backend.opencl.contraction.minimal_filtering import winograd, winograd_gpu

    if blocks == "in one launch":
        monkeypatch.setattr(winograd, "_LEAST_BLOCKS", 0)
    monkeypatch.setattr(winograd, "_BLOCK", 1 << 22 if blocks == "in one launch" else 0)
    if blocks == "of images":
        monkeypatch.setattr(winograd, "_TILES", 1 << 18)
        monkeypatch.setattr(winograd, "_WORKSPACE", 1 << 18)
        monkeypatch.setattr(winograd_gpu, "_WORKSPACE", 1 << 18)
    elif blocks == "of weights":
        monkeypatch.setattr(winograd, "_WEIGHTS", 1)
    for name, case in WINOGRAD.items():
        for dtype in ("float32", "bfloat16") if name == "whole tiles" else ("float32",):
            arrays = data(case, dtype)
            with launches(engine, monkeypatch) as names:
                results = [engine.read(t) for t in compute(engine, case, dtype, arrays, variant)]
            assert "data_tiles" in names
            assert names.count("filter_images") == (2 if blocks == "in one launch" else 0)
            assert ("filter_gradients" if blocks == "in one launch" else "weight_sums") in names
            assert "pad" not in names  # zeros outside of images are part of the transform
            assert "direct" not in names or variant.endswith("_gpu")  # of few channels
            again = [engine.read(t) for t in compute(engine, case, dtype, arrays, variant)]
            values = [wide(array, dtype) for array in arrays]
            scales = reference(case, *(np.abs(value) for value in values))
            bound = TOLERANCE[dtype] + winograd.ERROR[int(variant[8])]
            for found, twice, value, scale in zip(results, again, reference(case, *values), scales):
                assert np.array_equal(found, twice)
                assert (np.abs(wide(found, dtype) - value) / (scale + 1e-30)).max() < bound, (name, dtype)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_minimal_filtering_reads_windows_by_vectors_of_any_width(
    engine: Any, lanes: int, dtype: str, most_lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a window is several vectors, one, or a part of one; images of one tile up to several vectors of them."""
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: GPUs have kernels of their own")
    if lanes > most_lanes:
        pytest.skip(f"needs a processor with vectors of {lanes} floats for which the driver compiles right")
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.contraction.minimal_filtering import winograd

    monkeypatch.setitem(vars(engine), "_traits", templates.traits(engine)._replace(vector=lanes))
    sizes = [((18, 2, 4, 4), (1, 1)), ((3, 5, 33, 34), (1, 1)), ((2, 3, 29, 64), (0, 2)), ((2, 3, 1, 21), (2, 1))]
    for size, left in sizes:
        case = Case(size, (7, size[1], 3, 3), (1, 1), ((1, 1), left), (1, 1), 1)
        arrays = data(case, dtype)
        values = [wide(array, dtype) for array in arrays]
        expected, scales = reference(case, *values), reference(case, *(np.abs(value) for value in values))
        for tile in (2, 4):
            bound = TOLERANCE[dtype] + winograd.ERROR[tile]
            found = compute(engine, case, dtype, arrays, f"winograd{tile}")
            for one, value, scale in zip(found, expected, scales):
                assert (np.abs(wide(engine.read(one), dtype) - value) / (scale + 1e-30)).max() < bound, (size, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_minimal_filtering_in_one_launch_has_the_bits_of_several(
    engine: Any, tile: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of fewer and of more than 64 products, rows that end within a tile, unequal shares of blocks."""
    if not is_opencl_cpu(engine):
        pytest.skip("needs an OpenCL CPU device: GPUs have kernels of their own")
    from netcl.core.backend.opencl.contraction import conv
    from netcl.core.backend.opencl.contraction.minimal_filtering import winograd
    from netcl.core.engine.epilogue import Epilogue
    from netcl.core.expr import Load, parse

    expression = parse("fmax(v0 + v1, 0.0f)", [Load(0, dtype), Load(1, dtype)])
    for size, rows in (((3, 5, 33, 34), 19), ((9, 130, 8, 8), 7), ((1, 65, 17, 20), 33), ((2, 1, 1, 1), 1)):
        case = Case(size, (rows, size[1], 3, 3), (1, 1), ((1, 1), (2, 1)), (1, 1), 1)
        x, weight, grad = (engine.tensor(array, dtype) for array in data(case, dtype))
        bias = engine.tensor(stored(np.linspace(-1, 1, rows)[:, None, None], dtype), dtype)
        options: dict[str, Any] = {key: getattr(case, key) for key in ("stride", "padding", "dilation", "groups")}
        options["variant"] = f"winograd{tile}"
        found = {}
        monkeypatch.setattr(winograd, "_LEAST_BLOCKS", 0)
        for most in (1 << 22, 0):
            monkeypatch.setattr(winograd, "_BLOCK", most)
            with launches(engine, monkeypatch) as names:
                found[most] = [
                    conv.conv(engine, "forward", x, weight, **options, epilogue=Epilogue(expression, (bias,))),
                    conv.conv(engine, "grad_input", grad, weight, shape=case.x, **options),
                    conv.conv(engine, "grad_weight", x, grad, shape=case.weight, **options),
                ]
            assert ("filter_images" in names) == ("filter_gradients" in names) == (most > 0)
            assert ("contract" in names) == ("weight_sums" in names) == (most == 0)
        for one, several in zip(*found.values()):
            assert engine.read(one).tobytes() == engine.read(several).tobytes(), size


def test_minimal_filtering_is_chosen_where_it_pays_and_is_allowed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core import config

    case = Case((8, 64, 16, 16), (64, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    arrays = data(case, "float32")
    found = {}
    for allowed in (True, False):
        with config.override(CONV_WINOGRAD=allowed), launches(engine, monkeypatch) as names:
            found[allowed] = [engine.read(t) for t in compute(engine, case, "float32", arrays)]
        assert ("data_tiles" in names) == (allowed and is_opencl_cpu(engine))
        assert ("filter_images" in names) == (allowed and is_opencl_cpu(engine))
    scales = reference(case, *(np.abs(array).astype(np.float64) for array in arrays))
    for ours, exact, scale in zip(found[True], found[False], scales):
        assert (np.abs(ours - exact) / scale).max() < 1e-5


def test_minimal_filtering_finishes_its_sums(engine: Any) -> None:
    from netcl import ops

    rng = np.random.default_rng(4)
    x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in ((8, 32, 14, 14), (32, 32, 3, 3), (32,)))
    given = [engine.tensor(array, "float32") for array in (x, weight, bias)]
    found = engine.read(ops.conv2d(*given, padding=1))
    plain = engine.read(ops.conv2d(*given[:2], padding=1, algo="implicit_gemm"))
    np.testing.assert_allclose(found, plain + bias[:, None, None], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_images_are_padded_and_sampled_by_elements_on_many_cores(engine: Any, dtype: str, monkeypatch: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.contraction.pads.padding import padded_images, resampled

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    values = np.arange(1, 2 * 3 * 4 * 5 * 7 + 1).reshape(2, 3, 4, 5, 7).astype(np.float32) % 64
    x = engine.tensor(values, dtype)
    for low, padded in (((1, 0, 2), (6, 5, 12)), ((0, -1, -2), (4, 3, 4)), ((0, 2, 1), (3, 9, 9))):
        wide = np.pad(values, ((0, 0), (0, 0), *((16, 16),) * 3))
        begin = [16 - n for n in low]
        wanted = wide[(slice(1, 2), slice(None), *(slice(b, b + n) for b, n in zip(begin, padded)))]
        found = padded_images(engine, x, 3, (4, 5, 7), low, padded, 1, 1)
        np.testing.assert_array_equal(engine.read(found), engine.read(engine.tensor(wanted, dtype)))
    sampled = resampled(engine, "sample", x, (4, 5, 7), (2, 2, 3), (2, 3, 3))
    kept = values[:, :, ::2, ::3, ::3]
    np.testing.assert_array_equal(engine.read(sampled), engine.read(engine.tensor(kept, dtype)))
    wanted = np.zeros((2, 3, 5, 7, 9), np.float32)
    wanted[:, :, 0:3:2, 0:6:3, 0:9:3] = kept
    spread = resampled(engine, "spread", sampled, (2, 2, 3), (5, 7, 9), (2, 3, 3))
    np.testing.assert_array_equal(engine.read(spread), engine.read(engine.tensor(wanted, dtype)))
