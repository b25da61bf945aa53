"""``torchvision.transforms.functional``: the functions of netcl.data; conversions from pictures give tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.data.transforms import functional as on_host
from netcl.torch_vision.refused import refused
from netcl.torch_vision.tensors import tensor_of

__all__ = [*on_host.__all__]

# The functions without a conversion; the others are below.
globals().update({name: getattr(on_host, name) for name in __all__ if name not in globals()})


def to_tensor(pic: Any) -> Tensor:
    """Returns a PIL image or an array (H, W) or (H, W, C) as a tensor (C, H, W): float32 in [0, 1] if it is uint8."""
    return tensor_of(on_host.to_tensor(pic))


def pil_to_tensor(pic: Any) -> Tensor:
    """Returns a PIL image as a tensor (C, H, W) of its own dtype."""
    return tensor_of(on_host.pil_to_tensor(pic))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Returns a tensor (C, H, W) or (H, W), or an array (H, W, C), as a PIL image; see ``netcl.data.transforms``."""
    if isinstance(pic, np.ndarray) and pic.dtype.kind == "f":
        # torchvision reads arrays of any dtype as (H, W, C), and floating ones as mode F.
        rows = pic if pic.ndim == 2 else pic[:, :, 0] if pic.shape[-1] == 1 else None
        if rows is None:
            raise TypeError(f"to_pil_image: a floating array must be (H, W) or (H, W, 1), got shape {pic.shape}")
        return on_host.to_pil_image(rows, "F")
    return on_host.to_pil_image(pic, mode)


__getattr__, __dir__ = refused("transforms.functional", globals())
