"""pyopencl as ``cl``; None if it is not installed, as the NumPy engine works without it."""

from __future__ import annotations

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

__all__ = ["cl"]
