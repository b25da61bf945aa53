"""The NETCL_ variables: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.config import *  # noqa: F403
from netcl_core_kit.config import __all__ as __all__
