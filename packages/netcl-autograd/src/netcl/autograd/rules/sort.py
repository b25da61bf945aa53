"""Gradients of ordering: back to the positions that the elements came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("sort", x="out1")
def sort(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Each element's gradient where it came from; none where nothing was taken."""
    return {"x": call.op("place_along", grad, call.out1, call.axis, call.x.shape)}


rule("topk", x="out1")(sort)


@rule("place_along", x="index")
def place_along(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Taken from where it was placed."""
    return {"x": call.op("gather", grad, call.axis, call.index) if grad.ndim else grad}
