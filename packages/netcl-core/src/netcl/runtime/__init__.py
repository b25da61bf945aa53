"""Services that the layers above share: the program cache, captured steps, graphs, staging memory and streams."""

from __future__ import annotations

__all__ = ["cache", "capture", "graph", "staging", "stream"]


def __getattr__(name: str) -> object:
    """Imports submodules at first access."""
    if name in __all__:
        import importlib

        return importlib.import_module(f"netcl.runtime.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
