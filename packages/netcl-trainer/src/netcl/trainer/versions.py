"""The versions of what a run stands on: Python, netcl's distributions, NumPy and the drivers' binding."""

from __future__ import annotations

import importlib.metadata
import platform

__all__ = ["versions"]

_DISTRIBUTIONS = (
    *(f"netcl-{part}" for part in ("core", "autograd", "nn", "optim", "data", "distributed", "trainer")),
    "numpy",
    "pyopencl",
)


def versions() -> list[str]:
    """``name version`` of each that is installed, Python with its system first."""
    found = [f"Python {platform.python_version()} on {platform.platform()}"]
    for name in _DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
