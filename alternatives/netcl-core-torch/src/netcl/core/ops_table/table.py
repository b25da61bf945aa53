"""The table, by the path that netcl's front imports."""

from __future__ import annotations

from netcl.core.ops_table.dispatch import TABLE

__all__ = ["TABLE"]
