"""The OpenCL loader opened by pyopencl, for calls without a binding in pyopencl."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def loader() -> ctypes.CDLL | None:
    """Returns the library, or None if it cannot be found: not Linux, or a driver without a loader."""
    try:
        with Path("/proc/self/maps").open() as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libOpenCL" in line}
        return ctypes.CDLL(min(paths))
    except (OSError, ValueError):
        return None


def sizes(values: tuple[int, ...] | None) -> Any:
    """Returns a global or local size as an argument of a call: a reference to size_t[], None for None."""
    return None if values is None else ctypes.byref((ctypes.c_size_t * len(values))(*values))
