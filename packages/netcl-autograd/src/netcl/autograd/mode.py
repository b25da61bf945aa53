"""The switches of recording, the ones of netcl-core, and anomaly detection."""

from __future__ import annotations

from netcl.core.ops_table import modes
from netcl.core.process.grad_mode import Nodes as Nodes
from netcl.core.process.grad_mode import Switch
from netcl.core.process.grad_mode import enable_grad as enable_grad
from netcl.core.process.grad_mode import inference_mode as inference_mode
from netcl.core.process.grad_mode import is_grad_enabled as is_grad_enabled
from netcl.core.process.grad_mode import no_grad as no_grad
from netcl.core.process.grad_mode import set_grad_enabled as set_grad_enabled
from netcl.core.process.grad_mode import state as state

modes.register(lambda: None if state.enabled else False)


class detect_anomaly(Switch):
    """Makes each op store the line of its call, and a backward pass that finds NaN or Inf raise NonFiniteError with
    both. Each gradient is read on the host, so this is for debugging.
    """

    flag = "anomaly"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


class set_detect_anomaly(detect_anomaly):
    """Turns anomaly detection on or off in this thread, at once; as a block, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._at_call = state.anomaly
        state.anomaly = bool(mode)

    def __enter__(self) -> None:
        state.anomaly = self._at_call  # what the block's end restores
        super().__enter__()
