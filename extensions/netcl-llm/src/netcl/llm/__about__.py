"""The version of netcl-llm, and those of the layers that it works with; read by the build and at import."""

from __future__ import annotations

__version__ = "0.1.0"

# The ranges of pyproject.toml; tools/check_versions.py --fix writes both.
REQUIRES = (
    "netcl-core>=0.1,<0.2",
    "netcl-autograd>=0.1,<0.2",
    "netcl-nn>=0.1,<0.2",
    "netcl-optim>=0.1,<0.2",
    "netcl-data>=0.1,<0.2",
    "netcl-distributed>=0.1,<0.2",
    "netcl-trainer>=0.1,<0.2",
)
