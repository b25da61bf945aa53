"""Draws with PyTorch's numbers: as netcl-core-kit has them."""

from __future__ import annotations

from netcl_core_kit.host_draws import *  # noqa: F403
from netcl_core_kit.host_draws import __all__ as __all__
