"""torch.mps and torch.xpu: other names of the same GPUs."""

from __future__ import annotations

from netcl.torch.parts.devices.cuda import Event as Event
from netcl.torch.parts.devices.cuda import Stream as Stream
from netcl.torch.parts.devices.cuda import current_device as current_device
from netcl.torch.parts.devices.cuda import current_stream as current_stream
from netcl.torch.parts.devices.cuda import device as device
from netcl.torch.parts.devices.cuda import device_count as device_count
from netcl.torch.parts.devices.cuda import empty_cache as empty_cache
from netcl.torch.parts.devices.cuda import get_device_name as get_device_name
from netcl.torch.parts.devices.cuda import get_device_properties as get_device_properties
from netcl.torch.parts.devices.cuda import get_rng_state as get_rng_state
from netcl.torch.parts.devices.cuda import is_available as is_available
from netcl.torch.parts.devices.cuda import manual_seed as manual_seed
from netcl.torch.parts.devices.cuda import manual_seed_all as manual_seed_all
from netcl.torch.parts.devices.cuda import max_memory_allocated as max_memory_allocated
from netcl.torch.parts.devices.cuda import memory_allocated as memory_allocated
from netcl.torch.parts.devices.cuda import memory_reserved as memory_reserved
from netcl.torch.parts.devices.cuda import seed as seed
from netcl.torch.parts.devices.cuda import set_device as set_device
from netcl.torch.parts.devices.cuda import set_rng_state as set_rng_state
from netcl.torch.parts.devices.cuda import stream as stream
from netcl.torch.parts.devices.cuda import synchronize as synchronize

TORCH_NAMES: tuple[str, ...] = (
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache", "get_device_name",
    "get_device_properties", "get_rng_state", "is_available", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "memory_reserved", "seed", "set_device", "set_rng_state", "stream",
    "synchronize", "current_allocated_memory", "driver_allocated_memory", "recommended_max_memory",
)  # fmt: skip
current_allocated_memory = memory_allocated
driver_allocated_memory = memory_reserved


def recommended_max_memory() -> int:
    """The bytes of the GPU."""
    return int(get_device_properties().total_memory)
