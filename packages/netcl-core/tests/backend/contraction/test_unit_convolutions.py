"""Convolutions on a matrix unit as eager programs call them, on a device that is seen as a GPU with a software twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl.core.device.health import launch_log
from netcl.core.engine.epilogue import Epilogue, added
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load
from netcl.core.testing import masked
from netcl.core.tuning import matrix_units

OPTIONS = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
SIZES = ((2, 64, 5, 6), (64, 64, 3, 3), (2, 64, 5, 6))  # of images, filters and results


@pytest.fixture
def gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields the engine of the device seen as a GPU, without plans; convolutions run on a twin."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    monkeypatch.setattr(matrix_units, "convolution_unit_of", lambda profile, dtype, kind, g: "mma_twin")
    with masked(engine.handle, is_cpu=False) as handle:
        seen = engine_for(handle)
        monkeypatch.setattr(seen, "plans", {})
        yield seen


def operands(gpu: Any, seed: int = 0) -> list[Any]:
    """Images, filters and gradients of small integers: their sums are exact, also in bfloat16."""
    rng = np.random.default_rng(seed)
    arrays = (rng.integers(-1, 2, size) * (rng.random(size) < 0.4) for size in SIZES)
    return [gpu.tensor(array.astype(np.float32), "bfloat16") for array in arrays]


def convolved(x: Any, w: Any) -> Any:
    """Returns the convolution by NumPy."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwyx,fcyx->nfhw", windows, w)


def calls(gpu: Any, x: Any, w: Any, grad: Any) -> dict[str, Any]:
    """Returns a function of each direction."""
    return {
        "forward": lambda **more: gpu.conv("forward", x, w, **OPTIONS, **more),
        "grad_input": lambda **more: gpu.conv("grad_input", grad, w, shape=x.shape, **OPTIONS, **more),
        "grad_weight": lambda **more: gpu.conv("grad_weight", x, grad, shape=w.shape, **OPTIONS, **more),
    }


def test_two_launches_make_a_convolution(gpu: Any) -> None:
    """Both operands are laid out by one, and the other stores the results where they belong, with an epilogue."""
    x, w, grad = operands(gpu)
    of_two = ["unit_operands", "matrix_unit"]
    log, bias = launch_log(gpu.queue), added(gpu.tensor(np.ones((64, 1, 1)), "bfloat16"))
    wanted = {"forward": of_two, "grad_input": of_two, "grad_weight": [*of_two, "copy_tiles"]}
    for kind, call in calls(gpu, x, w, grad).items():
        for options in ({}, {"epilogue": bias}) if kind == "forward" else ({},):
            for _ in range(3):
                gpu.finish()
                log.clear()
                call(**options)
                assert [*log] == wanted[kind], kind


