"""The public path of ``netcl.core.ops_table.dispatch``."""

from __future__ import annotations

from netcl.core.ops_table.dispatch import *  # noqa: F403
