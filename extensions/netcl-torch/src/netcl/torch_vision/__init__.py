"""torchvision's module layout over netcl, for programs that run under netcl.torch where torchvision is not installed.

Transforms and datasets are those of netcl.data, with tensors; nothing is downloaded. ``models`` has classification
models, ``ops`` their parts. Other names of torchvision can be imported and raise UnsupportedError when they are called.

Example:
    >>> import sys
    >>> from netcl import torch_vision
    >>> sys.modules.update(torch_vision.modules())
    >>> from torchvision.transforms.functional import InterpolationMode
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from netcl.siblings import Checked as _Checked

with _Checked("torch"):
    from netcl.core.errors import UnsupportedError
    from netcl.data.transforms import use_draws
    from netcl.torch_vision import datasets, grids, io, models, ops, transforms, tv_tensors
    from netcl.torch_vision.draws import TorchDraws
    from netcl.torch_vision.refused import refused

__all__ = [
    "TorchDraws", "__version__", "datasets", "get_image_backend", "io", "models", "modules", "ops",
    "set_image_backend", "transforms", "tv_tensors", "utils",
]  # fmt: skip

# The release of torchvision that the names and numbers are those of.
__version__ = "0.28.0+netcl"


utils = grids


def get_image_backend() -> str:
    """Returns "PIL", the library that reads image files."""
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Accepts "PIL"; raises UnsupportedError for others."""
    if backend != "PIL":
        raise UnsupportedError(f"image files are read by PIL, not by {backend!r}", op="set_image_backend")


# Modules of torchvision that are parts of one module here.
_PARTS: dict[str, tuple[str, ModuleType]] = {
    "datasets": ("cifar fakedata folder mnist vision", datasets),
    "io": ("image", io),
    "ops": ("boxes misc", ops),
    "transforms": ("autoaugment transforms", transforms),
}
# Modules of torchvision of which all names that programs import are refused.
_ABSENT = ("datasets.utils", "models._utils", "models.detection", "models.segmentation")


def _absent(place: str) -> ModuleType:
    module = ModuleType(f"netcl.torch_vision.{place}", f"torchvision.{place}, of which netcl has nothing.")
    module.__getattr__, module.__dir__ = refused(place, {})  # type: ignore[method-assign]
    return module


def modules(torch: Any = None) -> dict[str, ModuleType]:
    """Returns the modules by torchvision's dotted names, for ``sys.modules``.

    With ``torch``, a module with PyTorch's names, transforms draw their random numbers by its functions from then on,
    in this process: ``torch.manual_seed`` decides them.
    """
    if torch is not None:
        use_draws(TorchDraws(torch))
    found = {"torchvision": sys.modules[__name__]}
    found["torchvision.utils"] = utils
    for module in (datasets, io, models, ops, transforms, tv_tensors):
        found[f"torchvision.{module.__name__.rpartition('.')[2]}"] = module
    found["torchvision.models.resnet"] = models.resnet
    found["torchvision.models.feature_extraction"] = models.feature_extraction
    for name, module in models.FAMILIES.items():
        found[f"torchvision.models.{name}"] = module
    found["torchvision.transforms.functional"] = transforms.functional
    found["torchvision.transforms.v2"] = transforms.v2
    found["torchvision.transforms.v2.functional"] = transforms.v2.functional
    for place, (names, module) in _PARTS.items():
        found.update({f"torchvision.{place}.{name}": module for name in names.split()})
    for place in _ABSENT:
        found[f"torchvision.{place}"] = _absent(place)
    for place, module in found.items():
        parent, _, name = place.rpartition(".")
        # Functions with the name of their module, as alexnet: the attribute of the parent is the function.
        if parent and not hasattr(found[parent], name):
            setattr(found[parent], name, module)
    return found
