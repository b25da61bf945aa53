"""Products on matrix units: the software twins run on every OpenCL device, the units where a device has them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.device.capabilities import DeviceProfile, profile_of
from netcl.core.device.health import launch_log
from netcl.core.engine.epilogue import Epilogue, run_alone
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load, parse
from netcl.core.kernel_selector import get_kernel_selector
from netcl.core.testing import masked
from netcl.core.tuning import candidates, matmul_precision, matrix_units
from netcl.core.tuning.matrix_units import convolves
from netcl.core.tuning.problems import Contraction, Geometry, segmented
from netcl.core.tuning.traits import Traits
from netcl.core.tuning.unit_table import UNITS

TWINS = ["wgmma_twin", pytest.param("mma_twin", marks=pytest.mark.deep)]
PARTED = ["wgmma_twin_3", *(
    pytest.param(name, marks=pytest.mark.deep)
    for name in ("wgmma_twin_2", "wgmma_twin_1", "mma_twin_3", "mma_twin_2", "mma_twin_1")
)]  # fmt: skip
GPU = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024, units=132)
# m, n, k: just under and over tiles, primes with rows at odd addresses, few rows.
SIZES = [(65, 72, 72), (61, 67, 71), (9, 130, 40)]
LAYOUTS = list(product((False, True), repeat=2))


@pytest.fixture(params=["bfloat16", pytest.param("float16", marks=pytest.mark.deep)])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[*TWINS, "the unit of the device"])
def unit(request: pytest.FixtureRequest, engine: Any, dtype: str) -> str:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    if request.param.endswith("_twin"):
        return str(request.param)
    found = matrix_units.unit_of(profile_of(engine.queue), dtype, "highest", contiguous(64, 64, 64))
    if found is None:
        pytest.skip("needs a GPU with a matrix unit")
    return found


def integers(shape: tuple[int, ...], seed: int) -> Any:
    """Returns small integers: their products and sums are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def multiply(engine: Any, unit: str, dtype: str, a: Any, b: Any, **options: Any) -> Any:
    from netcl.core.backend.opencl.contraction import gemm

    operands = [engine.tensor(x, dtype) for x in (a, b)]
    return engine.read(gemm.matmul(engine, *operands, variant=unit, **options))


@pytest.mark.parametrize("flags", LAYOUTS)
def test_products_have_the_right_bits(engine: Any, unit: str, dtype: str, flags: tuple[bool, bool]) -> None:
    for m, n, k in SIZES:
        a, b = integers((k, m) if flags[0] else (m, k), 1), integers((n, k) if flags[1] else (k, n), 2)
        exact = (a.T if flags[0] else a).astype(np.float64) @ (b.T if flags[1] else b)
        found = multiply(engine, unit, dtype, a, b, transpose_a=flags[0], transpose_b=flags[1])
        assert np.array_equal(found, engine.read(engine.tensor(exact, dtype))), (m, n, k)


def test_stacks_of_matrices(engine: Any, unit: str, dtype: str) -> None:
    a, b = integers((2, 3, 40, 24), 1), integers((3, 24, 56), 2)
    found = multiply(engine, unit, dtype, a, b)
    assert np.array_equal(found, engine.read(engine.tensor(np.matmul(a, b), dtype)))


def test_long_sums_are_split(engine: Any, unit: str, dtype: str) -> None:
    """There are few tiles with a long sum, and its last part is empty."""
    from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units as kernels
    from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials

    m, n, k = 33, 40, 65
    a, b = integers((m, k), 1), integers((k, n), 2)
    x, y, out = engine.tensor(a, dtype), engine.tensor(b, dtype), engine.tensor(np.full((m, n), np.nan), dtype)
    tile = UNITS[unit].tiles[-1][0]._replace(splits=3)
    parts = engine.tensor(np.full((3, m * n), np.nan), "float32")
    kernels.contract(engine, contiguous(m, n, k), tile, x, y, parts, m * n)
    reduce_partials(engine, parts, out, 3)
    assert np.array_equal(engine.read(out), engine.read(engine.tensor(a @ b, dtype)))


