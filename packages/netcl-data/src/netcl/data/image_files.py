"""Opens untrusted image files by Pillow: only formats that Pillow decodes itself, and pixels within a budget."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from netcl.data.budget import Budget, Meter
from netcl.data.errors import DataFileError
from netcl.data.reading import opened
from netcl.data.transforms.images import pillow

# The most that Pillow takes while it decodes: the image with 4 values of a pixel, its RGB form, and the decoder's own
# copy (coefficients of a progressive JPEG: 2 bytes for each of 3 or 4 values; a whole frame of WebP).
_BYTES_PER_PIXEL = 16
# A photograph has a bit for each pixel or more, so that a good file has up to 8 pixels in a byte.
_FACTOR = 8 * _BYTES_PER_PIXEL
_SECONDS_PER_PIXEL = 2e-8
# Each scan of a progressive JPEG is a pass over all coefficients, and may have 70 bytes for 35 million pixels.
_SECONDS_PER_PIXEL_OF_A_SCAN = 2e-9
_START_OF_SCAN = b"\xff\xda"
_CHUNK = 1 << 20
# EPS is a program, which Pillow gives to Ghostscript.
_PROGRAMS = ("EPS",)
# Tags of TIFF with the places of strips and of tiles.
_STRIPS, _TILES = 273, 324


@contextmanager
def opened_image(source: str | os.PathLike[str] | bytes, user: str, budget: Budget | None = None) -> Iterator[Any]:
    """Yields the PIL image of a file, or of its bytes; the pixels are not decoded yet.

    Raises ImportError without Pillow (``user`` needs it), OSError if the file cannot be opened, and ValueError if it is
    no whole image, or has more pixels than ``budget`` allows for its size.
    """
    module = pillow(user)
    with opened(source, budget, _FACTOR, "image") as (file, meter), _identified(module, file) as image:
        _check_pixels(image, file, meter)
        yield image


def _identified(module: Any, file: BinaryIO) -> Any:
    """Returns the image, in the first fitting format among the formats decoded by Pillow itself."""
    module.preinit()
    try:
        return module.open(file, formats=_decoded_by_pillow(module))
    except module.UnidentifiedImageError:
        module.init()  # rare formats; their modules are imported when needed
        file.seek(0)
        try:
            return module.open(file, formats=_decoded_by_pillow(module))
        except module.UnidentifiedImageError:  # its text names an object of Python
            raise DataFileError("its bytes are of no format that Pillow reads") from None


def _decoded_by_pillow(module: Any) -> Sequence[str]:
    return [name for name in module.ID if name not in _PROGRAMS and name in module.OPEN]


def _check_pixels(image: Any, file: BinaryIO, meter: Meter) -> None:
    """Takes memory and time for the pixels of ``image``, which is in ``file``, before they are decoded."""
    width, height = image.size
    what = f"an image of {width} x {height} pixels"
    pixels = width * height
    meter.spend(pixels * _BYTES_PER_PIXEL, what)
    scans = 0
    if image.format in ("JPEG", "MPO"):
        scans = _scans(file)
    elif image.format == "TIFF" and image.info.get("compression") == "jpeg":
        scans = -(-_scans(file) // len(image.tag_v2.get(_STRIPS) or image.tag_v2.get(_TILES) or (0,)))
    meter.take(pixels * (_SECONDS_PER_PIXEL + scans * _SECONDS_PER_PIXEL_OF_A_SCAN), what)


def _scans(file: BinaryIO) -> int:
    """Counts the scans of JPEG data, and leaves the file at its place."""
    place = file.tell()
    file.seek(0)
    count, last = 0, b""
    while chunk := file.read(_CHUNK):
        chunk = last + chunk
        count += chunk.count(_START_OF_SCAN)
        last = chunk[-1:]
    file.seek(place)
    return count


def sized_planes(image: Any, size: tuple[int, int] | None, gray: bool = False) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a PIL image as RGB, uint8 (3, H, W), or as ``gray`` (1, H, W), resized to ``size`` (H, W);
    None: as they are.
    """
    if size is not None:
        image = eight_bits(image).convert("RGB").resize((size[1], size[0]))
    planes = rgb_planes(image)
    if not gray:
        return planes
    # ITU-R 601-2 luma, as Pillow's mode L.
    weights = np.array([0.299, 0.587, 0.114]).reshape(3, 1, 1)
    return np.asarray(np.round((planes * weights).sum(axis=0, keepdims=True)), np.uint8)


def eight_bits(image: Any) -> Any:
    """Returns an image with 16 bits for a pixel as mode L, each value divided by 256; others as they are.

    Pillow's ``convert`` would cut the values off at 255.
    """
    if not image.mode.startswith("I;16"):
        return image
    return pillow("16 bits").fromarray((np.asarray(image, np.uint16) >> 8).astype(np.uint8))


def rgb_planes(image: Any) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a PIL image as RGB, uint8 (3, H, W), strip by strip, without a second copy of all."""
    if image.mode != "RGB":
        image = eight_bits(image).convert("RGB")
    width, height = image.size
    planes = np.empty((3, height, width), np.uint8)
    rows = max(1, _CHUNK // max(1, 3 * width))
    for top in range(0, height, rows):
        below = min(top + rows, height)
        strip = image if below - top == height else image.crop((0, top, width, below))
        planes[:, top:below] = np.asarray(strip, np.uint8).transpose(2, 0, 1)
    return planes
