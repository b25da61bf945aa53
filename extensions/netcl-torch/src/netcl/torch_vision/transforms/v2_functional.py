"""``torchvision.transforms.v2.functional``: the functions of netcl.data under their names of version 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.data.transforms import v2 as on_host
from netcl.torch_vision.tensors import tensor_of
from netcl.torch_vision.transforms.functional import (
    InterpolationMode,
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    affine,
    autocontrast,
    center_crop,
    convert_image_dtype,
    crop,
    equalize,
    erase,
    five_crop,
    gaussian_blur,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    hflip,
    invert,
    normalize,
    pad,
    perspective,
    pil_to_tensor,
    posterize,
    resize,
    resized_crop,
    rgb_to_grayscale,
    rotate,
    solarize,
    ten_crop,
    to_grayscale,
    to_pil_image,
    to_tensor,
    vflip,
)

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "get_num_channels",
    "get_size",
    "hflip",
    "horizontal_flip",
    "invert",
    "normalize",
    "pad",
    "permute_channels",
    "perspective",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_dtype",
    "to_grayscale",
    "to_image",
    "to_pil_image",
    "to_tensor",
    "vertical_flip",
    "vflip",
]

horizontal_flip = hflip
vertical_flip = vflip
get_num_channels = get_image_num_channels


def to_image(inpt: Any) -> Any:
    """Returns a PIL image or an array (H, W, C) as a tensor (C, H, W) of the same dtype; a tensor stays."""
    return inpt if isinstance(inpt, Tensor) else tensor_of(on_host.to_image(inpt))


def to_dtype(inpt: Any, dtype: Any = np.float32, scale: bool = False) -> Any:
    """Returns a tensor of another dtype; ``scale`` keeps white white, else the values stay."""
    return on_host.to_dtype(inpt, dtype, scale)


def get_size(inpt: Any) -> list[int]:
    """Returns [height, width]."""
    return get_dimensions(inpt)[1:]


def permute_channels(inpt: Any, permutation: list[int]) -> Any:
    """Puts the channels into another order."""
    return on_host.RandomChannelPermutation().apply(inpt, permutation)
