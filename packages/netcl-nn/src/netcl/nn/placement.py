"""Where the tensors of a layer lie: queues from ``device=`` arguments, new parameters and buffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.device import DeviceHandle
from netcl.core.errors import DeviceNotFoundError, ShapeError


def queue_of(device: Any) -> Any:
    """The queue of a selector, DeviceHandle or queue; None stays None, the active device."""
    if isinstance(device, str):
        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(f"there is no {device!r} device here")
        return handle.queue
    return device.queue if isinstance(device, DeviceHandle) else device


class _Thread(threading.local):
    room: int | None = None


_thread = _Thread()


@contextmanager
def limited(elements: int) -> Iterator[None]:
    """Within the block, layers of this thread may make tensors of so many elements in all; ShapeError beyond."""
    outer, _thread.room = _thread.room, elements
    try:
        yield
    finally:
        _thread.room = outer


def _count(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if _thread.room is not None:
        _thread.room -= math.prod(sizes)
        if _thread.room < 0:
            raise ShapeError(f"a layer wants a tensor of shape {sizes}, more than there are values for")
    return sizes


def new_parameter(shape: Sequence[int], device: Any = None, dtype: str = "float32") -> ag.Parameter:
    """A parameter of undefined content."""
    return ag.Parameter(Tensor.empty(_count(shape), dtype, queue=queue_of(device), persistent=True))


def new_buffer(shape: Sequence[int], value: float, device: Any = None, dtype: str = "float32") -> Tensor:
    """A tensor filled with ``value`` that is state but no parameter."""
    return Tensor.full(_count(shape), value, dtype, queue=queue_of(device), persistent=True)


def moved(t: Tensor, device: Any, dtype: str | None) -> Tensor:
    """A persistent copy of ``t`` on ``device`` and in ``dtype``; ``t`` itself where nothing changes."""
    queue = t.queue if device is None else queue_of(device)
    dtype = t.dtype if dtype is None else dtype
    if queue is t.queue and dtype == t.dtype:
        return t
    return Tensor.empty(t.shape, dtype, queue=queue, persistent=True).write(t.detach())
