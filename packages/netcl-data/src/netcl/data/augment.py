"""Augmentations of image batches in NumPy: random erasing, cutout, color jitter, mixup and CutMix."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.filters import Array, Change, Filter, check_probability
from netcl.data.sample_random import RandomSource, source_or_fresh

__all__ = ["PairFilter", "color_jitter", "cutmix", "cutout", "mixup", "random_erase"]

# Rec. 601 luma, as in torchvision's rgb_to_grayscale.
LUMA = np.array([0.2989, 0.587, 0.114])


def _inside(start: Array, size: Array, length: int) -> Array:
    """Boolean (n, length): start[i] <= position < start[i] + size[i]."""
    position = np.arange(length)
    inside: Array = (position >= start[:, None]) & (position < (start + size)[:, None])
    return inside


def _erase(x: Array, top: Array, left: Array, height: Array, width: Array, value: float) -> Array:
    """Returns ``x`` (N, C, H, W) with box i of image i set to ``value``; the boxes (n,) may reach over the border."""
    if x.dtype.kind in "iu" and not (value.is_integer() and np.iinfo(x.dtype).min <= value <= np.iinfo(x.dtype).max):
        raise ValueError(f"value={value} does not fit into images of dtype {x.dtype}")
    box = _inside(top, height, x.shape[2])[:, None, :, None] & _inside(left, width, x.shape[3])[:, None, None, :]
    return np.where(box, np.asarray(value, x.dtype), x)


def _factor(uniform: Array, strength: float) -> Array:
    """Maps uniform numbers of [0, 1) to factors in [max(0, 1 - strength), 1 + strength)."""
    low = max(0.0, 1.0 - strength)
    factor: Array = uniform.dtype.type(low) + uniform * uniform.dtype.type(1.0 + strength - low)
    return factor


def _gray(images: Array) -> Array:
    """(N, C, H, W) -> (N, 1, H, W): the luma of three channels, else the mean of the channels."""
    if images.shape[1] != 3:
        mean: Array = images.mean(axis=1, keepdims=True)
        return mean
    luma: Array = np.einsum("nchw,c->nhw", images, LUMA.astype(images.dtype))
    return luma[:, None]


class PairFilter(ABC):
    """A function of images (N, C, H, W) and their labels that returns new images and label probabilities (N, K).

    Labels are class ids (N,), which need ``num_classes``, or probabilities (N, K). All samples of a batch share one
    mixing weight.
    """

    alpha: float
    num_classes: int | None

    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, rng: RandomSource | None = None
    ) -> tuple[Array, npt.NDArray[np.float32]]:
        source, name = source_or_fresh(rng), type(self).__name__.lower()
        images, labels = np.asarray(x), self._probabilities(np.asarray(y), name)
        if images.ndim != 4 or images.dtype.kind != "f":
            raise ValueError(
                f"{name} takes floating images (N, C, H, W), got {images.dtype} {images.shape}; put to_float before it"
            )
        if len(images) != len(labels):
            raise ValueError(f"{name}: {len(images)} images and {len(labels)} labels")
        partner = np.argsort(source.random((len(images), 1))[:, 0], kind="stable")
        mixed, weight = self.mix(images, partner, source.beta(self.alpha, self.alpha), source)
        own = np.float32(weight)
        return mixed, (own * labels + (np.float32(1) - own) * labels[partner]).astype(np.float32, copy=False)

    @abstractmethod
    def mix(self, x: Array, partner: Array, weight: float, rng: RandomSource) -> tuple[Array, float]:
        """Returns the images mixed with ``x[partner]``, and the weight of the original image in the result."""

    def _probabilities(self, y: Array, name: str) -> npt.NDArray[np.float32]:
        if y.ndim == 2 and y.dtype.kind == "f":
            return y.astype(np.float32)
        if y.ndim != 1 or y.dtype.kind not in "iu":
            raise ValueError(f"{name} takes class ids (N,) or probabilities (N, K), got {y.dtype} {y.shape}")
        if self.num_classes is None:
            raise ValueError(f"{name} of class ids needs their number: {name}(alpha, num_classes=K)")
        if y.size and not 0 <= int(y.min()) <= int(y.max()) < self.num_classes:
            raise ValueError(f"{name}: labels {y.min()} to {y.max()} are outside of [0, {self.num_classes})")
        return np.eye(self.num_classes, dtype=np.float32)[y]


@dataclass(frozen=True)
class Mixup(PairFilter):
    """See ``mixup``."""

    alpha: float
    num_classes: int | None

    def mix(self, x: Array, partner: Array, weight: float, rng: RandomSource) -> tuple[Array, float]:
        own = x.dtype.type(weight)
        return own * x + (x.dtype.type(1) - own) * x[partner], weight


@dataclass(frozen=True)
class CutMix(PairFilter):
    """See ``cutmix``."""

    alpha: float
    num_classes: int | None

    def mix(self, x: Array, partner: Array, weight: float, rng: RandomSource) -> tuple[Array, float]:
        rows, columns = x.shape[2:]
        side = math.sqrt(1.0 - weight)
        height, width = round(rows * side), round(columns * side)
        # One box per batch, centred anywhere. It is cropped at the border, so the weight is computed from the cropped
        # box.
        down, right = (np.modf(rng.random((len(x), 2)).sum(axis=0))[0] if len(x) else np.zeros(2)).tolist()
        top, left = int(down * rows) - height // 2, int(right * columns) - width // 2
        low_row, high_row = max(top, 0), min(top + height, rows)
        low_column, high_column = max(left, 0), min(left + width, columns)
        result = x.copy()
        result[:, :, low_row:high_row, low_column:high_column] = x[partner, :, low_row:high_row, low_column:high_column]
        lost = max(0, high_row - low_row) * max(0, high_column - low_column)
        return result, 1.0 - lost / max(1, rows * columns)


def random_erase(
    p: float = 0.5,
    *,
    scale: tuple[float, float] = (0.02, 0.33),
    ratio: tuple[float, float] = (0.3, 3.3),
    value: float = 0.0,
) -> Filter:
    """Sets a random box of an image to ``value`` with probability ``p`` (Zhong et al. 2017, arXiv:1708.04896).

    ``scale``: bounds of the box's area relative to the image; ``ratio``: bounds of height / width, drawn on a log
    scale.
    """
    if not 0 < scale[0] <= scale[1] <= 1 or not 0 < ratio[0] <= ratio[1]:
        raise ValueError(f"random_erase: need 0 < scale <= 1 and 0 < ratio, in order, got {scale} and {ratio}")
    return Change(_random_erase, (check_probability(p, "random_erase"), scale, ratio, float(value)))


def _random_erase(
    x: Array, rng: RandomSource, p: float, scale: tuple[float, float], ratio: tuple[float, float], value: float
) -> Array:
    rows, columns = x.shape[2:]
    chosen, area, aspect, down, right = rng.random((len(x), 5)).T
    area = (scale[0] + area * (scale[1] - scale[0])) * rows * columns
    low, high = np.log(ratio)
    aspect = np.exp(low + aspect * (high - low))
    height = np.clip(np.rint(np.sqrt(area * aspect)), 1, rows).astype(np.int64)
    width = np.clip(np.rint(np.sqrt(area / aspect)), 1, columns).astype(np.int64)
    height = np.where(chosen < p, height, 0)
    top = (down * (rows - height + 1)).astype(np.int64)
    left = (right * (columns - width + 1)).astype(np.int64)
    return _erase(x, top, left, height, width, value)


def cutout(size: int = 8, *, value: float = 0.0) -> Filter:
    """Sets a square of ``size`` pixels, centred anywhere in the image, to ``value`` (DeVries, Taylor 2017,
    arXiv:1708.04552)."""
    if size < 1:
        raise ValueError(f"cutout: size must be at least 1, got {size!r}")
    return Change(_cutout, (int(size), float(value)))


def _cutout(x: Array, rng: RandomSource, size: int, value: float) -> Array:
    centre = (rng.random((len(x), 2)) * x.shape[2:]).astype(np.int64)
    side = np.full(len(x), size)
    return _erase(x, centre[:, 0] - size // 2, centre[:, 1] - size // 2, side, side, value)


def color_jitter(brightness: float = 0.2, contrast: float = 0.2, saturation: float = 0.0) -> Filter:
    """Scales brightness, contrast (about the mean grey) and saturation (about the grey image), in this order.

    Each factor is uniform in [max(0, 1 - s), 1 + s) per image. Integer images are rounded and clipped to their dtype;
    floating ones are not clipped, so that normalised images keep their range.
    """
    for name, strength in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
        if not strength >= 0:
            raise ValueError(f"color_jitter: {name} must be >= 0, got {strength!r}")
    return Change(_color_jitter, (float(brightness), float(contrast), float(saturation)))


def _color_jitter(x: Array, rng: RandomSource, brightness: float, contrast: float, saturation: float) -> Array:
    channels = x.shape[1]
    if saturation and channels not in (1, 3):
        raise ValueError(f"color_jitter: saturation needs images of 1 or 3 channels, got {channels}")
    integers = x.dtype.kind in "iu"
    images = x.astype(np.float32) if integers else x
    # Always draws three factors: switching one effect off must not change the others.
    factors = rng.random((len(x), 3)).astype(images.dtype)[:, :, None, None, None]
    if brightness:
        images = images * _factor(factors[:, 0], brightness)
    if contrast:
        mean = _gray(images).mean(axis=(1, 2, 3), keepdims=True)
        images = mean + (images - mean) * _factor(factors[:, 1], contrast)
    if saturation and channels == 3:
        gray = _gray(images)
        images = gray + (images - gray) * _factor(factors[:, 2], saturation)
    if not integers:
        return images.copy() if images is x else images
    limits = np.iinfo(x.dtype)
    clipped: Array = np.clip(np.rint(images), limits.min, limits.max).astype(x.dtype)
    return clipped


def _check_mixing(name: str, alpha: Any, num_classes: int | None) -> tuple[float, int | None]:
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < math.inf:
        raise ValueError(f"{name}(alpha, num_classes) makes an augmentation: alpha must be a positive number")
    if num_classes is not None and num_classes < 1:
        raise ValueError(f"{name}: num_classes must be at least 1, got {num_classes!r}")
    return float(alpha), num_classes


def mixup(alpha: float = 0.2, num_classes: int | None = None) -> PairFilter:
    """Mixes images and labels as w x + (1 - w) x' with w ~ Beta(alpha, alpha) (Zhang et al. 2018, arXiv:1710.09412)."""
    return Mixup(*_check_mixing("mixup", alpha, num_classes))


def cutmix(alpha: float = 1.0, num_classes: int | None = None) -> PairFilter:
    """Replaces a box of each image by the same box of another image and mixes the labels by area (Yun et al. 2019,
    arXiv:1905.04899).
    """
    return CutMix(*_check_mixing("cutmix", alpha, num_classes))
