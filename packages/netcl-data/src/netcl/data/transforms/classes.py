"""The transforms as objects with torchvision's names, parameters, defaults and order of random numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from netcl.data.filters import check_probability
from netcl.data.transforms import draws
from netcl.data.transforms import functional as F
from netcl.data.transforms.images import InterpolationMode, interpolation_mode, is_pil, planes_of

Size = int | Sequence[int]
Fill = float | Sequence[float]
Interpolation = InterpolationMode | str | int
Transformation = Callable[[Any], Any]


class Transform:
    """A function of an image. ``draw`` draws the random numbers for an image, and ``apply`` changes an image by them.

    A subclass that is not random defines ``apply`` alone, or its class has the function ``by`` and the names of the
    attributes that are ``given`` to it; ``shown`` names the attributes of its ``repr``.
    """

    shown: ClassVar[tuple[str, ...]] = ()
    given: ClassVar[tuple[str, ...]] = ()
    by: ClassVar[Callable[..., Any] | None] = None

    def __init_subclass__(
        cls,
        by: Callable[..., Any] | None = None,
        given: tuple[str, ...] | None = None,
        shown: tuple[str, ...] | None = None,
        **options: Any,
    ) -> None:
        super().__init_subclass__(**options)
        constants = {"by": by if by is None else staticmethod(by), "given": given, "shown": shown}
        for name in constants:
            if constants[name] is not None:
                setattr(cls, name, constants[name])

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    def forward(self, img: Any, /) -> Any:
        """Returns the image changed by new random numbers."""
        return self.apply(img, self.draw(img))

    def draw(self, img: Any) -> Any:
        """Returns what ``apply`` needs besides the image; None for a transform that is not random."""
        return None

    def apply(self, img: Any, drawn: Any) -> Any:
        """Returns the image changed by what ``draw`` has returned."""
        if self.by is None:
            raise TypeError(f"{type(self).__name__} must define apply(img, drawn), or forward(img)")
        return self.by(img, *(getattr(self, name) for name in self.given))

    def __repr__(self) -> str:
        values = (getattr(self, name) for name in self.shown)
        texts = (value.value if isinstance(value, InterpolationMode) else str(value) for value in values)
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in zip(self.shown, texts))})"


def _lines(name: str, transforms: Sequence[Any], first: str = "") -> str:
    return "\n".join([f"{name}({first}", *(f"    {transform}" for transform in transforms), ")"])


def _callables(transforms: Any, name: str) -> list[Transformation]:
    """Returns the transforms as a list. Raises TypeError if one cannot be called."""
    made: list[Any] = list(transforms) if hasattr(transforms, "__iter__") else [transforms]
    if not hasattr(transforms, "__iter__") or not all(callable(transform) for transform in made):
        raise TypeError(f"{name} takes a sequence of transforms, got {transforms!r}")
    return made


class Compose:
    """Applies transforms one after the other.

    Example:
        >>> from netcl.data.transforms import CenterCrop, Compose, ToTensor
        >>> Compose([CenterCrop(2), ToTensor()])(np.zeros((4, 4, 3), np.uint8)).shape
        (3, 2, 2)
    """

    def __init__(self, transforms: Sequence[Transformation]) -> None:
        self.transforms: list[Transformation] = _callables(transforms, "Compose")

    def __call__(self, img: Any, /) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines("Compose", self.transforms)


class ToTensor(Transform, by=F.to_tensor):
    """Converts a PIL image or an array (H, W, C) to planes (C, H, W): uint8 becomes float32 in [0, 1]."""


class PILToTensor(Transform, by=F.pil_to_tensor):
    """Converts a PIL image to planes (C, H, W) of its own dtype."""


class ToPILImage(Transform, by=F.to_pil_image, given=("mode",)):
    """Converts planes (C, H, W), or an array of integers (H, W, C), to a PIL image; see ``functional.to_pil_image``."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode: str | None = mode

    def __repr__(self) -> str:
        return f"ToPILImage({'' if self.mode is None else f'mode={self.mode}'})"


