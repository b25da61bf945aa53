"""``torchvision.io``: image files as uint8 tensors (C, H, W), read and written by Pillow; videos raise when called."""

from __future__ import annotations

import io
import os
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.data import Budget
from netcl.data.image_files import opened_image
from netcl.data.transforms.functional import pil_to_tensor
from netcl.torch_vision.refused import refused
from netcl.torch_vision.tensors import tensor_of
from netcl.torch_vision.transforms.functional import to_pil_image

PathLike = str | os.PathLike[str]


class ImageReadMode(Enum):
    """The channels of an image that is read: as they are in the file, or converted."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


# The tag of EXIF for the orientation of a camera, and Pillow's numbers of the operations that undo it.
_ORIENTATION = 0x0112
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
_MODES = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def read_file(path: PathLike) -> Tensor:
    """Returns the bytes of a file as a uint8 tensor (n,)."""
    return tensor_of(np.frombuffer(Path(path).read_bytes(), np.uint8))


def write_file(filename: PathLike, data: Tensor) -> None:
    """Writes a uint8 tensor (n,) as the bytes of a file."""
    Path(filename).write_bytes(data.detach().to_host().astype(np.uint8).tobytes())


def decode_image(
    input: Any,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    budget: Budget | None = None,
) -> Tensor:
    """Returns an image as a uint8 tensor (C, H, W), from a path or from a uint8 tensor (n,) of the bytes of a file.

    ``budget`` (``netcl.data.Budget``), which torchvision does not have, limits the memory and time that it may take.

    Raises:
        ImportError: Pillow is missing. OSError: the file cannot be opened. ValueError: the bytes are no image, or the
            image has more pixels than ``budget`` allows.
    """
    source = input.detach().to_host().tobytes() if isinstance(input, Tensor) else input
    wanted = (mode if isinstance(mode, str) else mode.name).upper()
    if wanted != "UNCHANGED" and wanted not in _MODES:
        raise ValueError(f"mode must be one of UNCHANGED, {', '.join(_MODES)}, got {mode!r}")
    with opened_image(source, "torchvision.io", budget) as opened:
        turned = _TURNS.get(opened.getexif().get(_ORIENTATION)) if apply_exif_orientation else None
        picture: Any = opened if turned is None else opened.transpose(turned)
        if wanted != "UNCHANGED":
            picture = picture.convert(_MODES[wanted])
        elif picture.mode == "P":
            picture = picture.convert("RGB")
        elif picture.mode == "1":
            picture = picture.convert("L")
        return tensor_of(pil_to_tensor(picture))


def read_image(
    path: PathLike,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    budget: Budget | None = None,
) -> Tensor:
    """Returns the image of a file as a uint8 tensor (C, H, W); see decode_image."""
    return decode_image(os.fspath(path), mode, apply_exif_orientation, budget=budget)


decode_png = decode_image
decode_jpeg = decode_image


def _encoded(input: Tensor, kind: str, **options: Any) -> bytes:
    if input.ndim != 3 or input.shape[0] not in (1, 3) or input.dtype != "uint8":
        raise ShapeError(
            f"images are written from uint8 (1 or 3, H, W), got {input.dtype} {tuple(input.shape)}", op=kind
        )
    stream = io.BytesIO()
    to_pil_image(input.detach()).save(stream, format=kind, **options)
    return stream.getvalue()


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Returns a uint8 image (1 or 3, H, W) as the bytes of a PNG file, uint8 (n,)."""
    return tensor_of(np.frombuffer(_encoded(input, "PNG", compress_level=compression_level), np.uint8))


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """Returns a uint8 image (1 or 3, H, W) as the bytes of a JPEG file, uint8 (n,)."""
    return tensor_of(np.frombuffer(_encoded(input, "JPEG", quality=quality), np.uint8))


def write_png(input: Tensor, filename: PathLike, compression_level: int = 6) -> None:
    """Writes a uint8 image (1 or 3, H, W) as a PNG file."""
    Path(filename).write_bytes(_encoded(input, "PNG", compress_level=compression_level))


def write_jpeg(input: Tensor, filename: PathLike, quality: int = 75) -> None:
    """Writes a uint8 image (1 or 3, H, W) as a JPEG file."""
    Path(filename).write_bytes(_encoded(input, "JPEG", quality=quality))


__getattr__, __dir__ = refused("io", globals())
