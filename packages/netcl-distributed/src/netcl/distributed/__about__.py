"""The version of netcl-distributed, read by the build."""

from __future__ import annotations

__version__ = "0.1.0"
