"""The public path of ``netcl.core.engine.protocol``."""

from __future__ import annotations

from netcl.core.engine.protocol import *  # noqa: F403