@pytest.mark.parametrize("shapes", [((70,), (41, 70)), ((41, 1), (1, 70))])
def test_an_epilogue_is_fused(engine: Any, unit: str, dtype: str, shapes: Any) -> None:
    from netcl.core.backend.opencl.contraction import gemm

    a, b, *others = (
        engine.tensor(np.random.default_rng(seed).standard_normal(shape), dtype)
        for seed, shape in enumerate(((41, 96), (96, 70), *shapes))
    )
    epilogue = Epilogue(parse("fmax(v0 + v1, 0.0f) * v2", [Load(i, dtype) for i in range(3)]), tuple(others))
    separate = gemm.matmul(engine, a, b, variant=unit)
    run_alone(engine, epilogue, separate)
    log = launch_log(engine.queue)
    log.clear()
    fused = gemm.matmul(engine, a, b, variant=unit, epilogue=epilogue)
    assert [*log] == ["matrix_unit"]
    tolerance = {"bfloat16": 3e-2, "float16": 4e-3}[dtype]  # the separate pass rounds before and after
    np.testing.assert_allclose(fused.numpy(), separate.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("k", [67, 2000])  # the second is split, the bits of its first kernel are sums
@pytest.mark.parametrize("added", [False, True])
def test_results_in_float32_are_rounded_first(engine: Any, unit: str, dtype: str, k: int, added: bool) -> None:
    from netcl.core.backend.opencl.contraction import gemm

    rng = np.random.default_rng(3)
    a, b, c = (engine.tensor(rng.standard_normal(shape), dtype) for shape in ((33, k), (k, 40), (33, 40)))
    options: dict[str, Any] = {"variant": unit}
    if added:
        options["epilogue"] = Epilogue(Load(0, dtype) + Load(1, dtype), (c,))
    want = Tensor.float(gemm.matmul(engine, a, b, **options))
    result = gemm.matmul(engine, a, b, half=dtype, wide=True, **options)
    assert result.dtype == "float32"
    np.testing.assert_array_equal(engine.read(result), want.numpy())


def test_rows_and_columns_outside_do_not_spread_nans(engine: Any, unit: str, dtype: str) -> None:
    a, b = integers((70, 72), 1), integers((72, 66), 2)
    a[69], b[:, 65] = np.nan, np.inf
    found = multiply(engine, unit, dtype, a, b)
    assert np.array_equal(found[:69, :65], engine.read(engine.tensor(a[:69] @ b[:, :65], dtype)))


def test_without_a_fitting_layout_it_is_another_kernel(engine: Any, unit: str) -> None:
    if not unit.endswith("_twin"):
        pytest.skip("asks for a twin by name, once is enough")
    x = engine.tensor(np.ones((16, 8)), "bfloat16")
    from netcl.core.backend.opencl.contraction import gemm

    log = launch_log(engine.queue)
    log.clear()
    gemm.matmul(engine, x, engine.tensor(np.ones((8, 3)), "bfloat16"), variant=unit)
    assert "matrix_unit" not in log


@pytest.fixture(params=PARTED)
def parted(request: pytest.FixtureRequest, engine: Any) -> str:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    return str(request.param)


def test_float32_in_parts(engine: Any, parted: str) -> None:
    """Operands in three parts are as exact as sums of float32 products, in two about 2^-16, in one 2^-8."""
    m, n, k = 70, 66, 200
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    exact, scale = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    error = np.abs(multiply(engine, parted, "float32", a, b) - exact) / scale
    most, least = {"3": (2e-7, 0), "2": (1e-5, 1e-7), "1": (2e-3, 1e-5)}[parted[-1]]
    assert least <= error.max() < most


def test_a_recording_splits_an_operand_once_until_it_is_written(engine: Any, parted: str) -> None:
    """The replays of three products split x, w, v and the written x."""
    from netcl.core.backend.opencl.contraction import gemm

    x, w, v = (engine.tensor(integers(shape, 1), "float32") for shape in ((70, 64), (64, 66), (64, 72)))
    gemm.matmul(engine, x, w, variant=parted)  # what is split at once is of no use to replays
    engine.recording = recording = engine.new_recording()
    try:
        found = [gemm.matmul(engine, x, one, variant=parted) for one in (w, v)]
        x.add_(1.0)
        found.append(gemm.matmul(engine, x, w, variant=parted))
    finally:
        engine.recording = None
    assert [record.name for record in recording._records].count("split_parts") == 4
    for _ in range(2):
        before = x.numpy()
        recording.replay()
        wanted = [before @ w.numpy(), before @ v.numpy(), (before + 1) @ w.numpy()]
        for got, value in zip(found, wanted):
            assert np.array_equal(got.numpy(), value)


def test_float32_in_parts_keeps_inf_and_nan(engine: Any, parted: str) -> None:
    a, b = integers((70, 72), 1), integers((72, 66), 2)
    a[3, 5], a[7, 2], b[9, 11] = np.inf, np.nan, -np.inf
    a[20], b[:, 20], a[20, 0], b[0, 20] = 0, 0, np.finfo(np.float32).max, 0.5  # rounds to Inf in bfloat16
    with np.errstate(invalid="ignore", over="ignore"):
        exact = a @ b
    found = multiply(engine, parted, "float32", a, b)
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    assert np.array_equal(np.isinf(found), np.isinf(exact))
    assert np.array_equal(np.sign(found[np.isinf(exact)]), np.sign(exact[np.isinf(exact)]))
    np.testing.assert_allclose(found[20, 20], exact[20, 20], rtol={"3": 1e-6, "2": 1e-4, "1": 1e-2}[parted[-1]])


def test_three_parts_have_all_bits(engine: Any, parted: str) -> None:
    """The identity times a matrix gives the bits of each number that is not too small for bfloat16's last part."""
    if not parted.endswith("3"):
        pytest.skip("two parts and one do not have all bits")
    bits = np.random.default_rng(3).integers(0, 2**32, 64 * 64, dtype=np.uint32).view(np.float32)
    usable = np.isfinite(bits) & (np.abs(bits) > 2.0**-109)
    x = np.where(usable, bits, 1).astype(np.float32).reshape(64, 64)
    assert np.array_equal(multiply(engine, parted, "float32", np.eye(64, dtype=np.float32), x), x)


def along(m: int, n: int, k: int) -> Contraction:
    """Returns a product with both operands contiguous along k."""
    return replace(contiguous(m, n, k), b_k=(0, 0, 0, 1), b_n=(0, 0, 0, k))


def contiguous(m: int, n: int, k: int) -> Contraction:
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=k, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, n), b_n=(0, 0, 0, 1), out_row=n,
        out_n=(0, 0, 0, 1),
    )  # fmt: skip


