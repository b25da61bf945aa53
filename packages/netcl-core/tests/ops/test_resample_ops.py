"""Resizing and sampling: what they refuse, dtypes, exactness, determinism, recordings, and a device that is no CPU."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.testing import assert_close, expected, op_cases, run_case
from netcl.runtime.capture import capture


def ones(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor.ones(shape, dtype)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ops.interpolate(ones(1, 1, 2)), "interpolate: expected either size or scale_factor, got size=None"),
        (
            lambda: ops.interpolate(ones(1, 1, 2), size=3, scale_factor=2),
            "expected either size or scale_factor, got size=3, scale_factor=2",
        ),
        (lambda: ops.interpolate(ones(1, 1, 2), size=(3, 3)), "expected a number from 1 or 1 of them as size"),
        (lambda: ops.interpolate(ones(1, 1, 2), size=0), "as size, got 0"),
        (
            lambda: ops.interpolate(ones(1, 1, 2), scale_factor=0.1),
            "expected a number from 1 or 1 of them as scale_factor",
        ),
        (
            lambda: ops.interpolate(ones(1, 1, 2), scale_factor=-1.0),
            "expected a positive number or . of them as scale_factor",
        ),
        (
            lambda: ops.interpolate(ones(1, 1, 2), scale_factor=(2, 2)),
            "expected a positive number or 1 of them as scale_factor",
        ),
        (lambda: ops.interpolate(ones(1, 1, 2, 2), 3, mode="linear"), "mode 'linear' is for 3 dimensions, and x is"),
        (lambda: ops.interpolate(ones(1, 1, 2), 3, mode="bicubic"), "mode 'bicubic' is for 4 dimensions"),
        (lambda: ops.interpolate(ones(2, 2), 3), r"mode 'nearest' is for 3 or 4 or 5 dimensions, and x is \(2, 2\)"),
        (lambda: ops.interpolate(ones(1, 1, 0), 3), "has no spatial elements"),
        (lambda: ops.upsample(ones(1, 1, 2), size=3, scale_factor=2), "upsample: expected either size or scale_factor"),
        (lambda: ops.pixel_shuffle(ones(1, 6, 2, 2), 2), r"pixel_shuffle: x \(1, 6, 2, 2\), upscale_factor 2"),
        (lambda: ops.pixel_unshuffle(ones(1, 1, 3, 2), 2), r"pixel_unshuffle: x \(1, 1, 3, 2\), downscale_factor 2"),
        (lambda: ops.pixel_shuffle(ones(4, 2, 2), 0), "expected a whole number from 1 as upscale_factor, got 0"),
        (
            lambda: ops.grid_sample(ones(1, 1, 2, 2), ones(1, 3, 3, 3)),
            r"x \(1, 1, 2, 2\), grid \(1, 3, 3, 3\); expected",
        ),
        (lambda: ops.grid_sample(ones(2, 1, 2, 2), ones(1, 3, 3, 2)), r"grid \(1, 3, 3, 2\)"),
        (lambda: ops.grid_sample(ones(1, 1, 2, 2), ones(1, 3, 2)), r"grid \(1, 3, 2\)"),
        (lambda: ops.grid_sample(ones(1, 1, 0, 2), ones(1, 3, 3, 2)), "has no spatial elements"),
        (
            lambda: ops.affine_grid(ones(1, 2, 3), (2, 1, 4, 4)),
            r"affine_grid: theta \(1, 2, 3\) for size \(2, 1, 4, 4\)",
        ),
        (lambda: ops.affine_grid(ones(1, 2, 3), (1, 1, 4)), r"for size \(1, 1, 4\)"),
        (lambda: ops.adaptive_avg_pool2d(ones(1, 1, 0, 2), 1), "has no spatial elements"),
        (lambda: ops.max_unpool2d(ones(1, 1, 2, 2), ones(1, 1, 2, 3, dtype="int32"), 2), r"indices \(1, 1, 2, 3\)"),
        (
            lambda: ops.max_unpool1d(ones(1, 1, 2), ones(1, 1, 2, dtype="int32"), 2, output_size=(9,)),
            r"output_size \(9,\); \(4,\) may be off by less than the stride \(2,\)",
        ),
        (lambda: ops.pad(ones(2, 3), (-2, -2)), "cuts off more than there is"),
        (lambda: ops.pad(ones(2, 3), (3, 0), "reflect"), r"reflect padding \(3, 0\) is too wide for axis 1"),
        (lambda: ops.pad(ones(2, 3), (4, 0), "circular"), r"circular padding \(4, 0\) is too wide for axis 1"),
    ],
)
def test_shapes_that_do_not_fit(call: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ops.interpolate(ones(1, 1, 2), 3, mode="cubic"), "expected one of nearest, .* as mode, got 'cubic'"),
        (
            lambda: ops.interpolate(ones(1, 1, 2), 3, align_corners=True),
            "expected mode linear, .* with align_corners, got 'nearest'",
        ),
        (lambda: ops.grid_sample(ones(1, 1, 2, 2), ones(1, 1, 1, 2), "area"), "expected mode bilinear, nearest or"),
        (lambda: ops.grid_sample(ones(1, 1, 2, 2, 2), ones(1, 1, 1, 1, 3), "bicubic"), "got 'bicubic'"),
        (
            lambda: ops.grid_sample(ones(1, 1, 2, 2), ones(1, 1, 1, 2), padding_mode="wrap"),
            "expected one of zeros, border, reflection as padding_mode, got 'wrap'",
        ),
        (
            lambda: ops.avg_pool2d(ones(1, 1, 4, 4), 2, divisor_override=0),
            "a whole number other than 0 as divisor_override, got 0",
        ),
        (lambda: ops.lp_pool1d(ones(1, 1, 4), 0.0, 2), "expected a positive number as norm_type"),
        (
            lambda: ops.pad(ones(2, 3), 1, "mirror"),
            "expected mode constant, reflect, replicate or circular, got 'mirror'",
        ),
    ],
)
def test_values_that_do_not_fit(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_dtypes_that_do_not_fit() -> None:
    with pytest.raises(DTypeError, match="expected a floating dtype for weighted neighbours, got int32"):
        ops.interpolate(ones(1, 1, 2, dtype="int32"), 3, mode="linear")
    with pytest.raises(DTypeError, match="grid_sample: expected floating dtypes, got int32 and float32"):
        ops.grid_sample(ones(1, 1, 2, 2, dtype="int32"), ones(1, 1, 1, 2))
    with pytest.raises(DTypeError, match="affine_grid: expected floating dtypes, got int64"):
        ops.affine_grid(ones(1, 2, 3, dtype="int64"), (1, 1, 2, 2))


def test_the_nearest_element_is_moved_as_it_is(engine: Any) -> None:
    """Whole numbers beyond what floats hold, infinities and NaN; positions are whole-number arithmetic."""
    for values in (np.array([2**40 + 1, -3, 2**62 + 5]), np.array([np.inf, np.nan, -0.0], np.float32)):
        x = Tensor.from_host(values.reshape(1, 1, 3))
        found = ops.interpolate(x, size=7).numpy()
        np.testing.assert_array_equal(found.reshape(-1), values[np.arange(7) * 3 // 7])
    mask = Tensor.from_host(np.array([[[[True, False], [False, True]]]]))
    found = ops.interpolate(mask, scale_factor=(1, 2))
    assert found.dtype == "bool"
    assert found.tolist() == [[[[True, True, False, False], [False, False, True, True]]]]
    # 49 * (1 / 49) is below 1 in floats: input 1 would be lost.
    steps = np.arange(2, dtype=np.float32).reshape(1, 1, 2)
    assert ops.interpolate(Tensor.from_host(steps), size=98).numpy().sum() == 49


@pytest.mark.deep
def test_a_sum_of_neighbours_in_half_is_rounded_once(engine: Any) -> None:
    x = Tensor.from_host(normal(1, 2, 5, 4), "float16")
    for mode in ("bilinear", "bicubic"):
        found = ops.interpolate(x, (9, 7), mode=mode)
        wide = ops.interpolate(x.astype("float32"), (9, 7), mode=mode).numpy()
        assert found.dtype == "float16"
        np.testing.assert_array_equal(found.numpy(), wide.astype(np.float16))
    sampled = ops.grid_sample(x, Tensor.from_host(normal(1, 3, 3, 2), "float16"))
    assert sampled.dtype == "float16"
    assert ops.affine_grid(ones(1, 2, 3, dtype="float16"), (1, 1, 2, 2)).dtype == "float16"


def test_adaptive_pooling_takes_none_and_gives_positions(engine: Any) -> None:
    values = np.random.default_rng(1).permutation(70).reshape(1, 2, 7, 5).astype(np.float32)
    x = Tensor.from_host(values)
    assert ops.adaptive_avg_pool2d(x, (None, 2)).shape == (1, 2, 7, 2)
    y, positions = ops.adaptive_max_pool2d(x, (3, 4), return_indices=True)
    assert positions.dtype == "int32"
    assert y.shape == positions.shape == (1, 2, 3, 4)
    planes = values.reshape(1, 2, 35)
    np.testing.assert_array_equal(
        np.take_along_axis(planes, positions.numpy().reshape(1, 2, 12), 2).reshape(y.shape), y
    )


def test_unpooling_undoes_pooling(engine: Any) -> None:
    x = Tensor.from_host(normal(2, 3, 6, 4))
    y, positions = ops.max_pool2d(x, 2, return_indices=True)
    back = ops.max_unpool2d(y, positions, 2)
    assert back.shape == x.shape
    np.testing.assert_array_equal(ops.max_pool2d(ops.abs(back), 2).numpy(), np.abs(y.numpy()))
    np.testing.assert_array_equal(back.numpy()[back.numpy() != 0], x.numpy()[back.numpy() != 0])
    with pytest.raises(IndexError, match="out of range"):
        wrong = Tensor.from_host(np.full((1, 1, 2), 7))
        ops.max_unpool1d(ones(1, 1, 2), wrong, 2).numpy()


def test_the_identity_map_samples_the_image_itself(engine: Any) -> None:
    x = Tensor.from_host(normal(2, 3, 5, 4))
    theta = Tensor.from_host(np.tile(np.eye(2, 3, dtype=np.float32), (2, 1, 1)))
    for mode, align in (("bilinear", False), ("bicubic", True)):
        grid = ops.affine_grid(theta, (2, 3, 5, 4), align_corners=align)
        found = ops.grid_sample(x, grid, mode, padding_mode="border", align_corners=align)
        np.testing.assert_allclose(found.numpy(), x.numpy(), atol=1e-5)


def test_what_lies_outside_never_counts(engine: Any) -> None:
    """Infinities in the image do not leak into adjacent samples, nor far or undefined positions into memory."""
    values = np.full((1, 1, 2, 2), np.inf, np.float32)
    places = np.array([-9.0, 9.0, 1e30, -np.inf, np.nan], np.float32)
    grid = Tensor.from_host(np.stack([places, places], -1).reshape(1, 1, 5, 2))
    for mode in ("bilinear", "nearest"):
        found = ops.grid_sample(Tensor.from_host(values), grid, mode).numpy().reshape(-1)
        np.testing.assert_array_equal(found[:3], 0)
        np.testing.assert_array_equal(found[3:], 0 if mode == "nearest" else np.nan)  # as PyTorch's
    finite = Tensor.from_host(normal(1, 1, 2, 2))
    found = ops.grid_sample(finite, grid, "nearest", "border").numpy().reshape(-1)
    np.testing.assert_array_equal(found[:4], finite.numpy()[0, 0, [0, 1, 1, 0], [0, 1, 1, 0]])


def test_positions_in_wide_integers_are_the_same(engine: Any) -> None:
    case = next(op_cases("grid_index"))
    narrow = run_case("grid_index", case, engine)[0]
    wide = run_case("grid_index", case._replace(attributes={**case.attributes, "wide": True}), engine)[0]
    assert (narrow.dtype, wide.dtype) == ("int32", "int64")
    np.testing.assert_array_equal(narrow.numpy(), wide.numpy())


def test_a_batch_of_nothing(engine: Any) -> None:
    x, pooled = ones(0, 2, 4, 5), ones(0, 2, 2, 2)
    results = {
        (0, 2, 3, 3): ops.grid_sample(x, ones(0, 3, 3, 2)),
        (0, 3, 1, 2): ops.affine_grid(ones(0, 2, 3), (0, 1, 3, 1)),
        (0, 2, 4, 4): ops.max_unpool2d(pooled, ones(0, 2, 2, 2, dtype="int32"), 2),
        (0, 2, 7, 3): ops.interpolate(x, (7, 3), mode="bicubic"),
        (0, 2, 1, 3): ops.adaptive_max_pool2d(x, (1, 3)),
        (0, 2, 3, 4): ops.lp_pool2d(x, 2.0, 2, 1),
        (0, 2, 6, 7): ops.pad(x, (1, 1, 1, 1), "reflect"),
        (0, 3, 5, 6): ops.conv2d(x, ones(3, 2, 2, 2), padding=1, algo="im2col"),
    }
    for shape, found in results.items():
        assert found.numpy().shape == shape


def everything(x: Tensor, grid: Tensor) -> list[Tensor]:
    pooled, positions = ops.max_pool2d(x, 2, return_indices=True)
    return [
        ops.interpolate(x, scale_factor=2, mode="bilinear"),
        ops.interpolate(x, (3, 7), mode="bicubic", align_corners=True),
        ops.interpolate(x, (4, 3), mode="area"),
        ops.grid_sample(x, grid, padding_mode="reflection"),
        ops.max_unpool2d(pooled, positions, 2),
        ops.adaptive_max_pool2d(x, (3, 2)),
        ops.pad(x, (1, 2, 2, 1), "reflect"),
        ops.pixel_unshuffle(x, 2),
        ops.conv2d(x, grid.reshape(1, 3, 3, 2), padding=1, algo="im2col"),
    ]


def test_a_replay_gives_the_bits_of_the_call(handle: Any) -> None:
    grid = normal(1, 3, 3, 2)
    captured = capture(everything, Tensor.from_host(normal(1, 3, 6, 4)), Tensor.from_host(grid))
    other = -normal(1, 3, 6, 4)
    replayed = [one.numpy() for one in captured.replay(Tensor.from_host(other), Tensor.from_host(grid))]
    for one, wanted in zip(replayed, everything(Tensor.from_host(other), Tensor.from_host(grid))):
        np.testing.assert_array_equal(one, wanted.numpy())


OPS = (
    *("resample", "resample_grad", "adaptive_max_pool", "adaptive_max_pool_grad", "adaptive_avg_pool"),
    "adaptive_avg_pool_grad",
)


def test_a_device_that_is_no_cpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    for name in OPS:
        for case in islice(op_cases(name), 1, 3):
            for found, wanted in zip(run_case(name, case, engine), expected(name, case)):
                assert_close(found, wanted, found.dtype)
