"""The foundation of netcl: devices, memory, tensors, and the narrow interface that every computation uses."""

from __future__ import annotations

from netcl.core.__about__ import __version__ as __version__
from netcl.core.device.discovery import DeviceHandle, DeviceManager, manager
from netcl.core.memory.queue_pools import BufferHandle, BufferPool
from netcl.core.tensor.tensor import Tensor

__all__ = ["BufferHandle", "BufferPool", "DeviceHandle", "DeviceManager", "Tensor", "manager"]
