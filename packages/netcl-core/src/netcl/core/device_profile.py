"""The public path of ``netcl.core.device.profile``."""

from __future__ import annotations

from netcl.core.device.profile import *  # noqa: F403
