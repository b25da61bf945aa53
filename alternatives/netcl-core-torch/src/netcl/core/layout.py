"""Shapes, strides and axes: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.layout import *  # noqa: F403
from netcl_core_kit.layout import __all__ as __all__
