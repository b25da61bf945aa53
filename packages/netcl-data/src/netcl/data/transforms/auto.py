"""RandAugment and TrivialAugment: randomly chosen changes of an image, of given or random strength."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.transforms import draws
from netcl.data.transforms import functional as F
from netcl.data.transforms.classes import Fill, Interpolation, Transform
from netcl.data.transforms.images import InterpolationMode, interpolation_mode, is_pil

Array = npt.NDArray[Any]
# Strengths of a change by its bin, None for a change that has none, and True if their sign is drawn too.
Space = dict[str, tuple[Array | None, bool]]


def _moved(img: Any, x: int, y: int, shear: tuple[float, float], mode: InterpolationMode, fill: Any) -> Any:
    # About the corner of the image, as torchvision and the original code.
    return F.affine(img, 0.0, (x, y), 1.0, shear, mode, fill, (0, 0) if any(shear) else None)


def changed(img: Any, name: str, strength: float, mode: InterpolationMode, fill: Any) -> Any:
    """Returns the image after one change, by its name in the papers."""
    angle = math.degrees(math.atan(strength)) if name.startswith("Shear") else 0.0
    changes: dict[str, Callable[[], Any]] = {
        "Identity": lambda: img,
        "ShearX": lambda: _moved(img, 0, 0, (angle, 0.0), mode, fill),
        "ShearY": lambda: _moved(img, 0, 0, (0.0, angle), mode, fill),
        "TranslateX": lambda: _moved(img, int(strength), 0, (0.0, 0.0), mode, fill),
        "TranslateY": lambda: _moved(img, 0, int(strength), (0.0, 0.0), mode, fill),
        "Rotate": lambda: F.rotate(img, strength, mode, fill=fill),
        "Brightness": lambda: F.adjust_brightness(img, 1.0 + strength),
        "Color": lambda: F.adjust_saturation(img, 1.0 + strength),
        "Contrast": lambda: F.adjust_contrast(img, 1.0 + strength),
        "Sharpness": lambda: F.adjust_sharpness(img, 1.0 + strength),
        "Posterize": lambda: F.posterize(img, int(strength)),
        "Solarize": lambda: F.solarize(img, strength),
        "AutoContrast": lambda: F.autocontrast(img),
        "Equalize": lambda: F.equalize(img),
    }
    return changes[name]()


Steps = Callable[[float, float], Array]


def _space(
    bins: int,
    shear: float,
    across: float,
    down: float,
    turn: float,
    factor: float,
    bits: int,
    thresholds: Callable[[Steps], Array],
) -> Space:
    # Numbers of torch.linspace: a step in float32, the second half counted from the end, one rounding for each.
    def steps(last: float, first: float = 0.0) -> Array:
        start, end = np.float32(first), np.float32(last)
        step, at = float((end - start) / np.float32(bins - 1)), np.arange(bins)
        counted = np.where(at < bins // 2, float(start) + step * at, float(end) - step * (bins - 1 - at))
        return counted.astype(np.float32)

    lost = np.rint((np.arange(bins) / np.float32((bins - 1) / bits)).astype(np.float32))
    factors = steps(factor)
    return {
        "Identity": (None, False),
        "ShearX": (steps(shear), True),
        "ShearY": (steps(shear), True),
        "TranslateX": (steps(across), True),
        "TranslateY": (steps(down), True),
        "Rotate": (steps(turn), True),
        "Brightness": (factors, True),
        "Color": (factors, True),
        "Contrast": (factors, True),
        "Sharpness": (factors, True),
        "Posterize": (8 - lost, False),
        "Solarize": (thresholds(steps), False),
        "AutoContrast": (None, False),
        "Equalize": (None, False),
    }


class Chosen(Transform):
    """Base class: draws changes and their strengths, then applies them."""

    def __init__(self, bins: int, interpolation: Interpolation, fill: Fill | None) -> None:
        if bins < 2:
            raise ValueError(f"num_magnitude_bins must be at least 2, got {bins!r}")
        self.num_magnitude_bins: int = bins
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.fill: Fill | None = fill

    def thresholds(self, steps: Steps) -> Array:
        """Returns the thresholds of Solarize by bins, from white to black."""
        return steps(0.0, 255.0)

    def sign(self) -> float:
        """Returns 1 or -1, drawn as torchvision's transforms draw it."""
        return -1.0 if draws.current().integer(0, 2) else 1.0

    def one(self, space: Space, at: int | None) -> tuple[str, float]:
        """Draws a change of the space, of the strength in bin ``at``, or in a drawn one for None."""
        source = draws.current()
        name = list(space)[source.integer(0, len(space))]
        strengths, signed = space[name]
        if strengths is None:
            return name, 0.0
        strength = float(strengths[source.integer(0, len(strengths)) if at is None else at])
        return name, strength * self.sign() if signed else strength

    def apply(self, img: Any, drawn: Any) -> Any:
        fill: Any = self.fill
        if fill is not None and not is_pil(img):
            values = [fill] * F.get_image_num_channels(img) if isinstance(fill, (int, float)) else fill
            fill = [float(value) for value in values]
        for name, strength in drawn:
            img = changed(img, name, strength, self.interpolation, fill)
        return img


class RandAugment(Chosen, shown=("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")):
    """Applies ``num_ops`` random changes of the strength in bin ``magnitude`` of ``num_magnitude_bins`` (Cubuk et al.
    2020, arXiv:1909.13719). For PIL images and uint8.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Interpolation = InterpolationMode.NEAREST,
        fill: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(num_magnitude_bins, interpolation, fill)
        if not 0 <= magnitude < num_magnitude_bins:
            raise ValueError(f"magnitude must be in [0, {num_magnitude_bins}), got {magnitude!r}")
        self.num_ops: int = num_ops
        self.magnitude: int = magnitude

    def draw(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        moves = (150.0 / 331.0 * width, 150.0 / 331.0 * height)
        space = _space(self.num_magnitude_bins, 0.3, *moves, 30.0, 0.9, 4, self.thresholds)
        return [self.one(space, self.magnitude) for _ in range(self.num_ops)]


class TrivialAugmentWide(Chosen, shown=("num_magnitude_bins", "interpolation", "fill")):
    """Applies one random change of a random strength out of ``num_magnitude_bins`` (Mueller and Hutter 2021,
    arXiv:2103.10158). For PIL images and uint8.
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Interpolation = InterpolationMode.NEAREST,
        fill: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(num_magnitude_bins, interpolation, fill)

    def draw(self, img: Any) -> Any:
        space = _space(self.num_magnitude_bins, 0.99, 32.0, 32.0, 135.0, 0.99, 6, self.thresholds)
        return [self.one(space, None)]
