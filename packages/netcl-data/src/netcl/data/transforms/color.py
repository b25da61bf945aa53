"""Changes of brightness, contrast, saturation, hue and gamma on planes (..., C, H, W), and conversions of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.augment import LUMA

Array = npt.NDArray[Any]


def upper_bound(dtype: np.dtype[Any]) -> float:
    """Returns the value of white: 1 for floating dtypes, else the largest integer."""
    return 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)


def _working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of intermediate results: integers are computed in float32, as by PyTorch."""
    return dtype if dtype.kind == "f" else np.dtype(np.float32)


def convert_dtype(planes: Array, dtype: npt.DTypeLike, scale: bool = True) -> Array:
    """Returns planes of another dtype; with ``scale``, white stays white: integers are scaled by their largest values.

    Raises:
        ValueError: floating values to integers of 32 bits or more that float32 cannot represent.
    """
    wanted: np.dtype[Any] = np.dtype(dtype)
    if planes.dtype == wanted:
        return planes
    if not scale or wanted.kind == planes.dtype.kind == "f":
        return planes.astype(wanted)
    if wanted.kind == "b" or planes.dtype.kind == "b":
        return planes.astype(wanted)
    if planes.dtype.kind == "f":
        if (planes.dtype.itemsize <= 4 and wanted.itemsize >= 4) or wanted.itemsize == 8:
            raise ValueError(
                f"{planes.dtype} cannot be converted to {wanted} without loss: convert to float64 or int16"
            )
        # Not white + 0.5: each integer then gets an interval of the same width.
        factor = planes.dtype.type(np.iinfo(wanted).max + 1.0 - 1e-3)
        integers: Array = (planes * factor).astype(wanted)
        return integers
    if wanted.kind == "f":
        floats: Array = planes.astype(wanted) / wanted.type(np.iinfo(planes.dtype).max)
        return floats
    before, after = int(np.iinfo(planes.dtype).max), int(np.iinfo(wanted).max)
    if before > after:
        narrowed: Array = (planes // ((before + 1) // (after + 1))).astype(wanted)
        return narrowed
    widened: Array = planes.astype(wanted) * wanted.type((after + 1) // (before + 1))
    return widened


def blend(planes: Array, other: Array, ratio: float) -> Array:
    """Returns ratio planes + (1 - ratio) other, clipped to [0, white]; integers are cut, not rounded, as by PyTorch."""
    work = _working(planes.dtype)
    mixed = planes.astype(work, copy=False) * work.type(ratio) + other.astype(work, copy=False) * work.type(1.0 - ratio)
    clipped: Array = np.clip(mixed, 0, work.type(upper_bound(planes.dtype))).astype(planes.dtype, copy=False)
    return clipped


def gray(planes: Array) -> Array:
    """Returns the luma (..., 1, H, W) of three channels by Rec. 601; one channel stays.

    Raises:
        ValueError: there are neither one nor three channels.
    """
    channels = planes.shape[-3]
    if channels == 1:
        return planes
    if channels != 3:
        raise ValueError(f"a grayscale image is made of 1 or 3 channels, got {channels}")
    work = _working(planes.dtype)
    red, green, blue = (planes[..., at, :, :].astype(work, copy=False) * work.type(LUMA[at]) for at in range(3))
    luma: Array = (red + green + blue).astype(planes.dtype, copy=False)
    return luma[..., None, :, :]


def gamma(planes: Array, exponent: float, gain: float) -> Array:
    """Returns gain planes ** exponent, with white as 1, clipped to [0, white]."""
    floats = convert_dtype(planes, _working(planes.dtype))
    result = np.clip(floats.dtype.type(gain) * floats ** floats.dtype.type(exponent), 0, 1)
    return convert_dtype(result.astype(floats.dtype, copy=False), planes.dtype)


def hue(planes: Array, shift: float) -> Array:
    """Returns RGB planes with their hue moved by ``shift`` turns of the color circle."""
    floats = convert_dtype(planes, _working(planes.dtype))
    angle, saturation, value = _to_hsv(floats)
    moved = _to_rgb(np.mod(angle + floats.dtype.type(shift), 1), saturation, value)
    return convert_dtype(moved.astype(floats.dtype, copy=False), planes.dtype)


def _to_hsv(planes: Array) -> tuple[Array, Array, Array]:
    red, green, blue = (planes[..., at, :, :] for at in range(3))
    high, low = planes.max(axis=-3), planes.min(axis=-3)
    spread = high - low
    flat = spread == 0
    saturation = spread / np.where(flat, 1, high)
    divisor = np.where(flat, 1, spread)
    to_red, to_green, to_blue = ((high - channel) / divisor for channel in (red, green, blue))
    sixth = np.where(
        high == red, to_blue - to_green, np.where(high == green, 2 + to_red - to_blue, 4 + to_green - to_red)
    )
    return np.mod(sixth / 6 + 1, 1), saturation, high


def _to_rgb(angle: Array, saturation: Array, value: Array) -> Array:
    sixth = np.floor(angle * 6)
    part = angle * 6 - sixth
    low = np.clip(value * (1 - saturation), 0, 1)
    falling = np.clip(value * (1 - saturation * part), 0, 1)
    rising = np.clip(value * (1 - saturation * (1 - part)), 0, 1)
    at = sixth.astype(np.int64) % 6
    red = np.choose(at, [value, falling, low, low, rising, value])
    green = np.choose(at, [rising, value, value, falling, low, low])
    blue = np.choose(at, [low, low, rising, value, value, falling])
    return np.stack([red, green, blue], axis=-3)


def posterize(planes: Array, bits: int) -> Array:
    """Keeps the ``bits`` highest bits of uint8 planes. Raises TypeError for other dtypes."""
    if planes.dtype != np.uint8:
        raise TypeError(f"posterize takes uint8 images, got {planes.dtype}")
    kept: Array = planes & np.uint8((0xFF << (8 - bits)) & 0xFF)
    return kept


def solarize(planes: Array, threshold: float) -> Array:
    """Inverts the values from ``threshold`` on. Raises TypeError if it is above white."""
    white = upper_bound(planes.dtype)
    if threshold > white:
        raise TypeError(f"solarize: threshold must be at most {white:g} for {planes.dtype}, got {threshold}")
    return np.where(planes >= threshold, planes.dtype.type(white) - planes, planes)


def autocontrast(planes: Array) -> Array:
    """Stretches each channel to [0, white]; a channel of one value stays."""
    work = _working(planes.dtype)
    white = work.type(upper_bound(planes.dtype))
    low = planes.min(axis=(-2, -1), keepdims=True).astype(work)
    high = planes.max(axis=(-2, -1), keepdims=True).astype(work)
    flat = high == low
    scale = white / np.where(flat, 1, high - low)
    low, scale = np.where(flat, 0, low).astype(work), np.where(flat, 1, scale).astype(work)
    stretched: Array = np.clip((planes - low) * scale, 0, white).astype(planes.dtype)
    return stretched


def equalize(planes: Array) -> Array:
    """Equalizes the histogram of each uint8 channel. Raises TypeError for other dtypes."""
    if planes.dtype != np.uint8:
        raise TypeError(f"equalize takes uint8 images, got {planes.dtype}")
    flat = np.ascontiguousarray(planes).reshape(-1, planes.shape[-2] * planes.shape[-1])
    result = np.stack([_equalized(channel) for channel in flat]) if len(flat) else flat
    return result.reshape(planes.shape)


def _equalized(channel: Array) -> Array:
    counts = np.bincount(channel, minlength=256)
    nonzero = counts[counts != 0]
    step = int(nonzero[:-1].sum()) // 255
    if step == 0:
        return channel
    table = (np.cumsum(counts) + step // 2) // step
    table = np.clip(np.concatenate([[0], table[:-1]]), 0, 255)
    looked_up: Array = table.astype(np.uint8)[channel]
    return looked_up


def sharpened(planes: Array, factor: float) -> Array:
    """Blends planes with their blurred version: 0 blurs, 1 keeps, 2 sharpens. The border stays."""
    rows, columns = planes.shape[-2:]
    if rows <= 2 or columns <= 2:
        return planes
    work = _working(planes.dtype)
    blurred = planes.astype(work)
    windows = np.lib.stride_tricks.sliding_window_view(blurred, (3, 3), axis=(-2, -1))
    kernel = np.ones((3, 3), work)
    kernel[1, 1] = 5
    inner = np.einsum("...ij,ij->...", windows, kernel / kernel.sum())
    if planes.dtype.kind != "f":
        inner = np.rint(inner)
    blurred = planes.copy()
    blurred[..., 1:-1, 1:-1] = inner
    return blend(planes, blurred, factor)
