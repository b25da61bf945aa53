"""Tells if a driver computes the kernels for few channels right: by a trial on PoCL from 4 on."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from netcl.core.device.drivers.child_probe import driver_key, verdict
from netcl.core.device.drivers.quirks import pocl_major

_TIMEOUT_S = 60.0
# os._exit skips the driver's shutdown, which is not tested.
_CHILD = """\
import os
from netcl.core.backend.opencl.contraction.channels_trial import run_trial
os._exit(run_trial(sys.argv[1]))
"""


def few_channels_work(engine: Any) -> bool:
    """True if the kernels are right: on PoCL from 4 on by a trial, at the first call for a driver version."""
    return _work(engine.queue.device)


@lru_cache(maxsize=64)
def _work(device: Any) -> bool:
    if (pocl_major(device.platform.version) or 3) <= 3:
        return True
    key = driver_key(device)
    return verdict("few_channels", key, _CHILD, _TIMEOUT_S, key, unexpected=True)
