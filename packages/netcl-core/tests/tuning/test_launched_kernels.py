"""The selector names the kernel that is launched: compared with the launch log, for products and convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.engine.registry import engine_for
from netcl.core.kernel_selector import KernelConfig, KernelSelector, KernelVariant, get_kernel_selector
from netcl.core.ops_table import dispatch
from netcl.core.testing import masked
from netcl.core.tuning import candidates, measurements, winograd
from netcl.core.tuning.candidates import Convolution, entry_points
from netcl.core.tuning.conv_plans import conv_plan, dense, geometry
from netcl.core.tuning.problems import Contraction, Geometry, dense_steps
from netcl.core.tuning.tiles import cpu_tile, implicit_gemm_tile, wide_tile
from netcl.core.tuning.traits import Traits

PRODUCTS = [
    (1, 1, 1), (1, 300, 40), (40, 300, 1), (3, 100, 70), (70, 100, 3), (3, 9, 70), (7, 64, 9), (7, 63, 9), (16, 16, 12),
    (33, 65, 17), (64, 512, 64), (80, 40, 96), (200, 100, 130), (1, 7, 1), (2, 1, 300),
]  # fmt: skip
# Images, weight, stride and padding of both axes.
CONVOLUTIONS = [
    ((2, 3, 8, 8), (4, 3, 3, 3), 1, 1), ((4, 3, 32, 32), (16, 3, 5, 5), 1, 2), ((2, 32, 14, 14), (64, 32, 3, 3), 1, 1),
    ((2, 16, 9, 9), (24, 16, 1, 1), 1, 0), ((2, 16, 9, 9), (24, 16, 1, 1), 2, 0),
    ((4, 64, 28, 28), (64, 64, 3, 3), 1, 1),
    ((1, 64, 8, 8), (5, 64, 1, 1), 1, 0), ((2, 20, 21, 19), (8, 20, 5, 5), 1, 0),
    ((3, 12, 11, 9), (10, 12, 3, 3), 2, 1), ((16, 12, 10, 10), (20, 12, 4, 4), 2, 1),
]  # fmt: skip
MASKS = {
    "large GPU": {"is_cpu": False, "max_work_group_size": 256, "local_mem_size": 48 * 1024},
    "GPU with little local memory": {"is_cpu": False, "max_work_group_size": 256, "local_mem_size": 32 * 1024},
    "small GPU": {"is_cpu": False, "max_work_group_size": 64, "local_mem_size": 16 * 1024},
    "GPU of tiny groups": {"is_cpu": False, "max_work_group_size": 32, "local_mem_size": 16 * 1024},
}
# Copies that come before or after a kernel of a convolution or a product, and parts of minimal filtering.
AROUND = {
    "copy",
    "pad",
    "pack_rows",
    "add_parts",
    "sample",
    "spread",
    "data_tiles",
    "gradient_tiles",
    "weight_tiles",
    "contract",
}


@pytest.fixture(autouse=True)
def nothing_measured(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(measurements, "_tables", {})
    monkeypatch.setattr(measurements, "_shipped", {})
    monkeypatch.setattr(measurements, "_folder", lambda: tmp_path)
    measurements.forget_choices()
    with config.override(AUTOTUNE="off", DETERMINISTIC=False):
        yield
    measurements.forget_choices()


@contextmanager
def launches(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yields the names of the kernels, or of NumPy's functions, that are launched within the block."""
    engine: Any = engine_for(handle)
    names: list[str] = []
    launch = engine.launch

    def note(*args: Any, **kwargs: Any) -> None:
        names.append(args[1] if engine.name == "cl" else f"numpy {args[0].__name__}")
        launch(*args, **kwargs)

    with monkeypatch.context() as patched:
        dispatch.records.clear()  # warm calls do not pass by launch
        patched.setattr(engine, "launch", note)
        if engine.name == "cl":
            patched.setattr(engine, "plans", {})  # by which calls repeat launches
        yield names


