"""netcl.core over PyTorch: Tensor, devices."""

from __future__ import annotations

from netcl.core.__about__ import __version__
from netcl.core.device import DeviceHandle, DeviceManager, manager
from netcl.core.tensor import Tensor

import netcl.ops  # noqa: F401  # isort: skip - registers the rows

__all__ = ["DeviceHandle", "DeviceManager", "Tensor", "__version__", "manager"]
