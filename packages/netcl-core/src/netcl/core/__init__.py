"""The foundation of netcl: devices, memory, tensors, and the narrow interface that every computation uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.core.process.interpreters import refuse_subinterpreters
from netcl.siblings import refuse_stranger

refuse_stranger(__name__)
refuse_subinterpreters()  # before NumPy, which warns and goes on

from netcl.core.__about__ import __version__ as __version__  # noqa: E402
from netcl.core.device.discovery import DeviceHandle, DeviceManager, manager  # noqa: E402
from netcl.core.tensor.tensor import Tensor  # noqa: E402

if TYPE_CHECKING:
    from netcl.core.memory.queue_pools import BufferHandle, BufferPool

__all__ = ["BufferHandle", "BufferPool", "DeviceHandle", "DeviceManager", "Tensor", "manager"]


def __getattr__(name: str) -> Any:
    """``memory`` and its names of OpenCL's pools, which import pyopencl: the NumPy engine starts without it."""
    if name not in ("BufferHandle", "BufferPool", "memory"):
        raise AttributeError(f"module 'netcl.core' has no attribute {name!r}")
    from importlib import import_module

    memory = import_module("netcl.core.memory.queue_pools" if name != "memory" else "netcl.core.memory")
    value = globals()[name] = memory if name == "memory" else getattr(memory, name)
    return value
