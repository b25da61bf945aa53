"""The kinds of images that transforms take, each read as planes (..., C, H, W) and written back in its own kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class InterpolationMode(Enum):
    """The filter by which an image is resampled. The last three are for PIL images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers of its filters.
_PIL_NUMBERS = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}
_BY_NUMBER = {number: mode for mode, number in reversed(_PIL_NUMBERS.items())}


def interpolation_mode(value: Any) -> InterpolationMode:
    """Returns the mode of a mode, its name ("bilinear") or Pillow's number. Raises ValueError if there is none."""
    try:
        return _BY_NUMBER[value] if isinstance(value, int) else InterpolationMode(value)
    except (KeyError, ValueError):
        names = ", ".join(mode.value for mode in InterpolationMode)
        raise ValueError(f"interpolation must be an InterpolationMode or one of {names}, got {value!r}") from None


def pil_filter(value: Any) -> int:
    """Returns Pillow's number of an interpolation mode."""
    return _PIL_NUMBERS[interpolation_mode(value)]


class Image(np.ndarray[Any, Any]):
    """An array that holds an image, or several, as planes (..., C, H, W), of any dtype.

    Transforms read a plain array of integers as (H, W, C) and one of floating values as planes; this class marks
    integers that are planes: ``PILToTensor`` and ``v2.ToImage`` give it.
    """


class Planes:
    """An image as planes: ``array`` (..., C, H, W), and ``write``, which makes an image of the first kind of others."""

    __slots__ = ("array", "write")

    def __init__(self, array: Array, write: Callable[[Array], Any]) -> None:
        self.array: Array = array
        self.write: Callable[[Array], Any] = write


_READERS: dict[type, tuple[Callable[[Any], Array], Callable[[Array, Any], Any]]] = {}


def register_image_type(kind: type, read: Callable[[Any], Array], write: Callable[[Array, Any], Any]) -> None:
    """Lets transforms take images of another type: ``read(image)`` gives its planes (..., C, H, W), and ``write(planes,
    image)`` an image of that type for new planes, for example on the device of the first.
    """
    _READERS[kind] = (read, write)


def _registered(image: Any) -> tuple[Callable[[Any], Array], Callable[[Array, Any], Any]] | None:
    for kind in type(image).__mro__:
        if kind in _READERS:
            return _READERS[kind]
    return None


def pillow(user: str) -> Any:
    """Returns the module PIL.Image. Raises ImportError with what to install."""
    try:
        from PIL import Image as module
    except ImportError as error:
        raise ImportError(f"{user} needs Pillow: pip install netcl-data[image]") from error
    return module


def is_pil(image: Any) -> bool:
    """True for an image of Pillow; does not import it."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def is_image(value: Any) -> bool:
    """True for values that transforms take: PIL images, arrays of two dimensions or more, and registered types."""
    return is_pil(value) or (isinstance(value, np.ndarray) and value.ndim >= 2) or _registered(value) is not None


def as_planes(array: Array) -> Array:
    """Marks an array as planes: integers become an Image, floating values stay a plain array."""
    if array.dtype.kind == "f":
        return array.view(np.ndarray) if type(array) is not np.ndarray else array
    return array.view(Image)


def array_of(image: Any) -> Array:
    """Returns the values of a PIL image, (H, W) or (H, W, C), with the bits of mode "1" as 0 and 255."""
    if image.mode == "1":
        return np.asarray(image.convert("L"))
    return np.asarray(image)


def pil_like(array: Array, image: Any) -> Any:
    """Returns (H, W) or (H, W, C) as a PIL image of the mode, and with the palette, of another."""
    if image.mode == "1":
        return pillow("transforms").fromarray(array).convert("1")
    if image.mode == "P":
        made = pillow("transforms").fromarray(array)
        made.putpalette(image.getpalette() or [])
        return made
    # frombytes, not fromarray(mode=), which Pillow has deprecated.
    return pillow("transforms").frombytes(image.mode, array.shape[1::-1], np.ascontiguousarray(array).tobytes())


def _to_rows(planes: Array) -> Array:
    """(C, H, W) -> (H, W, C)."""
    return np.ascontiguousarray(np.moveaxis(planes, -3, -1))


def _rows_like(planes: Array) -> Array:
    """(C, H, W) -> (H, W, C) for integers; floating values stay planes, as which they are read."""
    return as_planes(planes) if planes.dtype.kind == "f" else _to_rows(planes)


def planes_of(image: Any) -> Planes:
    """Returns an image as planes.

    An array of integers is (H, W) or (..., H, W, C); an Image, and an array of floating values, (H, W) or (..., C, H,
    W).

    Raises:
        TypeError: ``image`` is none of these. ValueError: it has fewer than two dimensions.
    """
    if isinstance(image, np.ndarray):
        if image.ndim < 2:
            raise ValueError(f"transforms take images of two dimensions or more, got shape {image.shape}")
        if isinstance(image, Image) or image.dtype.kind == "f":
            if image.ndim == 2:
                return Planes(image.view(np.ndarray)[None], lambda planes: as_planes(planes[0]))
            return Planes(image.view(np.ndarray), as_planes)
        if image.ndim == 2:
            return Planes(image[None], lambda planes: planes[0] if planes.shape[0] == 1 else _rows_like(planes))
        return Planes(np.moveaxis(image, -1, -3), _rows_like)
    if is_pil(image):
        rows = array_of(image)
        if rows.ndim == 2:
            return Planes(rows[None], lambda planes: pil_like(planes[0], image))
        return Planes(np.moveaxis(rows, -1, 0), lambda planes: pil_like(_to_rows(planes), image))
    functions = _registered(image)
    if functions is None:
        raise TypeError(
            f"transforms take PIL images and arrays, got {type(image).__module__}.{type(image).__qualname__}"
        )
    read, write = functions
    array = read(image)
    if array.ndim < 2:
        raise ValueError(f"transforms take images of two dimensions or more, got shape {array.shape}")
    if array.ndim == 2:
        return Planes(array[None], lambda planes: write(planes[0], image))
    return Planes(array, lambda planes: write(planes, image))
