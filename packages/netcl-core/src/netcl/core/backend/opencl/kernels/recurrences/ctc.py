"""CTC forward-backward (alpha and beta) on OpenCL devices: one kernel for all steps."""

from __future__ import annotations

from typing import Any

from netcl.core.backend.opencl.templates import source, struct, traits
from netcl.core.storage.data import TensorData

_GROUP = 128  # work-items that share the states of a sample


def _program(dtype: str) -> str:
    return source(("storage", "ctc"), ((f"DTYPE_{dtype.upper()}", 1),))


def ctc(engine: Any, x: TensorData, jumps: TensorData, begins: TensorData | None = None) -> TensorData:
    """Returns the log-sum over all paths up to each step and state of ``x`` (steps, n, states), x included (alpha);
    with ``begins`` of x's shape over all paths from there on, x excluded (beta), where paths that end there contribute
    begins.

    A path stays, advances by one state, or jumps by two into a state that ``jumps`` (n, states), bool, allows.
    """
    out: TensorData = engine.empty(x.shape, x.dtype)
    if x.size == 0:
        return out
    steps, n, states = x.shape
    device = traits(engine)
    group = 1 if device.is_cpu else min(_GROUP, device.group)
    argument = struct(steps, n, states, int(begins is not None))
    buffers = [x, jumps, x if begins is None else begins, out]
    engine.launch(_program(x.dtype), "walk", (n * group,), (group,), [*buffers, argument])
    return out
