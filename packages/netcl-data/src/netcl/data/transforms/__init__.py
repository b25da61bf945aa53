"""Transforms of images with torchvision's names, defaults and numbers, on PIL images and arrays; needs NumPy only.

An image is a PIL image (``pip install netcl-data[image]``), an array of integers (H, W) or (H, W, C), or planes (...,
C, H, W): floating values, or an ``Image``, which marks integers as planes. A PIL image is changed by Pillow, an array
in NumPy; the result is of the same kind, and a ``Compose`` that ends with ``ToTensor`` and ``Normalize`` gives float32
(C, H, W). Random numbers come from ``numpy.random``, which the DataLoader seeds for each sample.

Example:
    >>> import numpy as np
    >>> from netcl.data.transforms import Compose, Normalize, RandomHorizontalFlip, Resize, ToTensor
    >>> prepare = Compose([Resize(8), RandomHorizontalFlip(), ToTensor(), Normalize([0.5], [0.5])])
    >>> prepare(np.zeros((16, 24, 3), np.uint8)).shape
    (3, 8, 12)
"""

from __future__ import annotations

from netcl.data.transforms import functional, v2
from netcl.data.transforms.auto import RandAugment, TrivialAugmentWide
from netcl.data.transforms.classes import (
    CenterCrop,
    ColorJitter,
    Compose,
    ConvertImageDtype,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    Lambda,
    LinearTransformation,
    Normalize,
    Pad,
    PILToTensor,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomTransforms,
    RandomVerticalFlip,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
    Transform,
)
from netcl.data.transforms.draws import Draws, use_draws
from netcl.data.transforms.images import Image, InterpolationMode, register_image_type

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "Draws",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "Image",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomTransforms",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "Transform",
    "TrivialAugmentWide",
    "functional",
    "register_image_type",
    "use_draws",
    "v2",
]
