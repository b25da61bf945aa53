"""Resizes planes in NumPy: by Pillow's convolution with antialiasing (uint8 bit for bit), or by PyTorch's interpolation
without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.transforms.images import InterpolationMode

Array = npt.NDArray[Any]
# Pillow stores the weights of 8-bit images with 32 - 8 - 2 bits of fraction.
_BITS = 22


def _triangle(x: Array) -> Array:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _cubic(a: float) -> Callable[[Array], Array]:
    """The cubic convolution kernel of Keys (1981) with the parameter ``a``."""

    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = (((x - 5.0) * x + 8.0) * x - 4.0) * a
        return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))

    return kernel


_FILTERS: dict[InterpolationMode, tuple[Callable[[Array], Array], float]] = {
    InterpolationMode.BILINEAR: (_triangle, 1.0),
    InterpolationMode.BICUBIC: (_cubic(-0.5), 2.0),
}


@lru_cache(maxsize=64)
def _antialiased(before: int, after: int, mode: InterpolationMode) -> tuple[Array, Array]:
    """The sources (after, taps) of each output position, and their weights, which are 0 outside of the input."""
    kernel, radius = _FILTERS[mode]
    scale = before / after
    stretch = max(scale, 1.0)
    support = radius * stretch
    center = (np.arange(after) + 0.5) * scale
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)
    count = np.minimum((center + support + 0.5).astype(np.int64), before) - first
    taps = np.arange(math.ceil(support) * 2 + 1)
    weights = kernel((taps + first[:, None] - center[:, None] + 0.5) * (1.0 / stretch))
    weights = np.where(taps < count[:, None], weights, 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.minimum(first[:, None] + taps, before - 1), weights


@lru_cache(maxsize=64)
def _interpolated(before: int, after: int, mode: InterpolationMode) -> tuple[Array, Array]:
    """The same without antialiasing: 2 or 4 neighbours, the border repeated."""
    center = (np.arange(after) + 0.5) * (before / after) - 0.5
    bilinear = mode is InterpolationMode.BILINEAR
    if bilinear:
        center = np.maximum(center, 0.0)
    offsets = np.arange(2) if bilinear else np.arange(-1, 3)
    # PyTorch's cubic filter without antialiasing has a = -0.75, the one with it -0.5, as Pillow.
    kernel = _triangle if bilinear else _cubic(-0.75)
    positions = np.floor(center).astype(np.int64)[:, None] + offsets
    return np.clip(positions, 0, before - 1), kernel(positions - center[:, None])


def _nearest(before: int, after: int, mode: InterpolationMode) -> Array:
    # In float32, as PyTorch computes it: an exact quotient would give other pixels at some sizes.
    shift = np.float32(0.5 if mode is InterpolationMode.NEAREST_EXACT else 0.0)
    positions = (np.arange(after, dtype=np.float32) + shift) * np.float32(before / after)
    sources: Array = np.minimum(positions.astype(np.int64), before - 1)
    return sources


def _along(planes: Array, axis: int, sources: Array, weights: Array) -> Array:
    """Sums the weighted sources along ``axis`` (-1 or -2); uint8 in Pillow's fixed point, else in float64."""
    integers = planes.dtype == np.uint8
    shape = (-1,) if axis == -1 else (-1, 1)
    if integers:
        scaled = weights * (1 << _BITS)
        # C's conversion to int cuts the fraction: half a unit away from zero first.
        parts = (scaled + np.where(scaled < 0, -0.5, 0.5)).astype(np.int32)
        total: Array = np.full((), 1 << (_BITS - 1), np.int32)
    else:
        parts, total = weights, np.zeros(())
    for tap in range(sources.shape[1]):
        if parts[:, tap].any():
            total = total + planes.take(sources[:, tap], axis=axis) * parts[:, tap].reshape(shape)
    if integers:
        total = np.clip(total >> _BITS, 0, 255)
    result: Array = total.astype(planes.dtype)
    return result


def resize_planes(planes: Array, height: int, width: int, mode: InterpolationMode, antialias: bool) -> Array:
    """Returns planes (..., H, W) as (..., height, width), of the same dtype.

    With ``antialias``, uint8 planes have Pillow's values and floating ones the values of Pillow's mode F, to rounding;
    other integers are computed in float64 and rounded.

    Raises:
        ValueError: ``mode`` is one of box, hamming and lanczos, or a size is not positive.
    """
    rows, columns = planes.shape[-2:]
    if height < 1 or width < 1:
        raise ValueError(f"resize: sizes must be positive, got {height} x {width}")
    if mode in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT):
        down, right = _nearest(rows, height, mode), _nearest(columns, width, mode)
        return planes.take(right, axis=-1).take(down, axis=-2)
    if mode not in _FILTERS:
        raise ValueError(f"resize: {mode.value!r} is for PIL images; arrays take nearest, bilinear or bicubic")
    if not antialias and planes.dtype == np.uint8:
        floats = resize_planes(planes.astype(np.float32), height, width, mode, antialias)
        return np.clip(np.rint(floats), 0, 255).astype(np.uint8)
    if planes.dtype.kind != "f" and planes.dtype != np.uint8:
        limits = np.iinfo(planes.dtype)
        floats = resize_planes(planes.astype(np.float64), height, width, mode, antialias)
        return np.clip(np.rint(floats), limits.min, limits.max).astype(planes.dtype)
    table = _antialiased if antialias else _interpolated
    axes = [(-1, columns, width), (-2, rows, height)]
    if width > columns and height < rows:
        # As Pillow 13: what shrinks goes first. Each pass rounds uint8, so the order shows.
        axes.reverse()
    for axis, before, after in axes:
        if after != before:
            planes = _along(planes, axis, *table(before, after, mode))
    return planes
