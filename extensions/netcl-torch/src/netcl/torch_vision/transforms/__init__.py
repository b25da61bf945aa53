"""``torchvision.transforms``: the transforms of netcl.data, of which conversions from pictures give tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.data import transforms as on_host
from netcl.torch_vision.refused import refused
from netcl.torch_vision.transforms import functional, host_chain, v2  # noqa: F401

__all__ = sorted({*on_host.__all__} - {"Draws", "Image", "Transform", "register_image_type", "use_draws"})

# The transforms without a conversion; the others are below.
globals().update({name: getattr(on_host, name) for name in __all__ if name not in globals()})


class ToTensor(on_host.ToTensor):
    """Converts a PIL image or an array (H, W, C) to a tensor (C, H, W): uint8 becomes float32 in [0, 1]."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return functional.to_tensor(img)


class PILToTensor(on_host.PILToTensor):
    """Converts a PIL image to a tensor (C, H, W) of its own dtype."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return functional.pil_to_tensor(img)


class Compose(on_host.Compose):
    """Applies transforms one after the other; an image that ``ToTensor`` converts becomes a tensor after the last
    transform that can be computed on the host.
    """

    def __call__(self, img: Any, /) -> Any:
        return host_chain.run(self.transforms, img, _CONVERSIONS)


class ToPILImage(on_host.ToPILImage):
    """Converts a tensor (C, H, W) or an array (H, W, C) to a PIL image."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return functional.to_pil_image(img, self.mode)


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {ToTensor: on_host.ToTensor(), PILToTensor: on_host.PILToTensor()}

__getattr__, __dir__ = refused("transforms", globals())
