"""netcl.profiling: timing of calls, profiles of a block of code, and the autotuner of kernel variants."""

from __future__ import annotations

from importlib import import_module

__all__ = [
    "EventTimer",
    "WorkGroupTuner",
    "autotuner",
    "named_layers",
    "profile",
    "region",
    "report",
    "roofline",
    "timing",
    "trace",
]

_MODULES = ("autotuner", "report", "timing", "trace")
_NAMES = {
    "EventTimer": "timing",
    "region": "timing",
    "WorkGroupTuner": "autotuner",
    "named_layers": "layers",
    "profile": "trace",
    "roofline": "report",
}


def __getattr__(name: str) -> object:
    """Imports modules, and names that belong to them, at first access."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
