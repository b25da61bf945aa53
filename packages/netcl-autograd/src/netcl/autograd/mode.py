"""The switches of recording, the ones of netcl-core, and anomaly detection."""

from __future__ import annotations

from netcl.core.ops_table import modes
from netcl.core.process.grad_mode import (
    Nodes,
    Switch,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
    state,
)

__all__ = [
    "Nodes",
    "detect_anomaly",
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "state",
]

modes.register(lambda: None if state.enabled else False)


class detect_anomaly(Switch):
    """Makes each op store the line of its call, and a backward pass that finds NaN or Inf raise NonFiniteError with
    both.

    Each gradient is read on the host, so this is for debugging.
    """

    flag = "anomaly"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


def set_detect_anomaly(mode: bool) -> None:
    """Turns anomaly detection on or off in this thread."""
    state.anomaly = bool(mode)
