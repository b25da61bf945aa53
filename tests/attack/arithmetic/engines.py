"""The engines that are here: NumPy, and each OpenCL driver that can be found."""

from __future__ import annotations

from functools import cache
from typing import Any

from netcl.core.device import manager
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DeviceNotFoundError

__all__ = ["engines"]


@cache
def engines() -> dict[str, Any]:
    """Returns the engines by selector."""
    found = {}
    for selector in ("cpu", "pocl", "intel", "oclgrind", "gpu"):
        try:
            handle = manager.default(selector)
        except (DeviceNotFoundError, ImportError):
            continue
        if handle is not None:
            found[selector] = engine_for(handle)
    return found
