"""The public path of ``netcl.core.engine.registry``."""

from __future__ import annotations

from netcl.core.engine.registry import *  # noqa: F403
