"""Crops, padding, affine maps and blur on planes (..., C, H, W)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.transforms.images import InterpolationMode

Array = npt.NDArray[Any]

# PyTorch's names of the modes of padding, and NumPy's.
PADDING_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}


def filled(fill: Any, channels: int, dtype: np.dtype[Any]) -> Array:
    """Returns a fill value, one number or one per channel, as an array (C, 1, 1). Raises ValueError for another number
    of values.
    """
    values = np.atleast_1d(np.asarray(0 if fill is None else fill))
    if values.ndim != 1 or len(values) not in (1, channels):
        raise ValueError(f"fill must be one number or one for each of the {channels} channels, got {fill!r}")
    return np.broadcast_to(values, (channels,)).astype(dtype).reshape(channels, 1, 1)


def pad(planes: Array, left: int, top: int, right: int, bottom: int, fill: Any, mode: str) -> Array:
    """Pads rows and columns; negative amounts crop, with mode "constant" only."""
    if mode not in PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {', '.join(PADDING_MODES)}, got {mode!r}")
    if mode == "constant":
        rows, columns = planes.shape[-2:]
        return _window(planes, -top, -left, rows + top + bottom, columns + left + right, fill)
    if min(left, top, right, bottom) < 0:
        raise ValueError(f"padding_mode={mode!r} takes no negative padding, got {(left, top, right, bottom)}")
    before = [(0, 0)] * (planes.ndim - 2)
    return np.pad(planes, [*before, (top, bottom), (left, right)], mode=PADDING_MODES[mode])  # type: ignore[call-overload, no-any-return]


def crop(planes: Array, top: int, left: int, height: int, width: int) -> Array:
    """Returns a window; its pixels outside of the image are 0."""
    return _window(planes, top, left, height, width, 0)


def _window(planes: Array, top: int, left: int, height: int, width: int, fill: Any) -> Array:
    rows, columns = planes.shape[-2:]
    if height < 0 or width < 0:
        raise ValueError(f"a window of {height} x {width} is cut from an image of {rows} x {columns}")
    down, up = slice(max(top, 0), min(top + height, rows)), slice(max(left, 0), min(left + width, columns))
    inner = planes[..., down, up]
    if inner.shape[-2:] == (height, width):
        copied: Array = inner.copy()
        return copied
    value = filled(fill, planes.shape[-3], planes.dtype)
    made = np.empty((*planes.shape[:-2], height, width), planes.dtype)
    made[...] = value
    at_row, at_column = down.start - top, up.start - left
    if inner.size:
        made[..., at_row : at_row + inner.shape[-2], at_column : at_column + inner.shape[-1]] = inner
    return made


def affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """Returns the six numbers of the map from output to input pixels, about ``center``, for a turn by ``angle``
    (degrees, clockwise), a translation, a scale and shears in x and y (degrees).

    The forward map is M = T C R S X Y C^-1: translation, center, rotation, scale, shears.
    """
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    (center_x, center_y), (move_x, move_y) = center, translate
    # The rotation times both shears.
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    # Its determinant is 1, so the inverse needs no division but the one by the scale.
    matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    matrix[2] = matrix[0] * (-center_x - move_x) + matrix[1] * (-center_y - move_y) + center_x
    matrix[5] = matrix[3] * (-center_x - move_x) + matrix[4] * (-center_y - move_y) + center_y
    return matrix


def expanded_size(matrix: Sequence[float], width: int, height: int) -> tuple[int, int]:
    """Returns (width, height) of the smallest image that holds a whole image after the map ``matrix``."""
    corners = np.array([(x * width, y * height, 1.0) for x in (-0.5, 0.5) for y in (-0.5, 0.5)], np.float32)
    moved = corners @ np.array(matrix, np.float32).reshape(2, 3).T
    half = np.array([width * 0.5, height * 0.5], np.float32)
    # Steps of 1e-4 hide the rounding of a quarter turn.
    step = np.float32(1e-4)
    low = np.floor(np.trunc((moved.min(axis=0) + half) / step) * step)
    high = np.ceil(np.trunc((moved.max(axis=0) + half) / step) * step)
    size = (high - low).astype(np.int64)
    return int(size[0]), int(size[1])


def perspective_coefficients(
    startpoints: Sequence[Sequence[float]], endpoints: Sequence[Sequence[float]]
) -> list[float]:
    """Returns the eight numbers of the projective map from the four ``endpoints`` (x, y) to the ``startpoints``."""
    rows, values = [], []
    for (from_x, from_y), (x, y) in zip(startpoints, endpoints):
        rows.append([x, y, 1, 0, 0, 0, -from_x * x, -from_x * y])
        rows.append([0, 0, 0, x, y, 1, -from_y * x, -from_y * y])
        values += [from_x, from_y]
    solved = np.linalg.lstsq(np.array(rows, float), np.array(values, float), rcond=None)[0]
    return [float(value) for value in solved.astype(np.float32)]


def warp(
    planes: Array,
    coefficients: Sequence[float],
    size: tuple[int, int],
    mode: InterpolationMode,
    fill: Any,
) -> Array:
    """Returns planes (..., C, *size) with pixel (x, y), counted from the center, read at the position that an affine
    (six) or projective (eight coefficients) map gives; ``fill`` outside.

    A projective map counts from the corner of the pixel (0, 0), at (0.5, 0.5), as Pillow does.

    Raises:
        ValueError: ``mode`` is neither nearest nor bilinear.
    """
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(f"expected nearest or bilinear interpolation of arrays, got {mode.value!r}")
    rows, columns = planes.shape[-2:]
    height, width = size
    if len(coefficients) == 6:
        a, b, c, d, e, f = coefficients
        x, y = np.arange(width) - (width - 1) / 2, (np.arange(height) - (height - 1) / 2)[:, None]
        at_x, at_y = a * x + b * y + c + (columns - 1) / 2, d * x + e * y + f + (rows - 1) / 2
    else:
        a, b, c, d, e, f, g, h = coefficients
        x, y = np.arange(width) + 0.5, (np.arange(height) + 0.5)[:, None]
        divisor = g * x + h * y + 1
        at_x, at_y = (a * x + b * y + c) / divisor - 0.5, (d * x + e * y + f) / divisor - 0.5
    value = filled(fill, planes.shape[-3], np.dtype(np.float64 if planes.dtype.itemsize == 8 else np.float32))
    if mode is InterpolationMode.NEAREST:
        picked, inside = _pixels(planes, np.rint(at_y), np.rint(at_x))
        return np.where(inside, picked, value.astype(planes.dtype))
    return _bilinear(planes, at_y, at_x, value, fill is not None)


def _pixels(planes: Array, row: Array, column: Array) -> tuple[Array, Array]:
    """The pixels (..., C, H, W) at whole positions (H, W), and a mask (H, W) of the positions inside of the image."""
    rows, columns = planes.shape[-2:]
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    down, right = (np.where(inside, at, 0).astype(np.int64) for at in (row, column))
    return planes[..., down, right], inside


def _bilinear(planes: Array, row: Array, column: Array, value: Array, fills: bool) -> Array:
    top, left = np.floor(row), np.floor(column)
    down, right = row - top, column - left
    total: Array = np.zeros((), value.dtype)
    covered: Array = np.zeros((), value.dtype)
    for step_y, share_y in ((0, 1 - down), (1, down)):
        for step_x, share_x in ((0, 1 - right), (1, right)):
            picked, inside = _pixels(planes, top + step_y, left + step_x)
            share = np.where(inside, share_y * share_x, 0).astype(value.dtype)
            total, covered = total + picked * share, covered + share
    # As torchvision: a pixel at the border, which has the zeros outside in it already, is mixed with the fill value.
    result = total * covered + (1 - covered) * value if fills else total
    if planes.dtype.kind == "f":
        return result.astype(planes.dtype)
    return np.rint(result).astype(planes.dtype)


def gaussian_blur(planes: Array, kernel_size: tuple[int, int], sigma: tuple[float, float]) -> Array:
    """Convolves with a Gaussian kernel of (columns, rows) pixels; the image is mirrored at its border, which is not
    repeated.
    """
    work = planes.dtype if planes.dtype.kind == "f" else np.dtype(np.float32)
    result = planes.astype(work, copy=False)
    for axis, size, width in ((-1, kernel_size[0], sigma[0]), (-2, kernel_size[1], sigma[1])):
        half = size // 2
        if half >= planes.shape[axis]:
            raise ValueError(
                f"gaussian_blur: a kernel of {size} pixels needs more than {half} pixels, got {planes.shape}"
            )
        position = np.arange(size) - (size - 1) * 0.5
        kernel = np.exp(-0.5 * (position / width) ** 2)
        kernel = (kernel / kernel.sum()).astype(work)
        amounts = [(0, 0)] * planes.ndim
        amounts[axis] = (half, half)
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(result, amounts, mode="reflect"), size, axis=axis)
        result = windows @ kernel
    if planes.dtype.kind == "f":
        return result
    return np.rint(result).astype(planes.dtype)
