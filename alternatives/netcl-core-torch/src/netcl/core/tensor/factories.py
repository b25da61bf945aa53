"""Functions of the front that make tensors: those of netcl-core-kit, and PyTorch's draws."""

from __future__ import annotations

from typing import Any

import torch
from netcl_core_kit.factories import *  # noqa: F403
from netcl_core_kit.factories import __all__ as __all__

from netcl.core.tensor import Tensor
from netcl.core.tensor.generator import current, drawing_from


def _by_torch(name: str) -> Any:
    def draw(*given: Any, generator: Any = None, **more: Any) -> Any:
        with drawing_from(generator):
            source = torch.Generator(device="cpu").manual_seed(current().draw_seed())
        host = [one._t.cpu() if isinstance(one, Tensor) else one for one in given]
        engine = next(one.engine for one in given if isinstance(one, Tensor))
        return engine.wrap(getattr(torch, name)(*host, generator=source, **more).to(engine.place))

    return draw


poisson, binomial, multinomial = (_by_torch(_name) for _name in ("poisson", "binomial", "multinomial"))


def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    """The coordinates of all points of a grid."""
    flat = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(flat[0].engine.wrap(one.clone()) for one in torch.meshgrid(*(t._t for t in flat), indexing=indexing))
