"""Device placement of a layer's tensors: queues from ``device=`` arguments, new parameters and buffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.device import DeviceHandle
from netcl.core.device import device as device_object
from netcl.core.dtypes import get_default_dtype
from netcl.core.errors import DeviceNotFoundError, ShapeError


def queue_of(device: Any) -> Any:
    """Returns the queue of a selector, ``nc.device``, DeviceHandle or queue; None for None, which means the active
    device.
    """
    if isinstance(device, device_object):
        device = str(device)
    if isinstance(device, (str, int)):
        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(f"there is no {device!r} device here")
        return handle.queue
    return device.queue if isinstance(device, DeviceHandle) else device


class _Thread(threading.local):
    elements_left: int | None = None


_thread = _Thread()


@contextmanager
def element_limit(elements: int) -> Iterator[None]:
    """Limits the elements of all tensors that layers of this thread create inside the block; beyond, they raise
    ShapeError.
    """
    outer, _thread.elements_left = _thread.elements_left, elements
    try:
        yield
    finally:
        _thread.elements_left = outer


def _count(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if _thread.elements_left is not None:
        _thread.elements_left -= math.prod(sizes)
        if _thread.elements_left < 0:
            raise ShapeError(f"a layer wants a tensor of shape {sizes}, more than there are values for")
    return sizes


def new_parameter(shape: Sequence[int], device: Any = None, dtype: Any = None) -> ag.Parameter:
    """Returns a parameter with undefined values; ``dtype`` None is the default dtype."""
    return ag.Parameter(
        Tensor.empty(_count(shape), dtype or get_default_dtype(), queue=queue_of(device), persistent=True)
    )


def new_buffer(shape: Sequence[int], value: float, device: Any = None, dtype: Any = None) -> Tensor:
    """Returns a tensor filled with ``value`` that is part of the state but not a parameter."""
    return Tensor.full(_count(shape), value, dtype or get_default_dtype(), queue=queue_of(device), persistent=True)


class Buffer:
    """A tensor that becomes a buffer of the module to which it is assigned: ``self.mean = Buffer(tensor)``; part of the
    module's state if ``persistent``.
    """

    def __init__(self, data: Tensor, *, persistent: bool = True) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(f"Buffer takes a tensor, not {type(data).__name__}")
        self.data: Tensor = data
        self.persistent: bool = persistent


def moved(t: Tensor, device: Any, dtype: str | None) -> Tensor:
    """Returns a persistent copy of ``t`` on ``device`` and in ``dtype``; ``t`` itself if nothing changes."""
    queue = t.queue if device is None else queue_of(device)
    dtype = t.dtype if dtype is None else dtype
    if queue is t.queue and dtype == t.dtype:
        return t
    return Tensor.empty(t.shape, dtype, queue=queue, persistent=True).write(t.detach())