class ConvertImageDtype(Transform, by=F.convert_image_dtype, given=("dtype",)):
    """Converts planes to another dtype; white stays white."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype: npt.DTypeLike = dtype


class Normalize(Transform, shown=("mean", "std"), by=F.normalize, given=("mean", "std", "inplace")):
    """Computes (x - mean) / std per channel of floating planes."""

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False) -> None:
        self.mean: Sequence[float] | float = mean
        self.std: Sequence[float] | float = std
        self.inplace: bool = inplace


def _checked_size(size: Any, name: str) -> Any:
    if isinstance(size, (int, np.integer)) or (isinstance(size, Sequence) and len(size) in (1, 2)):
        return size
    raise ValueError(f"{name}: size must be an int or a sequence of one or two ints, got {size!r}")


class Resize(
    Transform,
    shown=("size", "interpolation", "max_size", "antialias"),
    by=F.resize,
    given=("size", "interpolation", "max_size", "antialias"),
):
    """Resizes to ``size``: (H, W), or an int for the shorter side; see ``functional.resize``."""

    def __init__(
        self,
        size: Size,
        interpolation: Interpolation = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        self.size: Size = _checked_size(size, type(self).__name__)
        self.max_size: int | None = max_size
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.antialias: bool | None = antialias


def _window(size: Any, name: str) -> tuple[int, int]:
    """Returns (height, width) of a size."""
    checked = _checked_size(size, name)
    pair = (checked, checked) if isinstance(checked, (int, np.integer)) else (checked[0], checked[-1])
    return int(pair[0]), int(pair[1])


class CenterCrop(Transform, shown=("size",), by=F.center_crop, given=("size",)):
    """Cuts the window ``size`` about the center; a smaller image is padded with 0."""

    def __init__(self, size: Size) -> None:
        self.size: tuple[int, int] = _window(size, "CenterCrop")


class Pad(Transform, shown=("padding", "fill", "padding_mode"), by=F.pad, given=("padding", "fill", "padding_mode")):
    """Adds rows and columns on all sides; see ``functional.pad``."""

    def __init__(self, padding: Size, fill: Fill = 0, padding_mode: str = "constant") -> None:
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"padding_mode must be constant, edge, reflect or symmetric, got {padding_mode!r}")
        if not isinstance(padding, (int, np.integer)) and len(padding) not in (1, 2, 4):
            raise ValueError(f"padding must be an int or a sequence of 1, 2 or 4 ints, got {padding!r}")
        self.padding: Size = padding
        self.fill: Fill = fill
        self.padding_mode: str = padding_mode


class Lambda(Transform):
    """Applies a function."""

    def __init__(self, lambd: Transformation) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda takes a function, got {lambd!r}")
        self.lambd: Transformation = lambd

    def apply(self, img: Any, drawn: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomTransforms:
    """Base class of a list of transforms that are applied at random."""

    def __init__(self, transforms: Sequence[Transformation]) -> None:
        self.transforms: list[Transformation] = _callables(transforms, type(self).__name__)

    def __call__(self, img: Any, /) -> Any:
        raise TypeError(f"{type(self).__name__} must define __call__(img)")

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms)


class RandomApply(RandomTransforms):
    """Applies all of the transforms with probability ``p``, else none."""

    def __init__(self, transforms: Sequence[Transformation], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p: float = p

    def __call__(self, img: Any, /) -> Any:
        if self.p < draws.current().chance():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines(type(self).__name__, self.transforms, f"\n    p={self.p}")


class RandomOrder(RandomTransforms):
    """Applies the transforms in a random order, drawn by ``random``."""

    def __call__(self, img: Any, /) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for at in order:
            img = self.transforms[at](img)
        return img


class RandomChoice(RandomTransforms):
    """Applies one of the transforms, drawn by ``random`` with the weights ``p``, all equal if None."""

    def __init__(self, transforms: Sequence[Transformation], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        self.p: Sequence[float] | None = p

    def __call__(self, img: Any, /) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](img)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class RandomCrop(Transform, shown=("size", "padding")):
    """Cuts the window ``size`` at a random position, after padding.

    ``pad_if_needed`` pads an image that is smaller than the window on both sides.

    Raises:
        ValueError: at the call, the padded image is smaller than the window.
    """

    def __init__(
        self,
        size: Size,
        padding: Size | None = None,
        pad_if_needed: bool = False,
        fill: Fill = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size: tuple[int, int] = _window(size, "RandomCrop")
        self.padding: Size | None = padding
        self.pad_if_needed: bool = pad_if_needed
        self.fill: Fill = fill
        self.padding_mode: str = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Returns (top, left, height, width) of a random window."""
        _, rows, columns = F.get_dimensions(img)
        height, width = output_size
        if rows < height or columns < width:
            raise ValueError(f"RandomCrop: a window of {height} x {width} is larger than the image, {rows} x {columns}")
        if (rows, columns) == (height, width):
            return 0, 0, rows, columns
        source = draws.current()
        top = source.integer(0, rows - height + 1)
        return top, source.integer(0, columns - width + 1), height, width

    def padded(self, img: Any) -> Any:
        """Returns the image padded as a window is cut from it."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, rows, columns = F.get_dimensions(img)
        if self.pad_if_needed and columns < self.size[1]:
            img = F.pad(img, [self.size[1] - columns, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and rows < self.size[0]:
            img = F.pad(img, [0, self.size[0] - rows], self.fill, self.padding_mode)
        return img

    def draw(self, img: Any) -> Any:
        return self.get_params(self.padded(img), self.size)

    def apply(self, img: Any, drawn: Any) -> Any:
        return F.crop(self.padded(img), *drawn)


class _WithProbability(Transform, shown=("p",)):
    """Base class of changes that are made with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        self.p: float = check_probability(p, type(self).__name__)

    def draw(self, img: Any) -> Any:
        return draws.current().chance() < self.p

    def apply(self, img: Any, drawn: Any) -> Any:
        return super().apply(img, None) if drawn else img


