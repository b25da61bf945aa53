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

from netcl.data.transforms import functional as functional
from netcl.data.transforms import v2 as v2
from netcl.data.transforms.auto import RandAugment as RandAugment
from netcl.data.transforms.auto import TrivialAugmentWide as TrivialAugmentWide
from netcl.data.transforms.classes import CenterCrop as CenterCrop
from netcl.data.transforms.classes import ColorJitter as ColorJitter
from netcl.data.transforms.classes import Compose as Compose
from netcl.data.transforms.classes import ConvertImageDtype as ConvertImageDtype
from netcl.data.transforms.classes import FiveCrop as FiveCrop
from netcl.data.transforms.classes import GaussianBlur as GaussianBlur
from netcl.data.transforms.classes import Grayscale as Grayscale
from netcl.data.transforms.classes import Lambda as Lambda
from netcl.data.transforms.classes import LinearTransformation as LinearTransformation
from netcl.data.transforms.classes import Normalize as Normalize
from netcl.data.transforms.classes import Pad as Pad
from netcl.data.transforms.classes import PILToTensor as PILToTensor
from netcl.data.transforms.classes import RandomAdjustSharpness as RandomAdjustSharpness
from netcl.data.transforms.classes import RandomAffine as RandomAffine
from netcl.data.transforms.classes import RandomApply as RandomApply
from netcl.data.transforms.classes import RandomAutocontrast as RandomAutocontrast
from netcl.data.transforms.classes import RandomChoice as RandomChoice
from netcl.data.transforms.classes import RandomCrop as RandomCrop
from netcl.data.transforms.classes import RandomEqualize as RandomEqualize
from netcl.data.transforms.classes import RandomErasing as RandomErasing
from netcl.data.transforms.classes import RandomGrayscale as RandomGrayscale
from netcl.data.transforms.classes import RandomHorizontalFlip as RandomHorizontalFlip
from netcl.data.transforms.classes import RandomInvert as RandomInvert
from netcl.data.transforms.classes import RandomOrder as RandomOrder
from netcl.data.transforms.classes import RandomPerspective as RandomPerspective
from netcl.data.transforms.classes import RandomPosterize as RandomPosterize
from netcl.data.transforms.classes import RandomResizedCrop as RandomResizedCrop
from netcl.data.transforms.classes import RandomRotation as RandomRotation
from netcl.data.transforms.classes import RandomSolarize as RandomSolarize
from netcl.data.transforms.classes import RandomTransforms as RandomTransforms
from netcl.data.transforms.classes import RandomVerticalFlip as RandomVerticalFlip
from netcl.data.transforms.classes import Resize as Resize
from netcl.data.transforms.classes import TenCrop as TenCrop
from netcl.data.transforms.classes import ToPILImage as ToPILImage
from netcl.data.transforms.classes import ToTensor as ToTensor
from netcl.data.transforms.classes import Transform as Transform
from netcl.data.transforms.draws import Draws as Draws
from netcl.data.transforms.draws import use_draws as use_draws
from netcl.data.transforms.images import Image as Image
from netcl.data.transforms.images import InterpolationMode as InterpolationMode
from netcl.data.transforms.images import register_image_type as register_image_type

__all__ = [
    *("functional", "v2"),
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
    ),
]