class FakeDevice:
    """The attributes of a device of NVIDIA's driver that tell its possible units."""

    def __init__(self, major: int, minor: int) -> None:
        self.compute_capability_major_nv, self.compute_capability_minor_nv = major, minor


def profile(major: int, minor: int, **changes: Any) -> DeviceProfile:
    known = profile_of(None)
    fields = {"extensions": frozenset({"cl_nv_device_attribute_query"}), "_device": FakeDevice(major, minor)}
    return replace(known, **{**fields, **changes})


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((7, 5), ()), ((8, 0), ("mma",)), ((8, 9), ("mma",)), ((9, 0), ("wgmma", "mma")), ((12, 0), ("mma",))],
)
def test_units_that_a_device_may_have(capability: tuple[int, int], expected: tuple[str, ...]) -> None:
    assert matrix_units.candidates(profile(*capability)) == expected
    assert matrix_units.candidates(profile(*capability, extensions=frozenset())) == ()


def test_a_unit_that_lies_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    device, tried = profile(9, 0), []

    def lying(seen: Any, name: str) -> bool:
        assert seen is device._device
        tried.append(name)
        return name != "wgmma"

    monkeypatch.setattr(matrix_units, "is_right", lying)
    c = contiguous(64, 64, 64)
    assert candidates.product_unit(device, c, "int32") is None
    assert candidates.product_unit(device, c, "float64") is None
    assert candidates.product_unit(device, c, "float32") is None  # too small to pay: nothing is tried
    assert tried == []
    assert candidates.product_unit(device, c, "bfloat16") == "mma"
    assert tried == ["wgmma", "mma"]
    with config.override(KERNEL_STRATEGY="portable"):
        assert candidates.product_unit(device, c, "bfloat16") is None
    monkeypatch.setattr(matrix_units, "is_right", lambda *_: False)
    assert candidates.product_unit(device, c, "bfloat16") is None


