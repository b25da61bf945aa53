"""Device memory: the pools of each queue and context, and buffers that host and device share."""

from __future__ import annotations

from netcl.siblings import refuse_stranger

refuse_stranger(__name__)

from netcl.core.memory.queue_pools import *  # noqa: E402, F403
from netcl.core.memory.queue_pools import __all__ as __all__  # noqa: E402
