"""The version of netcl-data, and the versions of other layers that it works with; read by the build and at import."""

from __future__ import annotations

__version__ = "0.1.0"

# The ranges of pyproject.toml, here of the extra `device`; tools/check_versions.py --fix writes both.
REQUIRES = ("netcl-core>=0.1,<0.2",)