def zeros(handle: DeviceHandle, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    return Tensor.zeros(shape, dtype, queue=handle.queue)


def assert_named(names: list[str], kernels: tuple[str, ...] | list[str], what: Any) -> None:
    """Asserts that each of ``kernels`` is in the launch log, and nothing else that computes."""
    if list(kernels) == ["numpy"]:
        assert names, what
        assert all(name.startswith("numpy ") for name in names), (what, names)
        return
    computing = {entry for kernel in kernels for entry in entry_points(kernel)}
    assert all(set(entry_points(kernel)) & set(names) for kernel in kernels), (what, kernels, names)
    if any(kernel.startswith("winograd") for kernel in kernels):
        # Of the tiles, by any kernel of the device.
        computing |= {"contract", "windows", "wide", "tiled", "direct", "slices", "add_parts"}
    assert set(names) - AROUND <= computing, (what, kernels, names)


def check_products(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch, shapes: Any, dtypes: Any) -> set[str]:
    chooser, seen = get_kernel_selector(handle), set()
    for dtype in dtypes:
        for m, k, n in shapes:
            a, b = zeros(handle, (m, k), dtype), zeros(handle, (k, n), dtype)
            with launches(handle, monkeypatch) as names:
                ops.matmul(a, b).to_host()
            chosen = chooser.select_matmul_kernel(m, n, k, dtype)
            assert_named(names, [chosen.extra["kernel"]], (m, k, n, dtype))
            seen.add(chosen.extra["kernel"])
    return seen


def check_convolutions(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch, cases: Any) -> set[str]:
    """Returns the forward direction by the selector's method for sizes, all three by the policy for a geometry."""
    chooser, seen = get_kernel_selector(handle), set()
    for x, weight, stride, padding in cases:
        images, filters = zeros(handle, x), zeros(handle, weight)
        with launches(handle, monkeypatch) as names:
            out = ops.conv2d(images, filters, stride=stride, padding=padding)
            out.to_host()
        kernel = chooser.select_conv2d_kernel(*x[:2], weight[0], *x[2:], *weight[2:], stride, padding).extra["kernel"]
        assert_named(names, [kernel], (x, weight))
        seen.add(kernel)
        pads, strides = ((padding, padding),) * 2, (stride, stride)
        g = geometry("forward", x, weight, strides, pads, (1, 1), 1, None)
        options = {"stride": stride, "padding": padding}
        for kind, compute, operands in (
            ("forward", ops.conv2d, (images, filters)),
            ("grad_input", ops.conv2d_grad_input, (out, filters, x)),
            ("grad_weight", ops.conv2d_grad_weight, (images, out, weight)),
        ):
            with launches(handle, monkeypatch) as names:
                compute(*operands, **options).to_host()
            if kernel == "numpy":
                assert_named(names, ["numpy"], (kind, x, weight))
            else:
                found = candidates.launched(chooser.traits, Convolution(kind, g, "float32"))
                assert_named(names, found, (kind, x, weight))
    return seen


def test_the_kernel_of_products_is_launched(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = check_products(handle, monkeypatch, PRODUCTS, ("float32", "bfloat16"))
    if handle.backend == "cpu":
        assert seen == {"numpy"}
    elif engine_for(handle).handle.device_type == "cpu":
        assert seen == {"rows", "dot", "stream"}


def test_the_kernel_of_convolutions_is_launched(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = check_convolutions(handle, monkeypatch, CONVOLUTIONS)
    if handle.backend == "cpu":
        assert seen == {"numpy"}
    elif handle.device_type == "cpu":
        assert {"rows", "channels"} < seen
        assert any(kernel.startswith("winograd") for kernel in seen)


@pytest.mark.parametrize("mask", MASKS)
def test_the_kernels_of_gpus_are_launched(handle: DeviceHandle, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy cannot be seen as a GPU")
    with masked(handle, **MASKS[mask]) as seen:
        kernels = check_products(seen, monkeypatch, PRODUCTS[::2] if mask != "large GPU" else PRODUCTS, ("float32",))
        kernels |= check_convolutions(seen, monkeypatch, CONVOLUTIONS[:: 1 if mask == "large GPU" else 3])
    expected = {
        "large GPU": {"slices", "windows", "wide", "tiled", "direct"},
        "GPU with little local memory": {"slices", "tiled", "direct"},
        "small GPU": {"slices", "tiled", "direct"},
        "GPU of tiny groups": {"direct"},
    }
    assert kernels == expected[mask]


def test_minimal_filtering_is_launched_on_gpus(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy cannot be seen as a GPU")
    cheap = winograd._COSTS["gpu"]._replace(launches=0)  # so that small convolutions pay
    monkeypatch.setitem(winograd._COSTS, "gpu", cheap)
    winograd.problem_of.cache_clear()
    cases = [((4, 64, 28, 28), (64, 64, 3, 3), 1, 1), ((2, 64, 16, 16), (3, 64, 3, 3), 1, 1)]
    try:
        with masked(handle, **MASKS["large GPU"]) as seen:
            assert check_convolutions(seen, monkeypatch, cases) == {"winograd2_gpu", "winograd4_gpu"}
    finally:
        winograd.problem_of.cache_clear()


def test_a_measured_kernel_is_named_only_if_it_is_launched(
    handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has one kernel")
    engine, chooser = engine_for(handle), get_kernel_selector(handle)
    for kernel, launched in (("direct", "direct"), ("slices", None)):  # a CPU has no kernel for slices
        best = KernelConfig(KernelVariant.MATMUL_NAIVE, extra={"kernel": kernel})
        measurements.store(engine, "matmul", (40, 24, 56), "float32", best)
        with config.override(AUTOTUNE="cached"):
            chosen = chooser.select_matmul_kernel(40, 24, 56)
            with launches(handle, monkeypatch) as names:
                ops.matmul(zeros(handle, (40, 56)), zeros(handle, (56, 24))).to_host()
        assert_named(names, [chosen.extra["kernel"]], kernel)
        assert (chosen is best) == (kernel == launched)
    assert "kernel" not in chooser.select_matmul_kernel(0, 3, 3).extra
    assert "kernel" not in chooser.select_conv2d_kernel(1, 1, 1, 2, 2, 5, 5).extra


def test_portable_launches_no_kernel_with_sub_groups(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sub-groups are the one feature of that kind that a kernel uses: half and vendor code are not generated."""
    if handle.backend == "cpu" or not any("subgroups" in name for name in handle.device.extensions.split()):
        pytest.skip("needs an OpenCL device with sub-groups")
    with masked(handle, is_cpu=False) as gpu:
        engine, chooser = engine_for(gpu), get_kernel_selector(gpu)
        best = KernelConfig(KernelVariant.MATMUL_TILED, extra={"kernel": "broadcast"})
        measurements.store(engine, "matmul", (16, 16, 16), "float32", best)
        x = zeros(gpu, (16, 16))
        for strategy, taken in (("auto", True), ("optimized", True), ("portable", False)):
            with config.override(AUTOTUNE="cached", KERNEL_STRATEGY=strategy):
                with launches(gpu, monkeypatch) as names:
                    ops.matmul(x, x).to_host()
                assert ("broadcast" in names) == taken
                assert_named(names, [chooser.select_matmul_kernel(16, 16, 16).extra["kernel"]], strategy)
                candidates = engine.kernel_modules.gemm.kernels(engine, (16, 16), (16, 16))
                assert ("broadcast" in candidates) == taken
        with config.override(KERNEL_STRATEGY="portable"), launches(gpu, monkeypatch) as names:
            engine.kernel_modules.gemm.matmul(engine, x, x, variant="broadcast")
        assert names == ["tiled"]


@pytest.mark.parametrize("side", [3, 5])
def test_tiled_local_launches_the_kernel_tiled_in_local_memory(
    handle: DeviceHandle, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no local memory")
    with masked(handle, is_cpu=False, max_work_group_size=256, local_mem_size=48 * 1024) as gpu:
        chooser = get_kernel_selector(gpu)
        weight = zeros(gpu, (16, 8, side, side))
        for size, small in ((side + 8, True), (side + 15, False)):
            x = zeros(gpu, (2, 8, size, size))
            for asked in (False, True):
                with config.override(CONV_TILED_LOCAL=asked), launches(gpu, monkeypatch) as names:
                    ops.conv2d(x, weight).to_host()
                    chosen = chooser.select_conv2d_kernel(2, 8, 16, size, size, side, side)
                assert_named(names, [chosen.extra["kernel"]], (size, asked))
                assert ("tiled" in names) == (asked and small)
                if side == 5:
                    assert (chosen.variant is KernelVariant.CONV2D_TILED_LOCAL) == (asked and small)


def test_a_dtype_whose_kernels_do_not_build_is_named_plain() -> None:
    chooser = KernelSelector(profile=get_kernel_selector().profile)
    chooser._traits = Traits(False, 4, 48 * 1024)
    base = chooser.profile.base.__class__(
        **{**vars(chooser.profile.base), "opencl_c_version": "OpenCL C 1.2", "_device": None}
    )
    chooser.profile = chooser.profile.__class__(base, chooser.profile.family)
    assert chooser.select_matmul_kernel(128, 64, 64).extra["kernel"] == "wide"
    without = chooser.with_plain("float32")
    assert without.select_matmul_kernel(128, 64, 64).extra["kernel"] == "plain"
    assert without.select_conv2d_kernel(2, 3, 8, 9, 9, 3, 3).extra["kernel"] == "plain"
    assert without.select_matmul_kernel(128, 64, 64, "bfloat16").extra["kernel"] == "wide"
    assert without.with_plain("bfloat16").select_matmul_kernel(128, 64, 64, "bfloat16").extra["kernel"] == "plain"
    assert chooser.select_matmul_kernel(128, 64, 64).extra["kernel"] == "wide"


def product(m: int, k: int, n: int, **options: Any) -> Contraction:
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=k, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, n), b_n=(0, 0, 0, 1), out_row=n,
        out_n=(0, 0, 0, 1), **options,
    )  # fmt: skip


def test_the_rules_of_gpus() -> None:
    """The thresholds themselves, on capabilities that no device here has."""
    large, small = Traits(False, 4, 48 * 1024, 1024), Traits(False, 4, 16 * 1024, 64)
    rules = {
        (7, 64, 9): ("slices", "slices"),
        (7, 63, 9): ("direct", "direct"),
        (8, 64, 9): ("tiled", "tiled"),
        (64, 512, 64): ("wide", "tiled"),
        (65, 511, 64): ("wide", "tiled"),
        (2048, 2048, 2048): ("wide", "tiled"),
        (63, 100, 64): ("tiled", "tiled"),
    }
    for (m, k, n), expected in rules.items():
        c = product(m, k, n)
        assert tuple(candidates.choose(device, c) for device in (large, small)) == expected, (m, k, n)
    gradients = product(32, 64, 12544, batch=(1, 36), b_batch=(0, 64 * 12544), out_batch=(0, 32 * 12544))
    assert candidates.choose(large, gradients) == "windows"  # of minimal filtering: too few rows for ``wide``
    assert candidates.choose(large, product(10, 256, 12544)) == "windows"
    assert candidates.choose(large._replace(group=32), product(64, 64, 64)) == "direct"
    assert candidates.choose(large, product(7, 64, 9, accumulate=True)) == "direct"
    assert candidates.runnable(large, product(64, 64, 64, accumulate=True), "wide") == "tiled"
    assert "broadcast" in candidates.candidates(large._replace(sub_groups=True), product(8, 8, 8))
    assert "broadcast" not in candidates.candidates(large, product(8, 8, 8))
    assert dense_steps(product(2**16, 1, 2**16)) is None
    gpu = large._replace(units=132)
    assert implicit_gemm_tile(gpu, product(128, 576, 65536)) == (128, 128, 1)
    assert implicit_gemm_tile(gpu, product(32, 576, 200704)) == (32, 128, 1)
    assert implicit_gemm_tile(gpu, product(64, 200704, 288))[:2] == (
        64,
        64,
    )  # 96 of 3 x 128 columns would be idle
    assert implicit_gemm_tile(gpu, product(32, 200704, 9)) == (32, 64, 528)  # four groups on each compute unit
    assert implicit_gemm_tile(gpu, product(64, 127, 64)).splits == 1
    assert wide_tile(gpu, product(4096, 4096, 4096)) == (128, 128, 1)
    assert wide_tile(gpu, product(12608, 192, 768)) == (128, 64, 1)
    assert wide_tile(gpu, product(12608, 768, 192))[:2] != (128, 128)  # columns that fill no tile of 128
    assert wide_tile(gpu, product(192, 12608, 192)).splits > 8  # few tiles with long sums
    assert cpu_tile(Traits(True, 16, 1 << 20), "float32")[1:] == (8, 32, 384, 64)
    assert cpu_tile(Traits(True, 8, 32 * 1024), "float64", few=True)[1:] == (4, 8, 64, 4)


def test_minimal_filtering_on_gpus_pays_from_some_size_on() -> None:
    gpu = Traits(False, 4, 48 * 1024, 1024)

    def kernels(batch: int, channels: int, filters: int, side: int) -> list[str]:
        size = (1, side, side)
        pads = ((0, 0), (1, 1), (1, 1))
        g = Geometry(batch, channels, filters, 1, size, (1, 3, 3), size, (1, 1, 1), (1, 1, 1), pads)
        kinds = ("forward", "grad_input", "grad_weight")
        return [candidates.launched(gpu, Convolution(kind, g, "float32"))[0] for kind in kinds]

    assert kernels(256, 64, 64, 32) == ["winograd4_gpu"] * 3
    assert kernels(256, 512, 512, 4) == ["winograd4_gpu"] * 3
    assert kernels(256, 32, 64, 28) == ["winograd4_gpu", "winograd4_gpu", "windows"]
    assert kernels(128, 32, 32, 32) == ["winograd4_gpu", "winograd4_gpu", "windows"]
    assert kernels(32, 64, 64, 32)[2] == "windows"  # minimal filtering takes 141 microseconds, where this takes 98
    assert kernels(32, 512, 512, 4) == ["winograd2_gpu"] * 3
    assert kernels(32, 16, 16, 64) == ["windows"] * 3  # transforms would take all the time
    assert kernels(256, 3, 64, 32) == ["windows", "winograd4_gpu", "windows"]  # a direct one has few rows to the images
    assert kernels(1, 128, 128, 16) == ["windows"] * 3


def test_depthwise_convolutions_of_cpus() -> None:
    g = Geometry(2, 6, 6, 6, (1, 9, 8), (1, 3, 3), (1, 9, 8), (1, 1, 1), (1, 1, 1), ((0, 0), (1, 1), (1, 1)))
    cpu = Traits(True, 8, 1 << 20)
    kinds = ("forward", "grad_input", "grad_weight")
    found = [candidates.launched(cpu, Convolution(kind, g, "float32")) for kind in kinds]
    assert found == [("planes",), ("planes",), ("taps",)]
    assert len(conv_plan("grad_input", g).parts) == 1


def test_the_choice_is_among_the_candidates_that_are_measured() -> None:
    """Also of depthwise convolutions, and without a row that a device cannot run."""
    devices = (Traits(True, 8, 1 << 20), Traits(False, 4, 48 * 1024, 1024), Traits(False, 4, 16 * 1024, 32))
    for device in devices:
        for x, weight, stride, padding in (*CONVOLUTIONS, ((2, 6, 9, 8), (6, 1, 3, 3), 1, 1)):
            pads = ((padding, padding),) * 2
            g = geometry("forward", x, weight, (stride,) * 2, pads, (1, 1), x[1] // weight[1], None)
            (chosen,) = candidates.launched(device, Convolution("forward", g, "float32"))
            measured = candidates.convolution_candidates(device, dense(g) if g.sparse else g)
            assert chosen in measured, (device, x, weight, measured)
            assert len(set(measured)) == len(measured)
        for m, k, n in PRODUCTS:
            c = product(m, k, n)
            measured = candidates.candidates(device, c, "matmul")
            assert measured[0] == candidates.product_kernel(device, c)
            assert all(candidates.runnable(device, c, kernel) == kernel for kernel in measured)
