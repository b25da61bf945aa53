"""Modes of a thread: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.modes import *  # noqa: F403
from netcl_core_kit.modes import __all__ as __all__
