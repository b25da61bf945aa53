"""Writes in place: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.in_place import *  # noqa: F403
from netcl_core_kit.in_place import __all__ as __all__
