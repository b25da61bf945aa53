"""``torchvision.utils``: grids of images as tensors, and image files."""

from __future__ import annotations

import os
from typing import IO, Any

from netcl.core import Tensor
from netcl.data import image_grid
from netcl.torch_vision.refused import refused
from netcl.torch_vision.tensors import tensor_of


def _detached(images: Any) -> Any:
    if isinstance(images, Tensor):
        return images.detach()
    return [_detached(image) for image in images] if isinstance(images, (list, tuple)) else images


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Returns images (N, C, H, W), or a list of (C, H, W), as one image (C, H, W); see ``netcl.data.make_grid``."""
    first = tensor[0] if isinstance(tensor, (list, tuple)) and len(tensor) else tensor
    grid = image_grid.make_grid(_detached(tensor), nrow, padding, normalize, value_range, scale_each, pad_value)
    return tensor_of(grid, first if isinstance(first, Tensor) else None)


def save_image(tensor: Any, fp: str | os.PathLike[str] | IO[bytes], format: str | None = None, **kwargs: Any) -> None:
    """Writes images to a file, arranged by ``make_grid``, which takes the keywords; see ``netcl.data.save_image``."""
    image_grid.save_image(_detached(tensor), fp, format, **kwargs)


__getattr__, __dir__ = refused("utils", globals())
