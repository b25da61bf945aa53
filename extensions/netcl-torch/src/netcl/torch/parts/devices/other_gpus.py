"""torch.mps and torch.xpu: other names of the same GPUs."""

from __future__ import annotations

from collections.abc import Callable

from netcl.torch.parts.devices import gpus

TORCH_NAMES = (
    *("Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache"),
    *("get_device_name", "get_device_properties", "get_rng_state", "is_available", "manual_seed", "manual_seed_all"),
    *("max_memory_allocated", "memory_allocated", "memory_reserved", "seed", "set_device", "set_rng_state", "stream"),
    "synchronize",
)
current_allocated_memory: Callable[..., int] = gpus.memory_allocated
driver_allocated_memory: Callable[..., int] = gpus.memory_reserved


def recommended_max_memory() -> int:
    """The bytes of the GPU."""
    return int(gpus.get_device_properties().total_memory)
