"""``torchvision.tv_tensors``: its types can be named in isinstance, and raise when they are called."""

from __future__ import annotations

from netcl.torch_vision.refused import refused

__all__: list[str] = []

__getattr__, __dir__ = refused("tv_tensors", globals())
