"""The transforms under the names and rules of ``torchvision.transforms.v2``: a call takes an image, several values, or
a sample that is a tuple, list or dict, and changes all images in it by the same random numbers.

PIL images and ``Image`` are always changed; if there are none, the first array or tensor of two dimensions or more is.
Other values, for example labels, are returned as they are. Bounding boxes, masks and videos have no type here.

Example:
    >>> import numpy as np
    >>> from netcl.data.transforms import v2
    >>> prepare = v2.Compose([v2.ToImage(), v2.CenterCrop(2), v2.ToDtype(np.float32, scale=True)])
    >>> image, label = prepare(np.full((4, 4, 3), 255, np.uint8), 7)
    >>> image.shape, float(image.max()), label
    ((3, 2, 2), 1.0, 7)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from netcl.data.transforms import auto, classes, color, draws, functional, images
from netcl.data.transforms.classes import Transform as Transform
from netcl.data.transforms.images import Image as Image
from netcl.data.transforms.images import InterpolationMode as InterpolationMode


def _leaves(sample: Any) -> list[Any]:
    """Returns the values in nested tuples, lists and dicts, in their order."""
    if isinstance(sample, dict):
        return [leaf for value in sample.values() for leaf in _leaves(value)]
    if isinstance(sample, (tuple, list)):
        return [leaf for value in sample for leaf in _leaves(value)]
    return [sample]


def _mapped(sample: Any, function: Callable[[Any], Any]) -> Any:
    """Returns a sample of the same form with ``function`` of each value."""
    if isinstance(sample, dict):
        return type(sample)({key: _mapped(value, function) for key, value in sample.items()})
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*(_mapped(value, function) for value in sample))
    if isinstance(sample, (tuple, list)):
        return type(sample)(_mapped(value, function) for value in sample)
    return function(sample)


def _images_in(sample: Any) -> list[Any]:
    """Returns the images of a sample: PIL images and Images, else the first array or tensor that can be one."""
    leaves = _leaves(sample)
    marked = [leaf for leaf in leaves if images.is_pil(leaf) or isinstance(leaf, Image)]
    return marked or [leaf for leaf in leaves if images.is_image(leaf) and len(leaf.shape) >= 2][:1]


_T = TypeVar("_T", bound=Transform)


class _Joint(Transform):
    """A transform of whole samples: one draw for all images of a call."""

    def forward(self, *inputs: Any) -> Any:
        """Returns the sample with its images changed by the same new random numbers."""
        sample = inputs[0] if len(inputs) == 1 else inputs
        images = _images_in(sample)
        if not images:
            return sample
        drawn = self.draw(images[0])
        chosen = {id(image) for image in images}
        return _mapped(sample, lambda leaf: self.apply(leaf, drawn) if id(leaf) in chosen else leaf)


class Compose(classes.Compose):
    """Applies transforms of samples one after the other."""

    def __call__(self, *inputs: Any) -> Any:
        for transform in self.transforms:
            result = transform(*inputs)
            inputs = result if len(inputs) > 1 else (result,)
        return inputs[0] if len(inputs) == 1 else inputs


class RandomApply(classes.RandomApply):
    """Applies all of the transforms with probability ``p``, else none."""

    def __call__(self, *inputs: Any) -> Any:
        sample = inputs[0] if len(inputs) == 1 else inputs
        return sample if draws.current().chance() >= self.p else Compose(self.transforms)(*inputs)


class RandomOrder(classes.RandomOrder):
    """Applies the transforms in a random order."""

    def __call__(self, *inputs: Any) -> Any:
        order = draws.current().permutation(len(self.transforms))
        return Compose([self.transforms[at] for at in order])(*inputs)


class RandomChoice(classes.RandomChoice):
    """Applies one of the transforms, drawn with the weights ``p``, all equal if None."""

    def __call__(self, *inputs: Any) -> Any:
        weights = [1.0] * len(self.transforms) if self.p is None else list(self.p)
        total = sum(weights)
        return self.transforms[draws.current().weighted([weight / total for weight in weights])](*inputs)


class Lambda(Transform):
    """Applies a function to each value of a sample that has one of ``types``, to all values if none is given."""

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda takes a function, got {lambd!r}")
        self.lambd: Callable[[Any], Any] = lambd
        self.types: tuple[type, ...] = types or (object,)

    def __call__(self, *inputs: Any) -> Any:
        sample = inputs[0] if len(inputs) == 1 else inputs
        return _mapped(sample, lambda leaf: self.lambd(leaf) if isinstance(leaf, self.types) else leaf)


class Identity(Transform):
    """Returns a sample as it is."""

    def __call__(self, *inputs: Any) -> Any:
        return inputs[0] if len(inputs) == 1 else inputs


class ToImage(_Joint):
    """Converts PIL images and arrays (H, W, C) to planes (C, H, W) of the same dtype; planes stay."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return to_image(img)


