"""``torchvision.models.feature_extraction``, which needs torch.fx: its names raise when they are called."""

from __future__ import annotations

from typing import Any

from netcl.torch_vision.refused import Refusals

__all__: list[str] = []

_refusals = Refusals(
    "models.feature_extraction",
    "create_feature_extractor get_graph_node_names",
    "netcl has no graphs of torch.fx; take features by register_forward_hook",
)


def __getattr__(name: str) -> Any:
    return _refusals.find(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_refusals.names])
