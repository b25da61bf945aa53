"""Device placement of a layer's tensors: queues from ``device=`` arguments, new parameters and buffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.device import DeviceHandle
from netcl.core.device import device as device_object
from netcl.core.dtypes import get_default_dtype, numpy_dtype
from netcl.core.errors import DeviceNotFoundError


def queue_of(device: Any) -> Any:
    """Returns the queue of a selector, ``nc.device``, DeviceHandle or queue; None for None, which means the active
    device.
    """
    if isinstance(device, (str, int, device_object)):
        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(
                f"there is no {device!r} device here; 'auto' is the best one, and `netcl devices` lists them"
            )
        return handle.queue
    return device.queue if isinstance(device, DeviceHandle) else device


class ConstructionMeter(Protocol):
    """Limits the layers that a file describes: each method raises ValueError if there is nothing left (netcl.io)."""

    def spend(self, nbytes: int, what: str) -> None: ...

    def count(self, number: int, what: str) -> None: ...

    def take(self, seconds: float, what: str) -> None: ...


class _Thread(threading.local):
    meter: ConstructionMeter | None = None


# A module or a tensor is about this many objects: itself, its tables of parameters, buffers, modules and hooks.
_OBJECTS = 10
_SECONDS = 1e-4


_thread = _Thread()


@contextmanager
def metered(meter: ConstructionMeter) -> Iterator[None]:
    """Counts on ``meter`` all tensors and modules that this thread creates inside the block."""
    outer, _thread.meter = _thread.meter, meter
    try:
        yield
    finally:
        _thread.meter = outer


def construction_meter() -> ConstructionMeter | None:
    """Returns the meter of the file that this thread builds layers from, else None."""
    return _thread.meter


def count_module() -> None:
    """Counts a module or a tensor, new or copied, while a file is built."""
    if _thread.meter is not None:
        _thread.meter.count(_OBJECTS, "the layers that it describes")
        _thread.meter.take(_SECONDS, "building the layers that it describes")


def count_tensor(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """Counts a tensor while a file is built, before it is allocated; returns its shape."""
    sizes = tuple(shape)
    count_module()
    if _thread.meter is not None:
        _thread.meter.spend(
            max(0, math.prod(sizes)) * numpy_dtype(dtype).itemsize, f"a layer's tensor of shape {sizes}"
        )
    return sizes


def new_parameter(shape: Sequence[int], device: Any = None, dtype: Any = None) -> ag.Parameter:
    """Returns a parameter with undefined values; ``dtype`` None is the default dtype."""
    dtype = dtype or get_default_dtype()
    return ag.Parameter(Tensor.empty(count_tensor(shape, dtype), dtype, queue=queue_of(device), persistent=True))


def new_buffer(shape: Sequence[int], value: float, device: Any = None, dtype: Any = None) -> Tensor:
    """Returns a tensor filled with ``value`` that is part of the state but not a parameter."""
    dtype = dtype or get_default_dtype()
    return Tensor.full(count_tensor(shape, dtype), value, dtype, queue=queue_of(device), persistent=True)


class Buffer:
    """A tensor that becomes a buffer on assignment to a module: ``self.mean = Buffer(tensor)``; part of the
    module's state if ``persistent``.
    """

    def __init__(self, data: Tensor, *, persistent: bool = True) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(f"Buffer: expected a tensor, got {type(data).__name__}")
        self.data: Tensor = data
        self.persistent: bool = persistent


def moved(t: Tensor, device: Any, dtype: str | None) -> Tensor:
    """Returns a persistent copy of ``t`` on ``device`` and in ``dtype``; ``t`` itself if nothing changes."""
    queue = t.queue if device is None else queue_of(device)
    dtype = t.dtype if dtype is None else dtype
    if queue is t.queue and dtype == t.dtype:
        return t
    return Tensor.empty(t.shape, dtype, queue=queue, persistent=True).write(t.detach())
