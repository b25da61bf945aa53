"""Keys of ``x[key]``: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.keys import *  # noqa: F403
from netcl_core_kit.keys import __all__ as __all__