def test_the_trial_runs_in_a_child_and_finds_a_planted_lie(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    from netcl.core.backend.opencl.contraction import unit_trial
    from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units as kernels

    device = engine.queue.device
    assert matrix_units.is_right(device, "wgmma_twin")
    assert all(unit_trial._multiplies(engine, *case) for case in unit_trial._cases("wgmma_twin"))
    text = kernels.program

    def lying(*arguments: Any) -> str:
        return str(text(*arguments)).replace("SUM sum = sums[i][j][e];", "SUM sum = sums[i][j][e] + (row == 7);")

    monkeypatch.setattr(kernels, "program", lying)
    monkeypatch.setattr(kernels, "_launch", kernels._launch.__wrapped__)  # without the launches that are known
    assert not any(unit_trial._multiplies(engine, *case) for case in unit_trial._cases("wgmma_twin"))


def test_the_selector_names_the_unit() -> None:
    c = contiguous(128, 64, 64)
    assert candidates.product_kernel(GPU, c, None, "wgmma") == "wgmma"
    assert candidates.product_kernel(GPU, c) == "wide"
    assert candidates.candidates(GPU, c, "matmul", "wgmma")[0] == "wgmma"
    for sizes in ((7, 64, 64), (64, 64, 8)):
        assert not matrix_units.suits("wgmma", contiguous(*sizes))
    assert candidates.product_kernel(GPU, contiguous(64, 64, 64), "tiled", "wgmma") == "tiled"  # measured


def test_float32_uses_a_unit_for_large_products_with_long_sums() -> None:
    cases = {
        (4096, 4096, 256): True, (4096, 4096, 255): False, (63, 99999, 1024): False, (2048, 2048, 2048): True,
        (12608, 192, 768): False, (192, 192, 12608): False,  # splitting the operands takes longer than it saves
    }  # fmt: skip
    for sizes, expected in cases.items():
        c = contiguous(*sizes)
        assert (matrix_units.suits("wgmma_3", c) and matrix_units.pays("wgmma_3", GPU, c)) == expected, sizes
    c = contiguous(8, 8, 16)
    assert matrix_units.suits("wgmma", c)
    assert matrix_units.pays("wgmma", GPU, c)
    assert matrix_units.candidates(profile(9, 0), "float32") == ("wgmma_3", "mma_3")


def test_the_precision_of_float32_decides_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_units, "is_right", lambda *_: True)
    device, asked = profile(9, 0), matmul_precision.get_float32_matmul_precision
    for precision, unit in (("highest", "wgmma_3"), ("high", "wgmma_2"), ("medium", "wgmma_1")):
        with config.override(FLOAT32_MATMUL=precision):
            assert asked() == precision
            assert candidates.product_unit(device, contiguous(1024, 1024, 1024), "float32") == unit
    with config.override(FLOAT32_MATMUL="high"):  # operands that are both contiguous along k
        assert candidates.product_unit(device, along(1024, 1024, 1024), "float32") == "mma_tf32"
        assert candidates.product_unit(device, along(2048, 2048, 2048), "float32") == "wgmma_tf32"  # which rounds them
    monkeypatch.setattr(matmul_precision, "_precision", None)
    matmul_precision.set_float32_matmul_precision("high")
    with config.override(FLOAT32_MATMUL="medium"):
        assert asked() == "high"  # set in the program
    with pytest.raises(ValueError, match="highest, high, medium, got 'low'"):
        matmul_precision.set_float32_matmul_precision("low")


def test_tiles_fill_the_compute_units() -> None:
    def shape(m: int, n: int, k: int) -> tuple[int, int, int]:
        tile = matrix_units.tile_of("wgmma", GPU, contiguous(m, n, k))
        return tile.m, tile.n, tile.splits

    assert shape(4096, 4096, 4096) == (128, 256, 1)
    assert shape(1024, 1024, 1024) == (64, 128, 1)
    m, n, splits = shape(128, 128, 65536)
    assert (m, n) in ((64, 128), (64, 64))
    assert splits >= 32


