"""The templates that define the operations of a warp, by the rows of ``netcl.core.tuning.warp_table``."""

from __future__ import annotations

WARP_TEMPLATES = {"nvidia": "warp_nvidia", "twin": "warp_twin"}
