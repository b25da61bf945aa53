"""PyTorch's own modules for this core and for PyTorch, while ``import torch`` of other modules means another library."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from netcl_core_kit.freed_name import free_name

__all__ = ["free_torch_name"]

_INSIDE = ("torch", "netcl.core", "netcl.ops", "netcl_core_kit", "functorch", "torchgen")


def _load_classes() -> None:
    """Makes PyTorch's compiled code load the classes of symbolic numbers and of storages, which it does once."""
    wrong: Any = object()
    torch.ones(1).set_(torch.ones(1).untyped_storage())
    ones = torch.ones(1)
    for call in (ones.normal_, ones.sum, ones.fill_, lambda value: ones.sum(0, value)):
        with suppress(TypeError):
            call(wrong)


def free_torch_name() -> bool:
    """Takes PyTorch out of ``sys.modules``, so that the name torch is free; imports of it by PyTorch and by this core
    find it still. Returns True.
    """
    return free_name("torch", _INSIDE, _load_classes)
