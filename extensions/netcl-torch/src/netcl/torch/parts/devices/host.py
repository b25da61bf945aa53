"""torch.cpu: the CPU as a device."""

from __future__ import annotations

from typing import Any

from netcl.autograd.prediction import flush
from netcl.core import manager
from netcl.torch.parts.devices.cuda import stream as stream


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Waits for the work of the CPU device."""
    flush()
    handle = manager.default("cpu")
    if handle is not None:
        handle.queue.finish()
