"""torch.accelerator: the GPU that a program without a name of its own means."""

from __future__ import annotations

from typing import Any

import netcl as nc
from netcl.torch.parts.devices.cuda import current_stream as current_stream
from netcl.torch.parts.devices.gpus import current_device as current_device_index
from netcl.torch.parts.devices.gpus import device as device_index
from netcl.torch.parts.devices.gpus import device_count as device_count
from netcl.torch.parts.devices.gpus import empty_cache as empty_cache
from netcl.torch.parts.devices.gpus import get_device_capability as get_device_capability
from netcl.torch.parts.devices.gpus import is_available as is_available
from netcl.torch.parts.devices.gpus import max_memory_allocated as max_memory_allocated
from netcl.torch.parts.devices.gpus import max_memory_reserved as max_memory_reserved
from netcl.torch.parts.devices.gpus import mem_get_info as get_memory_info
from netcl.torch.parts.devices.gpus import memory_allocated as memory_allocated
from netcl.torch.parts.devices.gpus import memory_reserved as memory_reserved
from netcl.torch.parts.devices.gpus import memory_stats as memory_stats
from netcl.torch.parts.devices.gpus import reset_peak_memory_stats as reset_peak_memory_stats
from netcl.torch.parts.devices.gpus import set_device as set_device_index
from netcl.torch.parts.devices.gpus import synchronize as synchronize

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]

current_device_idx = current_device_index
set_device_idx = set_device_index


def current_accelerator(check_available: bool = False) -> Any:
    """``device("cuda")`` if there is a GPU, else None."""
    return nc.device("cuda") if is_available() else None
