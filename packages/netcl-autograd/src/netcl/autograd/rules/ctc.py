"""The gradient rule of CTC (Graves et al. 2006): the occupancy of each state at each step, by forward-backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("ctc_paths", emissions="emissions jumps lengths labels out out1")
def ctc_paths(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Minus the occupancy of the states, times each sample's gradient."""
    share = call.op("ctc_occupancy", call.emissions, call.jumps, call.lengths, call.labels, call.out, call.out1)
    weight = call.op("reshape", call.op("neg", grad), (1, grad.shape[0], 1))
    return {"emissions": call.op("mul", share, weight)}
