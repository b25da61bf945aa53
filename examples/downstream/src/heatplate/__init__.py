"""Heat that spreads over a plate, on any OpenCL device."""

from __future__ import annotations

from heatplate.plate import Plate

__all__ = ["Plate"]
