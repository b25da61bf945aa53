"""The version of netcl-data, read by the build and by nothing else at run time."""

from __future__ import annotations

__version__ = "0.1.0"
