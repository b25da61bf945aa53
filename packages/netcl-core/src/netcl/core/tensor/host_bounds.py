"""The bound of arrays that are made in the host's memory, on their way to a device."""

from __future__ import annotations

from typing import Any

from netcl.core import config
from netcl.core.device.capabilities import profile_of
from netcl.core.errors import OutOfMemoryError

_ARRAYS = 2  # float64: an intermediate one and the result


def check_elements(op: str, count: int, queue: Any) -> None:
    """Raises OutOfMemoryError, before any memory is taken, if the arrays by which ``op`` makes ``count`` elements on
    the host do not fit the budget of the device's memory (NETCL_POOL_BUDGET_FRAC).
    """
    nbytes = 8 * _ARRAYS * count
    if nbytes >> 28:
        budget = int(config.get("POOL_BUDGET_FRAC") * profile_of(queue).global_mem_size)
        if nbytes > budget:
            error = OutOfMemoryError(nbytes, budget, op=op)
            error.args = (f"{op}: {error}",)
            raise error