class RandomHorizontalFlip(_WithProbability, by=F.hflip):
    """Mirrors left to right with probability ``p``."""


class RandomVerticalFlip(RandomHorizontalFlip, by=F.vflip):
    """Mirrors top to bottom with probability ``p``."""


class RandomResizedCrop(Transform, shown=("size", "scale", "ratio", "interpolation", "antialias")):
    """Cuts a window of random area and aspect ratio and resizes it to ``size``.

    ``scale``: bounds of the area relative to the image; ``ratio``: bounds of width / height, drawn on a log scale.
    """

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        self.size: tuple[int, int] = _window(size, "RandomResizedCrop")
        for name, bounds in (("scale", scale), ("ratio", ratio)):
            if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:
                raise ValueError(f"RandomResizedCrop: {name} must be (low, high), got {bounds!r}")
        self.scale: Sequence[float] = scale
        self.ratio: Sequence[float] = ratio
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.antialias: bool | None = antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Returns (top, left, height, width) of a random window; of the largest central one with a ratio in the bounds
        if ten drawn windows do not fit.
        """
        _, rows, columns = F.get_dimensions(img)
        source = draws.current()
        low, high = math.log(ratio[0]), math.log(ratio[1])
        for _ in range(10):
            area = rows * columns * source.uniform(scale[0], scale[1])
            aspect = math.exp(source.uniform(low, high))
            width, height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < width <= columns and 0 < height <= rows:
                top = source.integer(0, rows - height + 1)
                return top, source.integer(0, columns - width + 1), height, width
        whole = columns / rows
        width, height = columns, rows
        if whole < min(ratio):
            height = round(width / min(ratio))
        elif whole > max(ratio):
            width = round(height * max(ratio))
        return (rows - height) // 2, (columns - width) // 2, height, width

    def draw(self, img: Any) -> Any:
        return self.get_params(img, self.scale, self.ratio)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(bound, 4) for bound in bounds) for bounds in (self.scale, self.ratio))
        last = f"interpolation={self.interpolation.value}, antialias={self.antialias}"
        return f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, {last})"

    def apply(self, img: Any, drawn: Any) -> Any:
        top, left, height, width = drawn
        return F.resized_crop(img, top, left, height, width, self.size, self.interpolation, self.antialias)


def _jitter_bounds(value: Any, name: str, center: float, low: float, high: float) -> tuple[float, float] | None:
    """Returns the bounds of a factor from a strength or from (low, high); None if they keep the image."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"ColorJitter: {name} must be at least 0, got {value!r}")
        bounds = (center - value, center + value)
        if name != "hue":
            bounds = (max(bounds[0], 0.0), bounds[1])
    elif isinstance(value, Sequence) and len(value) == 2:
        bounds = (float(value[0]), float(value[1]))
    else:
        raise TypeError(f"ColorJitter: {name} must be a number or (low, high), got {value!r}")
    if not low <= bounds[0] <= bounds[1] <= high:
        raise ValueError(f"ColorJitter: the factors of {name} must be in [{low}, {high}], got {bounds}")
    return None if bounds[0] == bounds[1] == center else bounds


