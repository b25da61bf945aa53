"""Host calls: functions of the host that have a place among the calls of an engine, the same for all backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.engine.recording import open_here
from netcl.core.storage.data import TensorData

if TYPE_CHECKING:
    Action = Callable[[Sequence[TensorData], Sequence[TensorData]], object]


class _HostCall:
    """A recorded host call. Its tensors have no lease, so that it does not count as a reference to their storage."""

    def __init__(self, action: Action, reads: Sequence[TensorData], out: Sequence[TensorData]) -> None:
        self._action = action
        self._reads = tuple(map(_without_lease, reads))
        self._out = tuple(map(_without_lease, out))

    def __call__(self) -> None:
        self._action(self._reads, self._out)


def _without_lease(tensor: TensorData) -> TensorData:
    engine = tensor.engine
    return type(tensor)._wrap(engine, tensor.shape, tensor.dtype, tensor.buffer, tensor.array, None)


def host_call(engine: Any, action: Action, reads: Sequence[TensorData], *, out: Sequence[TensorData]) -> None:
    """Calls ``action(reads, out)`` at once, or in its position in each replay while this thread records."""
    recording = open_here(engine)
    if recording is None:
        action(reads, out)
    else:
        recording.append(_HostCall(action, reads, out), (*reads, *out))
