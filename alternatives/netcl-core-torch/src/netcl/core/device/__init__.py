"""Devices of PyTorch as devices of netcl."""

from __future__ import annotations

import platform

import torch
from netcl_core_kit.device import *  # noqa: F403
from netcl_core_kit.device import CPUQueue, DeviceHandle, Queue, use_devices

from netcl.core.device_profile import profile_of
from netcl.core.torch_name import free_torch_name as free_torch_name

_GPUS = ("cuda", "xpu", "mps")


def drivers_loaded() -> bool:
    """True if a driver other than the CPU's is in use, from which on a fork is unsafe."""
    return bool(torch.cuda.is_initialized())


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _handles() -> list[DeviceHandle]:
    """PyTorch's GPUs, then its CPU."""
    found = []
    for kind in _GPUS:
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            for number in range(module.device_count()):
                name = module.get_device_name(number) if hasattr(module, "get_device_name") else kind
                queue = Queue(torch.device(kind, number))
                found.append(DeviceHandle("PyTorch", name, kind, "gpu", None, queue))
    return [*found, DeviceHandle("PyTorch", _processor(), "cpu", "cpu", None, CPUQueue(torch.device("cpu")))]


def _wait(place: torch.device) -> None:
    getattr(torch, place.type).synchronize()


use_devices(_handles, _wait, profile_of, _GPUS)
