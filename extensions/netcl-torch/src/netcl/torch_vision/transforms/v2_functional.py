"""``torchvision.transforms.v2.functional``: the functions of netcl.data under their names of version 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.data.transforms import v2 as on_host
from netcl.torch_vision.tensors import tensor_of
from netcl.torch_vision.transforms import functional

_OWN = "get_num_channels get_size horizontal_flip permute_channels to_dtype to_image vertical_flip"
__all__ = sorted([*functional.__all__, *_OWN.split()])

globals().update({name: getattr(functional, name) for name in functional.__all__})

horizontal_flip: Callable[..., Any] = on_host.functional.hflip
vertical_flip: Callable[..., Any] = on_host.functional.vflip
get_num_channels: Callable[..., Any] = on_host.functional.get_image_num_channels


def to_image(inpt: Any) -> Any:
    """Returns a PIL image or an array (H, W, C) as a tensor (C, H, W) of the same dtype; a tensor stays."""
    return inpt if isinstance(inpt, Tensor) else tensor_of(on_host.to_image(inpt))


def to_dtype(inpt: Any, dtype: Any = np.float32, scale: bool = False) -> Any:
    """Returns a tensor of another dtype; ``scale`` keeps white white, else the values stay."""
    return on_host.to_dtype(inpt, dtype, scale)


def get_size(inpt: Any) -> list[int]:
    """Returns [height, width]."""
    return on_host.functional.get_dimensions(inpt)[1:]


def permute_channels(inpt: Any, permutation: list[int]) -> Any:
    """Puts the channels into another order."""
    return on_host.RandomChannelPermutation().apply(inpt, permutation)
