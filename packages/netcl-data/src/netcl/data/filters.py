"""Vectorized filters of image batches in NumPy: conversion, normalization, flips and crops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.sample_random import RandomSource, source_or_fresh

__all__ = ["Filter", "apply_filters", "horizontal_flip", "normalize", "random_crop", "to_float"]

Array = npt.NDArray[Any]


class Filter(ABC):
    """A function of an image (C, H, W) or a batch of images (N, C, H, W) that returns a new array of the same rank.

    ``rng`` is a ``numpy.random.Generator``, a SampleRandom, or None for fresh random numbers. With a SampleRandom the
    result for an image does not depend on its batch. A subclass defines ``apply`` for batches.
    """

    def __call__(self, x: npt.ArrayLike, rng: RandomSource | None = None) -> Array:
        array = np.asarray(x)
        if array.ndim not in (3, 4):
            raise ValueError(f"{self._name} takes an image (C, H, W) or a batch (N, C, H, W), got shape {array.shape}")
        source = source_or_fresh(rng)
        return self.apply(array, source) if array.ndim == 4 else self.apply(array[None], source)[0]

    def on_batch(self, x: npt.ArrayLike, rng: RandomSource) -> Array:
        """Filters a batch only: raises for (N, H, W), which ``__call__`` would read as one image of N channels."""
        array = np.asarray(x)
        if array.ndim != 4:
            raise ValueError(f"{self._name} takes batches of images (N, C, H, W), got shape {array.shape}")
        return self.apply(array, rng)

    @abstractmethod
    def apply(self, x: Array, rng: RandomSource) -> Array:
        """Returns the batch (N, C, H, W) filtered; ``x`` is not changed."""

    @property
    def _name(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Change(Filter):
    """Filters by ``change(x, rng, *options)``, a function of a module."""

    change: Callable[..., Array]
    options: tuple[Any, ...]

    def apply(self, x: Array, rng: RandomSource) -> Array:
        return self.change(x, rng, *self.options)

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(map(repr, self.options))})"

    @property
    def _name(self) -> str:
        return self.change.__name__.lstrip("_")


def apply_filters(x: npt.ArrayLike, filters: Iterable[Callable[..., Any]], *, rng: RandomSource | None = None) -> Array:
    """Returns ``x`` passed through each filter in turn; a callable that is not a Filter gets the array only."""
    source = source_or_fresh(rng)
    array = np.asarray(x)
    for function in filters:
        array = np.asarray(function(array, source) if isinstance(function, Filter) else function(array))
    return array


def check_probability(p: float, name: str) -> float:
    """Returns ``p`` as a float. Raises ValueError if it is outside of [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: p must be in [0, 1], got {p!r}")
    return float(p)


class ToFloat(Filter):
    """Converts to float32; uint8 and uint16 are divided by their largest value, other dtypes keep their values. Any
    shape.
    """

    def __call__(self, x: npt.ArrayLike, rng: RandomSource | None = None) -> Array:
        return self.apply(np.asarray(x), source_or_fresh(rng))

    def on_batch(self, x: npt.ArrayLike, rng: RandomSource) -> Array:
        return self.apply(np.asarray(x), rng)

    def apply(self, x: Array, rng: RandomSource) -> Array:
        if x.dtype in (np.uint8, np.uint16):
            # A division, not a multiplication by the reciprocal: 255 becomes exactly 1.
            scaled: Array = np.divide(x, np.float32(np.iinfo(x.dtype).max), dtype=np.float32)
            return scaled
        return x.astype(np.float32)


to_float: Filter = ToFloat()


def normalize(mean: float | Sequence[float], std: float | Sequence[float]) -> Filter:
    """Computes (x - mean) / std, with one value for all channels or one per channel. Floating dtypes only; dtype kept.

    Raises:
        ValueError: a std is not positive; at the call: the number of values is not the number of channels.
    """
    means = tuple(np.atleast_1d(np.asarray(mean, np.float64)).tolist())
    stds = tuple(np.atleast_1d(np.asarray(std, np.float64)).tolist())
    if not all(value > 0 for value in stds):
        raise ValueError(f"normalize: std must be positive, got {std!r}")
    return Change(_normalize, (means, stds))


def _normalize(x: Array, rng: RandomSource, mean: tuple[float, ...], std: tuple[float, ...]) -> Array:
    if x.dtype.kind != "f":
        raise TypeError(f"normalize needs floating values, got {x.dtype}: put to_float before it")
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, x.shape[1]):
            raise ValueError(f"normalize: {name} has {len(values)} values, the images {x.shape[1]} channels")
    means, stds = (np.array(values, x.dtype).reshape(-1, 1, 1) for values in (mean, std))
    result: Array = (x - means) / stds
    return result


def horizontal_flip(p: float = 0.5) -> Filter:
    """Mirrors each image left to right with probability ``p``."""
    return Change(_horizontal_flip, (check_probability(p, "horizontal_flip"),))


def _horizontal_flip(x: Array, rng: RandomSource, p: float) -> Array:
    chosen = np.flatnonzero(rng.random((len(x), 1))[:, 0] < p)
    result: Array = x.copy()
    result[chosen] = x[chosen, :, :, ::-1]
    return result


def random_crop(padding: int = 4, crop_size: int | tuple[int, int] | None = None) -> Filter:
    """Pads with zeros on all four sides, then crops ``crop_size`` at a random position per image: an int, (H, W), or
    None for the size of the image before padding.
    """
    if crop_size is None:
        if padding < 0:
            raise ValueError(f"random_crop: padding must be >= 0, got {padding!r}")
        return Change(_random_crop, (int(padding), None, None))
    height, width = (crop_size, crop_size) if isinstance(crop_size, int) else crop_size
    if padding < 0 or height < 1 or width < 1:
        raise ValueError(f"random_crop: padding must be >= 0 and crop_size >= 1, got {padding!r} and {crop_size!r}")
    return Change(_random_crop, (int(padding), int(height), int(width)))


def _random_crop(x: Array, rng: RandomSource, pad: int, height: int | None, width: int | None) -> Array:
    height = int(x.shape[2]) if height is None else height
    width = int(x.shape[3]) if width is None else width
    free = (x.shape[2] + 2 * pad - height, x.shape[3] + 2 * pad - width)
    if min(free) < 0:
        raise ValueError(
            f"random_crop: a crop of {height} x {width} does not fit into images of "
            f"{x.shape[2]} x {x.shape[3]} padded by {pad}"
        )
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    offsets = (rng.random((len(x), 2)) * (np.array(free) + 1)).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    crops: Array = windows[np.arange(len(x)), :, offsets[:, 0], offsets[:, 1]]
    return np.ascontiguousarray(crops)
