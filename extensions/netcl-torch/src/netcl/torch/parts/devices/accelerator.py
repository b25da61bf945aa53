"""torch.accelerator: the GPU that a program without a name of its own means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import netcl as nc
from netcl.torch.parts.devices import gpus

current_device_index: Callable[[], int] = gpus.current_device
current_device_idx: Callable[[], int] = gpus.current_device
set_device_index: Callable[[Any], None] = gpus.set_device
set_device_idx: Callable[[Any], None] = gpus.set_device
device_index = gpus.device
get_memory_info: Callable[..., tuple[int, int]] = gpus.mem_get_info


def current_accelerator(check_available: bool = False) -> Any:
    """``device("cuda")`` if there is a GPU, else None."""
    return nc.device("cuda") if gpus.is_available() else None
