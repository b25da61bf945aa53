"""``torchvision.tv_tensors``: its types can be named in isinstance, and raise when they are called."""

from __future__ import annotations

from typing import Any

from netcl.torch_vision.refused import Refusals

__all__: list[str] = []

_refusals = Refusals(
    "tv_tensors",
    "BoundingBoxFormat BoundingBoxes Image KeyPoints Mask TVTensor Video wrap",
    "images are plain tensors here; boxes, masks and videos have no types",
)


def __getattr__(name: str) -> Any:
    return _refusals.find(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_refusals.names])
