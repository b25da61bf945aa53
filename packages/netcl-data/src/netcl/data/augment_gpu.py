"""Augmentations of image batches on a device, with the same numbers as the host versions and no copy to the host.

The functions need netcl-core; it is imported when one of them is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netcl.core import Tensor


def flip_horizontal(x: Tensor, mask: Any) -> Tensor:
    """Mirrors the images of ``x`` (N, C, H, W) left to right if ``mask`` (N,) is true for them."""
    return _device_functions().flip_horizontal(x, mask)  # type: ignore[no-any-return]


def apply_color_jitter(x: Tensor, brightness: Any = None, contrast: Any = None, saturation: Any = None) -> Tensor:
    """Scales brightness, contrast (about the mean grey) and saturation (about the grey image) of ``x`` (N, C, H, W), in
    this order.

    Each factor is a number or one per image (N,); None skips that effect. The host's ``color_jitter(b, c, s)`` draws
    its factors from [max(0, 1 - b), 1 + b) and so on. Integer images are rounded and clipped to their dtype; floating
    ones are not clipped.

    Raises:
        ShapeError: a saturation is given and the images have neither 1 nor 3 channels.
    """
    return _device_functions().apply_color_jitter(x, brightness, contrast, saturation)  # type: ignore[no-any-return]


def cutout(x: Tensor, centers: Any, size: int = 8, value: float = 0.0) -> Tensor:
    """Sets the square of ``size`` pixels about ``centers`` (N, 2), row and column, of each image of ``x`` (N, C, H, W)
    to ``value``. Squares may reach over the border.
    """
    return _device_functions().cutout(x, centers, size, value)  # type: ignore[no-any-return]


def _device_functions() -> Any:
    from netcl.data import device_augment

    return device_augment
