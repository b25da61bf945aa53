"""Sums over the paths through a trellis on OpenCL devices: one kernel for all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.templates import source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_GROUP = 128  # work-items that share the states of a sample


def _program(dtype: str) -> str:
    return source(("storage", "trellis"), ((f"DTYPE_{dtype.upper()}", 1),))


def trellis(engine: Any, x: TensorData, jumps: TensorData, begins: TensorData | None = None) -> TensorData:
    """What all paths up to each step and state of ``x`` (steps, n, states) amount to, in logarithms, x included; with
    ``begins`` of x's shape what all paths from there on do, x left out, of which those that end there give begins.

    A path stays, goes on by one state, or jumps by two into a state that ``jumps`` (n, states), bool, allows.
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
