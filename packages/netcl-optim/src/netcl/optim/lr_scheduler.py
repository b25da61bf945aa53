"""The schedules under the name of PyTorch's module."""

from __future__ import annotations

from netcl.optim import schedules
from netcl.optim.plateau import ReduceLROnPlateau
from netcl.optim.schedules import *  # noqa: F403

__all__ = ["ReduceLROnPlateau", *schedules.__all__]