class ToPureTensor(_Joint):
    """Takes the mark ``Image`` off planes."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return img.view(np.ndarray) if isinstance(img, Image) else img


class ToDtype(_Joint, shown=("dtype", "scale")):
    """Converts planes to another dtype; ``scale`` keeps white white, else the values stay. PIL images stay."""

    def __init__(self, dtype: npt.DTypeLike, scale: bool = False) -> None:
        if isinstance(dtype, dict):
            raise TypeError("ToDtype takes one dtype: samples have images only, no other types of values")
        self.dtype: npt.DTypeLike = dtype
        self.scale: bool = scale

    def apply(self, img: Any, drawn: Any) -> Any:
        return img if images.is_pil(img) else to_dtype(img, self.dtype, self.scale)


class RGB(_Joint):
    """Converts gray images to three equal channels."""

    def apply(self, img: Any, drawn: Any) -> Any:
        if images.is_pil(img):
            return img.convert("RGB")
        return functional.rgb_to_grayscale(img, 3) if functional.get_image_num_channels(img) == 1 else img


class GaussianNoise(_Joint, shown=("mean", "sigma", "clip")):
    """Adds noise of the normal distribution to floating planes in [0, 1] and clips the sum to [0, 1]."""

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        if sigma < 0:
            raise ValueError(f"sigma must be at least 0, got {sigma!r}")
        self.mean: float = mean
        self.sigma: float = sigma
        self.clip: bool = clip

    def draw(self, img: Any) -> Any:
        return draws.current().normal(images.planes_of(img).array.shape)

    def apply(self, img: Any, drawn: Any) -> Any:
        planes = images.planes_of(img)
        if planes.array.dtype.kind != "f":
            raise ValueError(f"GaussianNoise takes floating planes, got {planes.array.dtype}: put ToDtype before it")
        noise = (drawn * self.sigma + self.mean).astype(planes.array.dtype)
        noisy = planes.array + noise
        return planes.write(np.clip(noisy, 0, 1) if self.clip else noisy)


class RandomChannelPermutation(_Joint):
    """Puts the channels into a random order."""

    def draw(self, img: Any) -> Any:
        return draws.current().permutation(functional.get_image_num_channels(img))

    def apply(self, img: Any, drawn: Any) -> Any:
        planes = images.planes_of(img)
        return planes.write(np.ascontiguousarray(planes.array[..., drawn, :, :]))


class RandomResize(_Joint, shown=("min_size", "max_size", "interpolation", "antialias")):
    """Resizes the shorter side to a random number of pixels of [min_size, max_size)."""

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        self.min_size: int = min_size
        self.max_size: int = max_size
        self.interpolation: InterpolationMode = images.interpolation_mode(interpolation)
        self.antialias: bool | None = antialias

    def draw(self, img: Any) -> Any:
        return draws.current().integer(self.min_size, self.max_size)

    def apply(self, img: Any, drawn: Any) -> Any:
        return functional.resize(img, [drawn], self.interpolation, antialias=self.antialias)


class _Version2(auto.Chosen):
    """The draws of version 2: signs by a uniform number, thresholds relative to white."""

    def thresholds(self, steps: auto.Steps) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = steps(0.0, 1.0).astype(np.float64) * 255.0
        return values

    def sign(self) -> float:
        return -1.0 if draws.current().chance() <= 0.5 else 1.0


class RandAugment(_Joint, _Version2, auto.RandAugment):
    """Applies ``num_ops`` random changes of the strength in bin ``magnitude``; see ``transforms.RandAugment``."""


class TrivialAugmentWide(_Joint, _Version2, auto.TrivialAugmentWide):
    """Applies one random change of a random strength; see ``transforms.TrivialAugmentWide``."""


class RandomCrop(_Joint, classes.RandomCrop):
    """Cuts the window ``size`` at a random position, after padding; draws a position only if there are several."""

    def draw(self, img: Any) -> Any:
        _, rows, columns = functional.get_dimensions(self.padded(img))
        height, width = self.size
        if rows < height or columns < width:
            raise ValueError(f"RandomCrop: a window of {height} x {width} is larger than the image, {rows} x {columns}")
        source = draws.current()
        top = source.integer(0, rows - height + 1) if rows > height else 0
        return top, source.integer(0, columns - width + 1) if columns > width else 0, height, width


class ConvertImageDtype(_Joint, classes.ConvertImageDtype):
    """Converts planes to another dtype; white stays white."""

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        super().__init__(dtype)


class PILToTensor(_Joint, classes.PILToTensor):
    """Converts a PIL image to planes (C, H, W) of its own dtype."""


class ToPILImage(_Joint, classes.ToPILImage):
    """Converts planes (C, H, W), or an array of integers (H, W, C), to a PIL image; see ``functional.to_pil_image``."""


class ToTensor(_Joint, classes.ToTensor):
    """Converts a PIL image or an array (H, W, C) to planes (C, H, W): uint8 becomes float32 in [0, 1]."""


def _joint(kind: type[_T]) -> Any:
    """Returns the transform of whole samples that draws and applies as ``kind`` does, with its name and docstring."""
    return type(kind.__name__, (_Joint, kind), {"__module__": __name__, "__doc__": kind.__doc__})


CenterCrop: type[classes.CenterCrop] = _joint(classes.CenterCrop)
ColorJitter: type[classes.ColorJitter] = _joint(classes.ColorJitter)
FiveCrop: type[classes.FiveCrop] = _joint(classes.FiveCrop)
GaussianBlur: type[classes.GaussianBlur] = _joint(classes.GaussianBlur)
Grayscale: type[classes.Grayscale] = _joint(classes.Grayscale)
LinearTransformation: type[classes.LinearTransformation] = _joint(classes.LinearTransformation)
Normalize: type[classes.Normalize] = _joint(classes.Normalize)
Pad: type[classes.Pad] = _joint(classes.Pad)
RandomAdjustSharpness: type[classes.RandomAdjustSharpness] = _joint(classes.RandomAdjustSharpness)
RandomAffine: type[classes.RandomAffine] = _joint(classes.RandomAffine)
RandomAutocontrast: type[classes.RandomAutocontrast] = _joint(classes.RandomAutocontrast)
RandomEqualize: type[classes.RandomEqualize] = _joint(classes.RandomEqualize)
RandomErasing: type[classes.RandomErasing] = _joint(classes.RandomErasing)
RandomGrayscale: type[classes.RandomGrayscale] = _joint(classes.RandomGrayscale)
RandomHorizontalFlip: type[classes.RandomHorizontalFlip] = _joint(classes.RandomHorizontalFlip)
RandomInvert: type[classes.RandomInvert] = _joint(classes.RandomInvert)
RandomPerspective: type[classes.RandomPerspective] = _joint(classes.RandomPerspective)
RandomPosterize: type[classes.RandomPosterize] = _joint(classes.RandomPosterize)
RandomResizedCrop: type[classes.RandomResizedCrop] = _joint(classes.RandomResizedCrop)
RandomRotation: type[classes.RandomRotation] = _joint(classes.RandomRotation)
RandomSolarize: type[classes.RandomSolarize] = _joint(classes.RandomSolarize)
RandomVerticalFlip: type[classes.RandomVerticalFlip] = _joint(classes.RandomVerticalFlip)
Resize: type[classes.Resize] = _joint(classes.Resize)
TenCrop: type[classes.TenCrop] = _joint(classes.TenCrop)


def to_image(image: Any) -> Any:
    """Returns a PIL image or an array (H, W, C) as planes (C, H, W) of the same dtype; planes stay as they are."""
    if images.is_pil(image):
        return functional.pil_to_tensor(image)
    planes = images.planes_of(image)
    if isinstance(image, np.ndarray):
        return np.ascontiguousarray(planes.array).view(Image)
    return image


def to_dtype(image: Any, dtype: npt.DTypeLike = np.float32, scale: bool = False) -> Any:
    """Returns planes of another dtype; ``scale`` keeps white white, else the values stay."""
    planes = images.planes_of(image)
    return planes.write(color.convert_dtype(planes.array, dtype, scale))


__all__ = [
    "functional",
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
    ),
]