def test_float32_is_refused(gpu: Any) -> None:
    from netcl.core.backend.opencl.contraction import conv

    x, w = (gpu.tensor(np.ones(size, np.float32), "float32") for size in SIZES[:2])
    with pytest.raises(
        ValueError, match="expected bfloat16 or float16 for a convolution on a matrix unit, got float32"
    ):
        conv.conv(gpu, "forward", x, w, **OPTIONS, variant="mma_twin")


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_filters_and_their_gradient_may_be_float32(
    gpu: Any, half: str, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters are rounded as they are laid out; the gradient is rounded to the half type and stored as float32."""
    from netcl.core.backend.opencl.contraction import conv
    from netcl.core.backend.opencl.contraction.matrix_unit import unit_convolution

    tile = unit_convolution._tile
    monkeypatch.setattr(unit_convolution, "_tile", lambda *problem: tile(*problem)._replace(splits=splits))
    rng = np.random.default_rng(4)
    x, w, grad = (gpu.tensor(rng.standard_normal(size).astype(np.float32), "float32") for size in SIZES)
    narrow_x, narrow_w, narrow_grad = (gpu.tensor(each.numpy(), half) for each in (x, w, grad))
    plain = calls(gpu, narrow_x, narrow_w, narrow_grad)
    operand = {"forward": narrow_x, "grad_input": narrow_grad}
    for kind in ("forward", "grad_input", "grad_weight"):
        is_weight = kind == "grad_weight"
        a, b = (narrow_x, narrow_grad) if is_weight else (operand[kind], w)
        shape = {"forward": None, "grad_input": x.shape, "grad_weight": w.shape}[kind]
        roles = gpu.float32_roles("conv", (kind, a, b), half, {**OPTIONS, "shape": shape})
        assert roles == (False, not is_weight, is_weight)
        result = conv.conv(gpu, kind, a, b, shape=shape, **OPTIONS, half=half, wide=is_weight)
        assert result.dtype == ("float32" if is_weight else half)
        np.testing.assert_array_equal(result.numpy(), plain[kind]().numpy().astype(np.float32))


def test_an_epilogue_reads_operands_at_the_pixels_of_images(gpu: Any) -> None:
    """A value for each channel and one for each result."""
    x, w, _ = operands(gpu)
    rng = np.random.default_rng(1)
    for size in ((64, 1, 1), SIZES[2], (1,)):
        other = rng.integers(-3, 4, size).astype(np.float32)
        given = gpu.tensor(other, "bfloat16")
        epilogue = Epilogue((Load(0, "bfloat16") + Load(1, "bfloat16")) * Load(1, "bfloat16"), (given,))
        exact = (convolved(x.numpy(), w.numpy()) + other) * other
        for _ in range(2):
            found = gpu.conv("forward", x, w, **OPTIONS, epilogue=epilogue)
            assert np.array_equal(found.numpy(), gpu.tensor(exact, "bfloat16").numpy()), size


def test_filters_that_are_written_in_place_are_seen(gpu: Any) -> None:
    """Between two calls, between a recording and its replay, and within a recording."""
    x, w, grad = operands(gpu)
    bits = gpu.read(w)
    forward, back = (calls(gpu, x, w, grad)[kind] for kind in ("forward", "grad_input"))
    first, gradient = convolved(x.numpy(), w.numpy()), back().numpy()
    for scale in (1.0, -2.0, -4.0):
        assert np.array_equal(forward().numpy(), scale * first)
        assert np.array_equal(back().numpy(), scale * gradient)
        w.mul_(-2.0 if scale == 1.0 else 2.0)
    gpu.write(w, bits)
    assert np.array_equal(forward().numpy(), first)
    gpu.recording = recording = gpu.new_recording()
    try:
        before = forward()
        w.mul_(2.0)
        after = forward()
    finally:
        gpu.recording = None
    for scale in (1.0, 2.0, 4.0):
        recording.replay()
        assert np.array_equal(before.numpy(), scale * first)
        assert np.array_equal(after.numpy(), 2 * scale * first)
    w.mul_(-1.0)
    recording.replay()
    assert np.array_equal(after.numpy(), -16 * first)


@pytest.mark.parametrize("shape", [((2, 64, 30), (64, 64, 3)), ((2, 64, 1, 5, 6), (64, 64, 1, 3, 3))])
def test_signals_and_volumes_of_one_layer(gpu: Any, shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """In all directions, as images of one row or one layer."""
    rng = np.random.default_rng(6)
    padding = tuple((k // 2, k // 2) for k in shape[1][2:])
    options = {"stride": (1,) * len(padding), "padding": padding, "dilation": (1,) * len(padding), "groups": 1}
    flat = {**OPTIONS, "padding": ((0, 0), (1, 1))} if len(padding) == 1 else OPTIONS
    arrays = [rng.integers(-1, 2, size).astype(np.float32) for size in (*shape, shape[0])]
    x, w, grad = (gpu.tensor(array, "bfloat16") for array in arrays)
    images, filters, grads = (
        gpu.tensor(array.reshape(*array.shape[:2], *((1, *array.shape[2:])[-2:])), "bfloat16") for array in arrays
    )
    for kind, given, as_images, size in (
        ("forward", (x, w), (images, filters), None),
        ("grad_input", (grad, w), (grads, filters), x),
        ("grad_weight", (x, grad), (images, grads), w),
    ):
        wanted = {"grad_input": images, "grad_weight": filters}.get(kind)
        found = gpu.conv(kind, *given, shape=None if size is None else size.shape, **options).numpy()
        same = gpu.conv(kind, *as_images, shape=None if wanted is None else wanted.shape, **flat).numpy()
        assert found.shape == (x if kind != "grad_weight" else w).shape
        assert np.array_equal(found.ravel(), same.ravel()), kind


def test_split_sums_are_added_and_stored_as_images(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.contraction.matrix_unit import unit_convolution

    x, w, grad = operands(gpu)
    bias = np.arange(64, dtype=np.float32).reshape(64, 1, 1) % 5
    addend = added(gpu.tensor(bias, "bfloat16"))
    wanted = {kind: call().numpy() for kind, call in calls(gpu, x, w, grad).items()}
    assert np.array_equal(wanted["forward"], convolved(x.numpy(), w.numpy()))
    tile = unit_convolution._tile
    monkeypatch.setattr(unit_convolution, "_tile", lambda *given: tile(*given)._replace(splits=3))
    monkeypatch.setattr(gpu, "plans", {})
    log = launch_log(gpu.queue)
    for _ in range(2):
        for kind, call in calls(gpu, x, w, grad).items():
            log.clear()
            found = call()
            assert [*log] == ["unit_operands", "matrix_unit", "add_parts"]
            assert np.array_equal(found.numpy(), wanted[kind]), kind
        log.clear()
        found = gpu.conv("forward", x, w, **OPTIONS, epilogue=addend)
        assert [*log] == ["unit_operands", "matrix_unit", "add_parts"]
        assert np.array_equal(found.numpy(), wanted["forward"] + bias)


def test_a_captured_convolution_has_the_same_bits(gpu: Any) -> None:
    rng = np.random.default_rng(5)
    x, w, grad = (gpu.tensor(rng.standard_normal(size), "bfloat16") for size in SIZES)
    directions = calls(gpu, x, w, grad)
    eager = [[call().numpy() for call in directions.values()] for _ in range(2)]
    gpu.recording = recording = gpu.new_recording()
    try:
        found = [call() for call in directions.values()]
    finally:
        gpu.recording = None
    recording.replay()
    for first, second, captured in zip(*eager, found):
        assert np.array_equal(first, second)
        assert np.array_equal(first, captured.numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("size", "step"), [((1, 7, 9), (1, 2, 2)), ((5, 4, 6), (3, 1, 2)), ((1, 1, 11), (1, 1, 5))])
def test_samples_and_elements_spread_with_zeros(
    gpu: Any, dtype: str, size: tuple[int, ...], step: tuple[int, ...]
) -> None:
    """By a work-item for each element, as a GPU does."""
    from netcl.core.backend.opencl.contraction.pads.padding import resampled

    x = np.random.default_rng(3).integers(1, 99, (2, 3, *size)).astype(np.float32)
    every = (..., *(slice(None, None, each) for each in step))
    result = x[every].shape[2:]
    sampled = resampled(gpu, "sample", gpu.tensor(x, dtype), size, result, step)
    assert np.array_equal(sampled.numpy(), x[every])
    wanted = np.zeros_like(x)
    wanted[every] = x[every]
    assert np.array_equal(resampled(gpu, "spread", sampled, result, size, step).numpy(), wanted)