@pytest.mark.parametrize("unit", ["mma_twin", "wgmma_twin"])
@pytest.mark.parametrize(
    ("n", "channels", "filters", "size", "kernel", "padding", "stride"),
    [
        (2, 64, 24, (5, 6), (3, 3), ((1, 1), (1, 1)), 1),
        (1, 64, 72, (4, 7), (3, 2), ((0, 2), (1, 0)), 1),
        (3, 128, 64, (3, 3), (1, 1), ((0, 0), (0, 0)), 1),
        (1, 64, 64, (9, 5), (5, 1), ((2, 1), (0, 0)), 1),
        (2, 64, 64, (8, 6), (3, 3), ((1, 1), (1, 1)), 2),
        (2, 64, 64, (7, 9), (3, 3), ((1, 0), (0, 1)), 2),  # odd sizes: the last pixels are not read
        (3, 64, 128, (6, 4), (1, 1), ((0, 0), (0, 0)), 2),
        (3, 96, 32, (4, 8), (3, 2), ((1, 1), (1, 0)), 1),  # planes with 8 pixels loaded at once, 4, and 1
        (5, 16, 80, (2, 6), (2, 4), ((1, 0), (2, 1)), 1),
        (2, 64, 64, (9, 9), (3, 3), ((1, 1), (1, 1)), 2),
        (3, 128, 64, (16, 8), (3, 3), ((1, 1), (1, 1)), 2),
        (2, 64, 64, (10, 11), (2, 3), ((0, 1), (1, 1)), 3),
        (2, 3, 24, (13, 12), (7, 7), ((3, 3), (3, 3)), 2),  # channels and taps that are filled up with zeros
        (1, 3, 16, (11, 14), (3, 2), ((1, 1), (0, 1)), 4),
        (2, 1, 8, (6, 5), (5, 5), ((2, 2), (2, 2)), 1),
        (3, 5, 12, (8, 9), (3, 3), ((1, 1), (1, 1)), 1),
        (2, 37, 19, (7, 7), (3, 3), ((1, 1), (1, 1)), 2),
        (2, 17, 70, (6, 6), (1, 3), ((0, 0), (1, 1)), 1),
        (3, 40, 24, (4, 6), (1, 1), ((0, 0), (0, 0)), 1),  # a product for each image
        (2, 136, 72, (9, 8), (1, 1), ((0, 0), (0, 0)), 1),
        (5, 8, 8, (2, 4), (1, 1), ((0, 0), (0, 0)), 1),
    ],
)
def test_convolutions(engine, unit, n, channels, filters, size, kernel, padding, stride):
    """Sums of small integers are exact, in all directions, against the kernels of the device."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl.contraction import conv

    rng = np.random.default_rng(0)
    dtype = "bfloat16"
    out = tuple((e + sum(pad) - k) // stride + 1 for e, pad, k in zip(size, padding, kernel))
    x, weight, grad = (
        rng.integers(-2, 3, shape).astype(np.float32)
        for shape in ((n, channels, *size), (filters, channels, *kernel), (n, filters, *out))
    )
    options = {"stride": (stride, stride), "padding": padding, "dilation": (1, 1), "groups": 1}
    for kind, a, b, shape in (
        ("forward", x, weight, None),
        ("grad_input", grad, weight, x.shape),
        ("grad_weight", x, grad, weight.shape),
    ):
        given = [engine.tensor(array, "float32") for array in (a, b)]
        wanted = engine.read(engine.conv(kind, *given, shape=shape, **options))
        assert abs(wanted).max() < 256  # exact in bfloat16
        own = [engine.tensor(array, dtype) for array in (a, b)]
        found = conv.conv(engine, kind, *own, shape=shape, variant=unit, **options)
        np.testing.assert_array_equal(Tensor.float(found).numpy(), wanted, err_msg=f"{kind} on {unit}")


@pytest.mark.parametrize("unit", ["mma_twin", "wgmma_twin"])
def test_zeros_that_fill_up_filters_meet_no_other_pixel(engine: Any, unit: str) -> None:
    """Inf and NaN of a pixel are in the results whose filters have it, and in no other."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    from netcl.core.backend.opencl.contraction import conv

    options = {"stride": (2, 2), "padding": ((3, 3), (3, 3)), "dilation": (1, 1), "groups": 1}
    x, weight = np.ones((1, 3, 16, 16), np.float32), np.ones((8, 3, 7, 7), np.float32)
    x[0, 1, 7, 8], x[0, 2, 0, 15] = np.inf, np.nan
    own = [engine.tensor(array, "bfloat16") for array in (x, weight)]
    found = Tensor.float(conv.conv(engine, "forward", *own, variant=unit, **options)).numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (7, 7), axis=(2, 3))[:, :, ::2, ::2]
    assert np.array_equal(found[0, 0], windows.sum((1, 4, 5))[0], equal_nan=True)