class ColorJitter(Transform, shown=("brightness", "contrast", "saturation", "hue")):
    """Changes brightness, contrast, saturation and hue in random order, by factors of [max(0, 1 - s), 1 + s] for a
    strength s, or of the given (low, high); hue by a shift of [-s, s] turns, s at most 0.5.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] | None = 0,
        contrast: float | Sequence[float] | None = 0,
        saturation: float | Sequence[float] | None = 0,
        hue: float | Sequence[float] | None = 0,
    ) -> None:
        self.brightness: tuple[float, float] | None = _jitter_bounds(brightness, "brightness", 1, 0, math.inf)
        self.contrast: tuple[float, float] | None = _jitter_bounds(contrast, "contrast", 1, 0, math.inf)
        self.saturation: tuple[float, float] | None = _jitter_bounds(saturation, "saturation", 1, 0, math.inf)
        self.hue: tuple[float, float] | None = _jitter_bounds(hue, "hue", 0, -0.5, 0.5)

    @staticmethod
    def get_params(
        brightness: Sequence[float] | None,
        contrast: Sequence[float] | None,
        saturation: Sequence[float] | None,
        hue: Sequence[float] | None,
    ) -> tuple[list[int], float | None, float | None, float | None, float | None]:
        """Returns the order of the four changes and their factors, None for a change that is off."""
        source = draws.current()
        order = source.permutation(4)
        factors = [
            None if bounds is None else source.uniform(bounds[0], bounds[1])
            for bounds in (brightness, contrast, saturation, hue)
        ]
        return order, factors[0], factors[1], factors[2], factors[3]

    def draw(self, img: Any) -> Any:
        return self.get_params(self.brightness, self.contrast, self.saturation, self.hue)

    def apply(self, img: Any, drawn: Any) -> Any:
        order, *factors = drawn
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for at in order:
            if factors[at] is not None:
                img = changes[at](img, factors[at])
        return img


class Grayscale(Transform, shown=("num_output_channels",), by=F.rgb_to_grayscale, given=("num_output_channels",)):
    """Converts to gray, in 1 or 3 equal channels."""

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels: int = num_output_channels


class RandomGrayscale(_WithProbability):
    """Converts to gray with probability ``p``; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def apply(self, img: Any, drawn: Any) -> Any:
        return F.rgb_to_grayscale(img, F.get_image_num_channels(img)) if drawn else img


def _angles(degrees: Any, name: str) -> tuple[float, float]:
    if isinstance(degrees, (int, float)):
        if degrees < 0:
            raise ValueError(f"{name} must be at least 0 if it is one number, got {degrees!r}")
        return -float(degrees), float(degrees)
    if not isinstance(degrees, Sequence) or len(degrees) != 2:
        raise ValueError(f"{name} must be a number or (low, high), got {degrees!r}")
    return float(degrees[0]), float(degrees[1])


