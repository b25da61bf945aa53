"""What a device can do."""

from __future__ import annotations

import os
from typing import Any

import torch
from netcl_core_kit.device import DeviceProfile

__all__ = ["DeviceProfile", "profile_of"]


def profile_of(handle: Any) -> DeviceProfile:
    """The profile of a handle, from PyTorch or the operating system."""
    place = handle.queue.place
    if place.type in ("cuda", "xpu"):
        found = getattr(torch, place.type).get_device_properties(place.index)
        units = getattr(found, "multi_processor_count", 0) or getattr(found, "max_compute_units", 1)
        return DeviceProfile(found.name, "PyTorch", "GPU", units, found.total_memory)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    kind = "CPU" if place.type == "cpu" else "GPU"
    return DeviceProfile(handle.device_name, "PyTorch", kind, os.cpu_count() or 1, memory, has_fp64=kind == "CPU")
