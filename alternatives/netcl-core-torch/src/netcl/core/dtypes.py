"""Dtypes: those of netcl-core-kit, with their counterparts in PyTorch."""

from __future__ import annotations

import torch
from netcl_core_kit.dtypes import *  # noqa: F403
from netcl_core_kit.dtypes import OBJECTS
from netcl_core_kit.dtypes import __all__ as __all__

TORCH = {name: getattr(torch, name) for name in OBJECTS}
NAMES = {value: OBJECTS[name] for name, value in TORCH.items()}
