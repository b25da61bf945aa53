"""The foundation of netcl: devices, memory, tensors, and the narrow waist that every computation passes."""

from __future__ import annotations

from netcl.core.__about__ import __version__ as __version__
from netcl.core.device import DeviceHandle, DeviceManager, manager
from netcl.core.memory import BufferHandle, BufferPool
from netcl.core.tensor import Tensor

__all__ = ["BufferHandle", "BufferPool", "DeviceHandle", "DeviceManager", "Tensor", "manager"]
