"""Augmentations of image batches on a device, with the same numbers as the host versions and no copy to the host.

The functions need netcl-core; ``device_augment``, which has them, is imported when one of them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netcl.data.device_augment import apply_color_jitter as apply_color_jitter
    from netcl.data.device_augment import cutout as cutout
    from netcl.data.device_augment import flip_horizontal as flip_horizontal

__all__ = ["apply_color_jitter", "cutout", "flip_horizontal"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("netcl.data.device_augment"), name)