def test_convolutions_that_pay():
    def of(n, channels, filters, size, kernel=3, stride=1, low=1, **changes):
        out = (size + 2 * low - kernel) // stride + 1
        return Geometry(
            **{"batch": n, "channels": channels, "filters": filters, "groups": 1, "size": (1, size, size),
               "kernel": (1, kernel, kernel), "out": (1, out, out), "stride": (1, stride, stride),
               "dilation": (1, 1, 1), "padding": ((0, 0), (low, low), (low, low)), **changes}
        )  # fmt: skip

    for kind in ("forward", "grad_input", "grad_weight"):
        assert convolves(kind, of(32, 64, 64, 56)), kind
        assert convolves(kind, of(32, 64, 64, 56, stride=2)), kind
        assert convolves(kind, of(32, 64, 64, 56, stride=3)) == (kind != "grad_input"), kind
        assert not convolves(kind, of(32, 64, 64, 56, groups=64)), kind
        assert not convolves(kind, of(1, 64, 64, 8)), kind  # too few products
        assert not convolves(kind, of(0, 64, 64, 8)), kind
        assert not convolves(kind, of(4096, 512, 512, 128)), kind  # positions of more than 32 bits
    assert convolves("forward", of(256, 3, 64, 32))
    assert not convolves("grad_input", of(256, 3, 64, 32))
    assert not convolves("grad_input", of(32, 64, 64, 56, kernel=1, low=1))


def test_segments_of_the_summed_index():
    c = Contraction(
        m=8, k=(1, 1, 3, 64), n=(1, 1, 1, 100), a_row=192, a_k=(0, 0, 64, 1), b_k=(0, 0, 640, 1), b_n=(0, 0, 0, 32),
        out_row=100, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    rows = segmented(c)
    assert rows is not None
    assert (rows.segment, rows.a_jump, rows.b_jump, rows.dense.b_k) == (64, 0, 576, (192, 192, 64, 1))
    assert segmented(replace(c, b_k=(0, 0, 64, 1))) == (replace(c, b_k=(0, 0, 64, 1)), 192, 0, 0)
    both = segmented(replace(c, a_k=(0, 0, 100, 1), a_row=300))
    assert both is not None
    assert (both.segment, both.a_jump, both.b_jump) == (64, 36, 576)
    assert segmented(replace(c, b_k=(0, 0, 32, 1))) is None  # backwards
    assert segmented(replace(c, k=(1, 2, 3, 64), a_k=(0, 192, 64, 1), b_k=(0, 9999, 640, 1))) is None  # two gaps


def test_the_launched_kernel_of_a_convolution_on_a_unit_is_the_one_that_is_reported(engine, monkeypatch):
    """On a device that is seen as a GPU with a twin as its unit, in a forward convolution of 16 bits."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    rng = np.random.default_rng(0)
    monkeypatch.setattr(matrix_units, "convolution_unit_of", lambda profile, dtype, kind, g: "mma_twin")
    with masked(engine.handle, is_cpu=False) as gpu:
        chooser = get_kernel_selector(gpu)
        seen = engine_for(gpu)
        x, w = (
            seen.tensor(rng.integers(-2, 3, shape).astype(np.float32), "bfloat16")
            for shape in ((1, 64, 4, 5), (16, 64, 3, 3))
        )
        log = launch_log(gpu.queue)
        log.clear()
        seen.conv("forward", x, w, stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
        chosen = chooser.select_conv2d_kernel(1, 64, 16, 4, 5, 3, 3, 1, 1, dtype="bfloat16")
        assert chosen.extra["kernel"] == "mma_twin"
        assert "matrix_unit" in str(list(log))
