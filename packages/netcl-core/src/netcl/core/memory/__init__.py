"""Device memory: the pools of each queue and context, and buffers that host and device share."""

from __future__ import annotations

from netcl.core.memory.queue_pools import *  # noqa: F403
from netcl.core.memory.queue_pools import __all__ as __all__
