"""Runs a list of transforms with one tensor at its end: what follows a conversion is computed on its array.

A tensor between two transforms would be written to its device and read back for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.data.transforms import Lambda, TenCrop, ToPILImage, Transform, v2
from netcl.data.transforms.classes import FiveCrop
from netcl.torch_vision.tensors import tensor_of

_MODULES = ("netcl.data.transforms.classes", "netcl.data.transforms.auto", "netcl.data.transforms.v2")
# Transforms of which the result is no image, or that call a function of the program.
_OTHERS = (FiveCrop, Lambda, TenCrop, ToPILImage, v2.Identity, v2.Lambda)


def _takes_arrays(transform: Any) -> bool:
    """True for a transform of netcl.data itself; a class derived from one may expect a tensor."""
    kind = type(transform)
    return isinstance(transform, Transform) and kind.__module__ in _MODULES and not isinstance(transform, _OTHERS)


def run(transforms: Sequence[Callable[[Any], Any]], img: Any, conversions: Mapping[type, Callable[[Any], Any]]) -> Any:
    """Returns the image after all transforms; ``conversions`` gives for a class that makes a tensor the function that
    makes the array.
    """
    waiting = False
    for transform in transforms:
        converted = conversions.get(type(transform))
        if converted is not None and not waiting:
            made = converted(img)
            waiting = isinstance(made, np.ndarray)
            img = made
        elif waiting and _takes_arrays(transform):
            img = transform(img)
        else:
            img = transform(tensor_of(img) if waiting else img)
            waiting = False
    return tensor_of(img) if waiting else img
