"""netcl.data.augment_gpu on every device: the numbers of the host's augmentations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.data import augment, augment_gpu

RNG = np.random.default_rng(3)


@lru_cache(maxsize=1)
def _handles() -> dict[str, DeviceHandle]:
    """Returns NumPy and every OpenCL device, by platform."""
    found = [manager.default("cpu"), *manager.select()]
    return {handle.platform_name: handle for handle in found if handle is not None}


@pytest.fixture(params=list(_handles()))
def place(request: pytest.FixtureRequest) -> Iterator[DeviceHandle]:
    """Yields each device in turn, active."""
    with device(_handles()[request.param]) as handle:
        yield handle


class Draws:
    """Stands for the random numbers of a host augmentation."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def random(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        assert shape == self.values.shape
        return self.values


def images(channels: int, dtype: str) -> np.ndarray[Any, Any]:
    shape = (5, channels, 9, 7)
    return RNG.integers(0, 256, shape).astype(dtype) if dtype == "uint8" else RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_flip(place: DeviceHandle, dtype: str) -> None:
    x, mask = images(3, dtype), np.array([1, 0, 0, 1, 1], bool)
    expected = np.where(mask[:, None, None, None], x[..., ::-1], x)
    for given in (mask, mask.tolist(), Tensor.from_host(place, mask)):
        result = augment_gpu.flip_horizontal(Tensor.from_host(place, x, dtype), given).to_host()
        assert np.array_equal(result, expected)
        assert result.dtype == x.dtype


@pytest.mark.parametrize(("channels", "dtype"), [(3, "float32"), (3, "uint8"), (1, "float32"), (4, "float32")])
def test_jitter(place: DeviceHandle, channels: int, dtype: str) -> None:
    x, strengths = images(channels, dtype), (0.3, 0.4, 0.0 if channels == 4 else 0.5)
    draws = RNG.random((5, 3))
    expected = augment.color_jitter(*strengths).apply(x, Draws(draws))  # type: ignore[arg-type]
    lows = [max(0.0, 1 - s) for s in strengths]
    factors = [low + draws[:, at] * (1 + s - low) for at, (low, s) in enumerate(zip(lows, strengths))]
    given = factors[:2] if channels == 4 else factors
    result = augment_gpu.apply_color_jitter(Tensor.from_host(place, x, dtype), *given).to_host()
    assert result.dtype == x.dtype
    assert result.shape == x.shape
    # Sums over the image are rounded in another order; a whole number may fall to the other side of a half.
    if dtype == "uint8":
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1
        assert (result == expected).mean() > 0.99
    else:
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def test_jitter_by_one_number_and_by_none(place: DeviceHandle) -> None:
    x = images(3, "float32")
    tensor = Tensor.from_host(place, x)
    assert np.array_equal(augment_gpu.apply_color_jitter(tensor, 0.5).to_host(), x * np.float32(0.5))
    same = augment_gpu.apply_color_jitter(tensor)
    assert np.array_equal(same.to_host(), x)
    assert same is not tensor


@pytest.mark.parametrize("size", [1, 4, 20])
def test_cutout(place: DeviceHandle, size: int) -> None:
    x, draws = images(3, "float32"), RNG.random((5, 2))
    expected = augment.cutout(size, value=-1.0).apply(x, Draws(draws))  # type: ignore[arg-type]
    centers = (draws * x.shape[2:]).astype(np.int64)
    result = augment_gpu.cutout(Tensor.from_host(place, x), centers, size, -1.0).to_host()
    assert np.array_equal(result, expected)


def test_what_does_not_fit_is_named() -> None:
    x = Tensor.from_host(images(2, "float32"))
    with pytest.raises(ShapeError, match=r"flip_horizontal takes images \(N, C, H, W\), got shape \(3,\)"):
        augment_gpu.flip_horizontal(Tensor.from_host(np.zeros(3, np.float32)), [1])
    with pytest.raises(ShapeError, match=r"mask has shape \(3,\), wanted is one value per image, \(5,\)"):
        augment_gpu.flip_horizontal(x, [True, False, True])
    with pytest.raises(ShapeError, match="saturation needs images of 1 or 3 channels, got 2"):
        augment_gpu.apply_color_jitter(x, saturation=0.5)
    with pytest.raises(ShapeError, match=r"centers has shape \(5,\), wanted is \(5, 2\)"):
        augment_gpu.cutout(x, np.zeros(5))
    with pytest.raises(ValueError, match="size must be at least 1"):
        augment_gpu.cutout(x, np.zeros((5, 2)), 0)
