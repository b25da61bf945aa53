"""The public path of ``netcl.core.tuning.selector``."""

from __future__ import annotations

from netcl.core.tuning.selector import *  # noqa: F403