def _fill_for(img: Any, fill: Any) -> Any:
    """Returns one fill value per channel for planes, as torchvision's classes give them to its functions."""
    if is_pil(img):
        return fill
    if isinstance(fill, (int, float)):
        return [float(fill)] * F.get_image_num_channels(img)
    return [float(value) for value in fill]


class RandomRotation(Transform, shown=("degrees", "interpolation", "expand", "fill")):
    """Turns by a random angle of [-degrees, degrees], or of (low, high); see ``functional.rotate``."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Interpolation = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Fill = 0,
    ) -> None:
        self.degrees: list[float] = list(_angles(degrees, "degrees"))
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.expand: bool = expand
        self.center: Sequence[float] | None = center
        self.fill: Fill = 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """Returns a random angle."""
        return draws.current().uniform(float(degrees[0]), float(degrees[1]))

    def draw(self, img: Any) -> Any:
        return self.get_params(self.degrees)

    def apply(self, img: Any, drawn: Any) -> Any:
        return F.rotate(img, drawn, self.interpolation, self.expand, self.center, _fill_for(img, self.fill))


class RandomAffine(Transform):
    """Turns, moves, scales and shears at random about the center.

    ``degrees``: bounds of the angle; ``translate``: the largest move (x, y) relative to the size; ``scale``: (low,
    high); ``shear``: bounds in degrees for x, or (x low, x high, y low, y high).
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Interpolation = InterpolationMode.NEAREST,
        fill: Fill = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        self.degrees: list[float] = list(_angles(degrees, "degrees"))
        if translate is not None and (len(translate) != 2 or not all(0 <= value <= 1 for value in translate)):
            raise ValueError(f"translate must be two numbers of [0, 1], got {translate!r}")
        if scale is not None and (len(scale) != 2 or min(scale) <= 0):
            raise ValueError(f"scale must be two positive numbers, got {scale!r}")
        self.translate: Sequence[float] | None = translate
        self.scale: Sequence[float] | None = scale
        self.shear: list[float] | None = None
        if shear is not None:
            four = not isinstance(shear, (int, float)) and len(shear) == 4
            self.shear = [float(value) for value in shear] if four else list(_angles(shear, "shear"))  # type: ignore[union-attr]
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.fill: Fill = 0 if fill is None else fill
        self.center: Sequence[float] | None = center

    @staticmethod
    def get_params(
        degrees: Sequence[float],
        translate: Sequence[float] | None,
        scale_ranges: Sequence[float] | None,
        shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Returns (angle, (x, y), scale, (shear x, shear y)) for an image of ``img_size`` (width, height)."""
        source = draws.current()
        angle = source.uniform(float(degrees[0]), float(degrees[1]))
        moves = [0, 0]
        if translate is not None:
            limits = [float(share * size) for share, size in zip(translate, img_size)]
            moves = [round(source.uniform(-limit, limit)) for limit in limits]
        scale = 1.0 if scale_ranges is None else source.uniform(scale_ranges[0], scale_ranges[1])
        turns = [0.0, 0.0]
        for axis in range(len(shears) // 2 if shears is not None else 0):
            turns[axis] = source.uniform(shears[2 * axis], shears[2 * axis + 1])  # type: ignore[index]
        return angle, (moves[0], moves[1]), scale, (turns[0], turns[1])

    def __repr__(self) -> str:
        given = {"translate": self.translate, "scale": self.scale, "shear": self.shear, "center": self.center}
        texts = [f"degrees={self.degrees}", *(f"{name}={value}" for name, value in given.items() if value is not None)]
        if self.interpolation is not InterpolationMode.NEAREST:
            texts.append(f"interpolation={self.interpolation.value}")
        return f"{type(self).__name__}({', '.join(texts + ([f'fill={self.fill}'] if self.fill != 0 else []))})"

    def draw(self, img: Any) -> Any:
        return self.get_params(self.degrees, self.translate, self.scale, self.shear, F.get_image_size(img))

    def apply(self, img: Any, drawn: Any) -> Any:
        angle, moves, scale, shears = drawn
        fill = _fill_for(img, self.fill)
        return F.affine(img, angle, moves, scale, shears, self.interpolation, fill, self.center)


class RandomPerspective(Transform, shown=("p",)):
    """Moves the four corners at random with probability ``p``, each by at most half of ``distortion_scale`` of the
    size.
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Interpolation = InterpolationMode.BILINEAR,
        fill: Fill = 0,
    ) -> None:
        self.p: float = check_probability(p, "RandomPerspective")
        self.interpolation: InterpolationMode = interpolation_mode(interpolation)
        self.distortion_scale: float = distortion_scale
        self.fill: Fill = 0 if fill is None else fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the corners (x, y) before and after."""
        source = draws.current()
        across, down = int(distortion_scale * (width // 2)) + 1, int(distortion_scale * (height // 2)) + 1
        ends = []
        for right, low in ((False, False), (True, False), (True, True), (False, True)):
            x = source.integer(width - across, width) if right else source.integer(0, across)
            y = source.integer(height - down, height) if low else source.integer(0, down)
            ends.append([x, y])
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return starts, ends

    def draw(self, img: Any) -> Any:
        if not draws.current().chance() < self.p:
            return None
        width, height = F.get_image_size(img)
        return self.get_params(width, height, self.distortion_scale)

    def apply(self, img: Any, drawn: Any) -> Any:
        if drawn is None:
            return img
        starts, ends = drawn
        return F.perspective(img, starts, ends, self.interpolation, _fill_for(img, self.fill))


class GaussianBlur(Transform, shown=("kernel_size", "sigma")):
    """Blurs by a Gaussian kernel; its sigma is drawn from (low, high), or is the one number."""

    def __init__(self, kernel_size: Size, sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        sizes = _window(kernel_size, "GaussianBlur")
        if any(size < 1 or size % 2 == 0 for size in sizes):
            raise ValueError(f"kernel_size must be odd and positive, got {kernel_size!r}")
        bounds = (float(sigma), float(sigma)) if isinstance(sigma, (int, float)) else tuple(float(s) for s in sigma)
        if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
            raise ValueError(f"sigma must be a positive number or (low, high), got {sigma!r}")
        self.kernel_size: tuple[int, int] = sizes
        self.sigma: tuple[float, float] = (bounds[0], bounds[1])

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Returns a random sigma."""
        return draws.current().uniform(sigma_min, sigma_max)

    def draw(self, img: Any) -> Any:
        return self.get_params(self.sigma[0], self.sigma[1])

    def apply(self, img: Any, drawn: Any) -> Any:
        return F.gaussian_blur(img, self.kernel_size, [drawn, drawn])


