"""``torchvision.models.feature_extraction``, which needs torch.fx: its names raise when they are called."""

from __future__ import annotations

from netcl.torch_vision.refused import refused

__all__: list[str] = []

__getattr__, __dir__ = refused("models.feature_extraction", globals())
