"""The switches of recording: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.grad_mode import *  # noqa: F403
from netcl_core_kit.grad_mode import __all__ as __all__
