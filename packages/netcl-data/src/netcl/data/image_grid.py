"""Grids of images, and images written to files: ``make_grid`` and ``save_image``."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from netcl.data.transforms.images import Image, as_planes, planes_of

Array = npt.NDArray[Any]


def _planes(image: Any) -> Array:
    """Returns an image as planes; an array of any dtype is planes already."""
    return planes_of(image.view(Image) if isinstance(image, np.ndarray) else image).array


def _stacked(images: Any) -> Array:
    """Returns images as planes (N, C, H, W) with C of 3 or more, or (C, H, W) for one, in three channels."""
    if isinstance(images, (list, tuple)):
        array = np.stack([_planes(image) for image in images])
    else:
        array = _planes(images)
        array = array if array.ndim == 4 else array[None]
    if array.ndim != 4:
        raise ValueError(f"make_grid takes images (N, C, H, W), (C, H, W), (H, W) or a list, got shape {array.shape}")
    return np.repeat(array, 3, axis=1) if array.shape[1] == 1 else array


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Array:
    """Returns images (N, C, H, W), or a list of (C, H, W), as one image of rows of ``nrow`` images, with ``padding``
    pixels of ``pad_value`` around each. One channel becomes three; a single image is returned without padding.

    ``normalize`` maps the values from ``value_range``, or from their minimum and maximum, of each image with
    ``scale_each``, to [0, 1].

    Example:
        >>> make_grid(np.zeros((6, 3, 8, 8), np.float32), nrow=4).shape
        (3, 22, 42)
    """
    images = _stacked(tensor)
    if value_range is not None and (not isinstance(value_range, tuple) or len(value_range) != 2):
        raise TypeError(f"value_range must be a tuple (low, high), got {value_range!r}")
    if normalize:
        images = images.astype(images.dtype if images.dtype.kind == "f" else np.float32)
        for part in images if scale_each else [images]:
            low, high = (float(part.min()), float(part.max())) if value_range is None else value_range
            part[...] = (np.clip(part, low, high) - part.dtype.type(low)) / part.dtype.type(max(high - low, 1e-5))
    count, channels, rows, columns = images.shape
    if count == 1:
        return as_planes(images[0])
    across = min(nrow, count)
    down = math.ceil(count / across)
    height, width = rows + padding, columns + padding
    grid = np.full((channels, height * down + padding, width * across + padding), pad_value, images.dtype)
    for number in range(count):
        top, left = number // across * height + padding, number % across * width + padding
        grid[:, top : top + rows, left : left + columns] = images[number]
    return as_planes(grid)


def save_image(
    tensor: Any,
    fp: str | os.PathLike[str] | IO[bytes],
    format: str | None = None,
    *,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> None:
    """Writes images, arranged by ``make_grid``, to a file; floating values must be in [0, 1].

    ``format`` is by default given by the suffix of the file. Pillow writes all formats that it knows; PNG is also
    written without it.

    Raises:
        ImportError: the format needs Pillow. ValueError: the file has no name and no format is given.
    """
    grid = make_grid(tensor, nrow, padding, normalize, value_range, scale_each, pad_value)
    values = grid.astype(np.float32) * np.float32(255) + np.float32(0.5)
    rows = np.ascontiguousarray(np.clip(values, 0, 255).astype(np.uint8).transpose(1, 2, 0))
    kind = (format or os.path.splitext(_name(fp))[1].lstrip(".")).lower()
    if not kind:
        raise ValueError("save_image: give format=, for example 'png', since the file has no name with an ending")
    try:
        from PIL import Image as pillow
    except ImportError:
        if kind != "png":
            raise ImportError(f"save_image writes {kind} by Pillow: pip install netcl-data[image]") from None
        _write(fp, png(rows))
        return
    pillow.fromarray(rows).save(fp, format=format)


def _name(fp: Any) -> str:
    name = getattr(fp, "name", fp)
    return os.fspath(name) if isinstance(name, (str, os.PathLike)) else ""


def _write(fp: Any, data: bytes) -> None:
    if hasattr(fp, "write"):
        fp.write(data)
        return
    with open(fp, "wb") as file:
        file.write(data)


def png(rows: Array) -> bytes:
    """Returns uint8 pixels (H, W, C), C of 1 (gray), 3 (RGB) or 4 (RGBA), as a PNG file."""
    height, width, channels = rows.shape
    color_type = {1: 0, 3: 2, 4: 6}[channels]
    # Each row begins with the number of its filter, 0: none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    parts: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(lines.tobytes())),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
