"""The trial of the operations of a warp, in a child process: sorts by many work-groups that wait for each other."""

from __future__ import annotations

import numpy as np

from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import engine_of_driver
from netcl.core.backend.opencl.kernels.sorts.radix_sort import radix_sort, sort_long_rows
from netcl.core.backend.opencl.templates import traits
from netcl.core.device.drivers.child_probe import RIGHT, WRONG

_SIZES = (1 << 20, 300_007)


def run_trial(name: str, key: str) -> int:
    """Returns the exit code of a trial of the row ``name`` on the first device with the driver ``key``: sorts of drawn
    integers of 32 and 64 bits, with many equals, have the right values and positions.

    Raises LookupError if there is no such device.
    """
    engine, rng = engine_of_driver(key), np.random.default_rng(0)
    for size, dtype in zip(_SIZES, ("int32", "int64")):
        drawn = rng.integers(-(2**14), 2**14, size)
        x = engine.tensor(drawn, dtype)
        how = radix_sort(1, size, x.nbytes // size, traits(engine), name, False)
        if how is None:
            return WRONG
        values, positions = engine.empty((size,), dtype), engine.empty((size,), "int64")
        sort_long_rows(how, False, engine, x, values, positions)
        order = np.argsort(drawn, kind="stable")
        if not np.array_equal(engine.read(positions), order) or not np.array_equal(engine.read(values), drawn[order]):
            return WRONG
    return RIGHT
