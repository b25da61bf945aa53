"""The place outside of netcl: that of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.user_frame import *  # noqa: F403
from netcl_core_kit.user_frame import __all__ as __all__
