"""``torchvision.transforms.v2``: the transforms of netcl.data, of which conversions from pictures give tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.core import Tensor
from netcl.data.transforms import v2 as on_host
from netcl.torch_vision.refused import refused
from netcl.torch_vision.transforms import functional as of_version_1
from netcl.torch_vision.transforms import host_chain, v2_functional

__all__ = sorted({*on_host.__all__} - {"Image", "to_dtype", "to_image"})

functional = v2_functional
# The transforms without a conversion; the others are below.
globals().update({name: getattr(on_host, name) for name in __all__ if name not in globals()})


class ToTensor(on_host.ToTensor):
    """Converts a PIL image or an array (H, W, C) to a tensor (C, H, W): uint8 becomes float32 in [0, 1]."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return of_version_1.to_tensor(img)


class PILToTensor(on_host.PILToTensor):
    """Converts a PIL image to a tensor (C, H, W) of its own dtype."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return of_version_1.pil_to_tensor(img)


class Compose(on_host.Compose):
    """Applies transforms of samples one after the other; a single image that ``ToImage`` or ``ToTensor`` converts
    becomes a tensor after the last transform that can be computed on the host.
    """

    def __call__(self, *inputs: Any) -> Any:
        if len(inputs) == 1 and not isinstance(inputs[0], (dict, tuple, list)):
            return host_chain.run(self.transforms, inputs[0], _CONVERSIONS)
        return super().__call__(*inputs)


class ToPILImage(on_host.ToPILImage):
    """Converts a tensor (C, H, W) or an array (H, W, C) to a PIL image."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return of_version_1.to_pil_image(img, self.mode)


class ToImage(on_host.ToImage):
    """Converts PIL images and arrays (H, W, C) to tensors (C, H, W) of the same dtype; tensors stay."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return functional.to_image(img)


class ToPureTensor(on_host.ToPureTensor):
    """Returns tensors as they are: there are no other types of them here."""

    def apply(self, img: Any, drawn: Any) -> Any:
        return img if isinstance(img, Tensor) else super().apply(img, drawn)


def _array_of(image: Any) -> Any:
    return image if isinstance(image, Tensor) else on_host.to_image(image)


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    ToTensor: on_host.ToTensor(),
    PILToTensor: on_host.PILToTensor(),
    ToImage: _array_of,
}

__getattr__, __dir__ = refused("transforms.v2", globals())
