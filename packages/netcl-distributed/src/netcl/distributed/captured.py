"""Refuses the capture of a step with Python code that must run at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.errors import CaptureError

if TYPE_CHECKING or "staging" in LEVELS:
    from netcl.runtime.staging import host_call


def refuse_capture(tensor: Tensor, reason: str) -> None:
    """Raises CaptureError with ``reason`` if this thread captures a step on the device of ``tensor``."""
    if "staging" not in LEVELS:
        return
    called: list[bool] = []
    # A host call runs at once, unless a step is captured: then it runs in the replays.
    host_call(lambda reads, out: called.append(True), (tensor.detach(),), ())
    if not called:
        raise CaptureError(reason)
