"""The engines of queues and tensors: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.engines import *  # noqa: F403
from netcl_core_kit.engines import __all__ as __all__
from netcl_core_kit.engines import use_engine

from netcl.core.engine.protocol import DeviceBackend

use_engine(DeviceBackend)