class RandomErasing(Transform, shown=("p", "scale", "ratio", "value", "inplace")):
    """Sets a random window of planes (..., C, H, W) to ``value`` with probability ``p`` (Zhong et al. 2017).

    ``scale``: bounds of the area relative to the image; ``ratio``: bounds of height / width; ``value``: a number, one
    per channel, or "random" for numbers of the standard normal distribution.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0,
        inplace: bool = False,
    ) -> None:
        if isinstance(value, str) and value != "random":
            raise ValueError(f'value must be a number, one per channel, or "random", got {value!r}')
        if not (0 <= scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1]):
            raise ValueError(f"scale and ratio must be (low, high), scale in [0, 1], got {scale!r} and {ratio!r}")
        self.p: float = check_probability(p, "RandomErasing")
        self.scale: Sequence[float] = scale
        self.ratio: Sequence[float] = ratio
        self.value: float | str | Sequence[float] = value
        self.inplace: bool = inplace

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float], value: Sequence[float] | None = None
    ) -> tuple[int, int, int, int, Any]:
        """Returns (top, left, height, width, values) of a random window, or the whole image if ten drawn ones do not
        fit.
        """
        channels, rows, columns = F.get_dimensions(img)
        source = draws.current()
        low, high = math.log(ratio[0]), math.log(ratio[1])
        for _ in range(10):
            area = rows * columns * source.uniform(scale[0], scale[1])
            aspect = math.exp(source.uniform(low, high))
            height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if not (height < rows and width < columns):
                continue
            if value is None:
                values: npt.NDArray[Any] = source.normal((channels, height, width))
            else:
                values = np.asarray(value, np.float64)[:, None, None]
            top = source.integer(0, rows - height + 1)
            return top, source.integer(0, columns - width + 1), height, width, values
        return 0, 0, rows, columns, planes_of(img).array

    def draw(self, img: Any) -> Any:
        if not draws.current().chance() < self.p:
            return None
        value = self.value
        given = None if isinstance(value, str) else [float(value)] if isinstance(value, (int, float)) else list(value)
        channels = F.get_image_num_channels(img)
        if given is not None and len(given) not in (1, channels):
            raise ValueError(f"RandomErasing: value has {len(given)} numbers, the image {channels} channels")
        return self.get_params(img, self.scale, self.ratio, given)

    def apply(self, img: Any, drawn: Any) -> Any:
        if drawn is None:
            return img
        top, left, height, width, values = drawn
        return F.erase(img, top, left, height, width, values, self.inplace)


class FiveCrop(Transform, shown=("size",), by=F.five_crop, given=("size",)):
    """Cuts the windows at the four corners and the center, as a tuple."""

    def __init__(self, size: Size) -> None:
        self.size: tuple[int, int] = _window(size, type(self).__name__)


class TenCrop(FiveCrop, shown=("size", "vertical_flip"), by=F.ten_crop, given=("size", "vertical_flip")):
    """Cuts the windows of ``FiveCrop`` from the image and from its mirror image, as a tuple."""

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip: bool = vertical_flip


class LinearTransformation(Transform, shown=("transformation_matrix", "mean_vector")):
    """Multiplies flattened planes, less ``mean_vector`` (D,), by ``transformation_matrix`` (D, D), D = C H W."""

    def __init__(self, transformation_matrix: npt.ArrayLike, mean_vector: npt.ArrayLike) -> None:
        self.transformation_matrix: npt.NDArray[Any] = np.asarray(transformation_matrix)
        self.mean_vector: npt.NDArray[Any] = np.asarray(mean_vector)
        matrix, mean = self.transformation_matrix.shape, self.mean_vector.shape
        if len(matrix) != 2 or matrix[0] != matrix[1] or mean != matrix[:1]:
            raise ValueError(f"transformation_matrix must be (D, D) and mean_vector (D,), got {matrix} and {mean}")

    def apply(self, img: Any, drawn: Any) -> Any:
        planes = planes_of(img)
        shape = planes.array.shape
        if math.prod(shape[-3:]) != len(self.mean_vector):
            raise ValueError(f"the image has {math.prod(shape[-3:])} values, the matrix {len(self.mean_vector)} rows")
        flat = planes.array.reshape(-1, len(self.mean_vector)) - self.mean_vector
        return planes.write((flat @ self.transformation_matrix).reshape(shape))


class RandomInvert(_WithProbability, by=F.invert):
    """Inverts the colors with probability ``p``."""


class RandomAutocontrast(_WithProbability, by=F.autocontrast):
    """Stretches the values of each channel to [0, white] with probability ``p``."""


class RandomEqualize(_WithProbability, by=F.equalize):
    """Equalizes the histogram of each channel with probability ``p``."""


class RandomPosterize(_WithProbability, shown=("bits", "p"), by=F.posterize, given=("bits",)):
    """Keeps the ``bits`` highest bits with probability ``p``."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits: int = bits


class RandomSolarize(_WithProbability, shown=("threshold", "p"), by=F.solarize, given=("threshold",)):
    """Inverts the values from ``threshold`` on with probability ``p``."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold: float = threshold


class RandomAdjustSharpness(
    _WithProbability, shown=("sharpness_factor", "p"), by=F.adjust_sharpness, given=("sharpness_factor",)
):
    """Changes the sharpness by a factor with probability ``p``; see ``functional.adjust_sharpness``."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor: float = sharpness_factor
