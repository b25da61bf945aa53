"""Where the tensors of a layer lie: queues from ``device=`` arguments, new parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.device import DeviceHandle
from netcl.core.errors import DeviceNotFoundError


def queue_of(device: Any) -> Any:
    """The queue of a selector, DeviceHandle or queue; None stays None, the active device."""
    if isinstance(device, str):
        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(f"there is no {device!r} device here")
        return handle.queue
    return device.queue if isinstance(device, DeviceHandle) else device


def new_parameter(shape: Sequence[int], device: Any = None, dtype: str = "float32") -> ag.Parameter:
    """A parameter of undefined content."""
    return ag.Parameter(Tensor.empty(tuple(shape), dtype, queue=queue_of(device), persistent=True))


def new_buffer(shape: Sequence[int], value: float, device: Any = None, dtype: str = "float32") -> Tensor:
    """A tensor filled with ``value`` that is state but no parameter."""
    return Tensor.full(tuple(shape), value, dtype, queue=queue_of(device), persistent=True)


def moved(t: Tensor, device: Any, dtype: str | None) -> Tensor:
    """A persistent copy of ``t`` on ``device`` and in ``dtype``; ``t`` itself where nothing changes."""
    queue = t.queue if device is None else queue_of(device)
    dtype = t.dtype if dtype is None else dtype
    if queue is t.queue and dtype == t.dtype:
        return t
    return Tensor.empty(t.shape, dtype, queue=queue, persistent=True).write(t.detach())
