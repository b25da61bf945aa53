"""``torchvision.models``: classification models without trained weights; other models raise when they are called."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.torch_vision.models import branched, feature_extraction, inverted, plain, resnet, staged
from netcl.torch_vision.models.blocks import BUILDERS
from netcl.torch_vision.models.resnet import ResNet
from netcl.torch_vision.refused import Refusals

__all__ = ["ResNet", "feature_extraction", "get_model", "list_models", "resnet", *resnet.RESNETS]

# Modules of torchvision with the file that has their classes and builders.
FAMILIES: dict[str, ModuleType] = {
    **dict.fromkeys(("alexnet", "squeezenet", "vgg"), plain),
    **dict.fromkeys(("efficientnet", "mnasnet", "mobilenet", "mobilenetv2", "mobilenetv3"), inverted),
    **dict.fromkeys(("densenet", "googlenet", "shufflenetv2"), branched),
    **dict.fromkeys(("convnext", "regnet", "vision_transformer"), staged),
}


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """Returns the names of the models that are here, in alphabetical order. Filters raise UnsupportedError."""
    if module is not None or include is not None or exclude is not None:
        raise UnsupportedError("list_models takes no filters here", op="list_models")
    return sorted(BUILDERS)


def get_model(name: str, **config: Any) -> Any:
    """Returns the model of a name, built with the keywords. Raises ValueError for a name that is not here."""
    builder = BUILDERS.get(name.lower())
    if builder is None:
        raise ValueError(f"there is no model {name!r} in netcl; there are {', '.join(list_models())}")
    return builder(**config)


_weights = Refusals("models weights")
_refusals = Refusals("models")


def __getattr__(name: str) -> Any:
    if name in BUILDERS:
        return BUILDERS[name]
    for family in dict.fromkeys(FAMILIES.values()):
        if name in family.__all__:
            return getattr(family, name)
    return (_weights if name in _weights.names else _refusals).find(name)


for _family in FAMILIES.values():
    vars(_family).setdefault("__getattr__", _weights.find)


def __dir__() -> list[str]:
    classes = (name for family in FAMILIES.values() for name in family.__all__)
    return sorted({*globals(), *BUILDERS, *classes, *_weights.names, *_refusals.names})
