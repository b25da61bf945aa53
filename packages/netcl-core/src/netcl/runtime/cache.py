"""Public names of the program cache, which is implemented in netcl.core."""

from __future__ import annotations

from typing import Any

from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache, ProgramStats, default_cache

__all__ = ["ProgramCache", "ProgramStats", "cacher", "default_cache"]

cacher: ProgramCache


def __getattr__(name: str) -> Any:
    """Returns ``cacher``, the ProgramCache of the process, made at first access."""
    if name == "cacher":
        return default_cache()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
