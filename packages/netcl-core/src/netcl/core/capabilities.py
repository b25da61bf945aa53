"""The public path of ``netcl.core.device.capabilities``."""

from __future__ import annotations

from netcl.core.device.capabilities import *  # noqa: F403
