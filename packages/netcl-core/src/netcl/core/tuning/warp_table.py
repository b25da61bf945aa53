"""Tells which devices have the operations of a warp and of work-groups that wait for earlier ones, and tries them.

Kernels that use them wait for the states of work-groups with earlier tickets (decoupled look-back), so a row is only
for devices on which a started work-group keeps running while others wait for it. A row without ``may_have`` is a
software emulation (twin) for tests, requested by name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile
from netcl.core.device.drivers.child_probe import driver_key, verdict
from netcl.core.tuning.unit_table import Presence, nvidia

_TIMEOUT_S = 60.0
# os._exit skips the driver's shutdown, which is not tested.
_CHILD = """\
import os
from netcl.core.backend.opencl.kernels.sorts.sweep_trial import run_trial
os._exit(run_trial({name!r}, sys.argv[1]))
"""


class WarpRow(NamedTuple):
    """A row of the table: the name, and True for profiles of devices that may have the operations; the text of the
    operations is in ``kernels/warps/``.
    """

    name: str
    may_have: Presence | None


WARPS = {row.name: row for row in (WarpRow("nvidia", nvidia((7, 0))), WarpRow("twin", None))}


def warp_of(profile: DeviceProfile) -> str | None:
    """Returns the first row of the table for the device that sorted right in a child process, at the first call for a
    driver version; None if there is none, or with NETCL_KERNEL_STRATEGY=portable.
    """
    if profile._device is None or config.get("KERNEL_STRATEGY") == "portable":
        return None
    possible = (row.name for row in WARPS.values() if row.may_have is not None and row.may_have(profile))
    return next((name for name in possible if _is_right(profile._device, name)), None)


@lru_cache(maxsize=64)
def _is_right(device: Any, name: str) -> bool:
    key = driver_key(device)
    return verdict(f"warp_{name}", key, _CHILD.format(name=name), _TIMEOUT_S, key, unexpected=True)
