"""The place of a tensor in the graph: as netcl-core-kit has it."""

from __future__ import annotations

from netcl_core_kit.gradients import *  # noqa: F403
from netcl_core_kit.gradients import __all__ as __all__
